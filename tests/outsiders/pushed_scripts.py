"""Queries that come and go over rows that are pushed: what each gives is what DuckDB says of the rows that were not too
late for it, from the instant on that it names. Drawn and written for itself, after the pages on several queries and on
the language."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa

import watersmeet as wm

Row = dict[str, Any]
Bag = Counter[tuple[Any, ...]]
NOON, SECOND, MICROSECOND = dt.datetime(2026, 1, 1, 12), dt.timedelta(seconds=1), dt.timedelta(microseconds=1)
NAMES = ("a", "b", "c")
KEYS = {"a": "BIGINT", "b": "INT", "c": "SMALLINT"}  # which meet without a CAST
SCHEMA = pa.schema(
    [("id", pa.int64()), ("k", pa.int64()), ("x", pa.int32()), ("s", pa.string()), ("ts", pa.timestamp("us"))]
)
LENGTHS = (0, 1, 3, 10)
CONDITIONS = (
    "{u}.x > 1", "{u}.x <> 3", "{u}.s = 'p'", "{u}.k = 1", "{u}.k IN (1, 2)", "{u}.s IS NOT NULL", "{u}.id % 2 = 0",
    "({u}.x IS NULL OR {u}.k > 1)", "{u}.k = 2 AND {u}.s = 'q'",
)  # fmt: skip
AGGREGATES = (
    "COUNT(*)", "SUM(u.x)", "MIN(u.x)", "MAX(u.s)", "COUNT(DISTINCT u.s)", "MAX(u.id)", "MEDIAN(u.x)",
    "COUNT(*) FILTER (WHERE u.x > 1)",
)  # fmt: skip
# Over one window, and over two; {w} and {v} are conditions.
OF_ONE = (
    "SELECT u.k, {f} AS g FROM {0} WHERE {w} GROUP BY u.k",
    "SELECT u.k, u.s, {f} AS g FROM {0} GROUP BY u.k, u.s HAVING COUNT(*) > 1",
    "SELECT {f} AS g FROM {0} WHERE {w}",
    "SELECT DISTINCT u.k, u.s FROM {0} WHERE {w}",
    "SELECT u.x, u.id FROM {0} WHERE {w} ORDER BY u.x DESC NULLS LAST, u.id LIMIT 2",
    "SELECT u.id, RANK() OVER (PARTITION BY u.k ORDER BY u.x NULLS LAST) AS place FROM {0} WHERE {w}",
)
OF_TWO = (
    "SELECT u.s, COUNT(*) AS n, MAX(v.x) AS most FROM {0}, {1} WHERE u.k = v.k AND {w} GROUP BY u.s",
    "SELECT DISTINCT u.s, v.x FROM {0} LEFT JOIN {1} ON u.k = v.k",
    "SELECT u.s, COUNT(v.id) AS n FROM {0} FULL JOIN {1} ON u.k = v.k GROUP BY u.s",
    "SELECT DISTINCT u.id FROM {0} WHERE u.x NOT IN (SELECT v.x FROM {1})",
    "SELECT DISTINCT u.id FROM {0} WHERE EXISTS (SELECT 1 FROM {1} WHERE v.k = u.k AND {v})",
    "SELECT DISTINCT u.id FROM {0} WHERE u.x > (SELECT AVG(v.x) FROM {1})",
    "SELECT u.x FROM {0} WHERE {w} EXCEPT ALL SELECT v.x FROM {1}",
    "SELECT u.s FROM {0} INTERSECT SELECT v.s FROM {1} WHERE {v}",
)


@dataclass(frozen=True)
class Asked:
    """In both languages. Of an answer that changes DuckDB's has $T where the instant belongs, of one that grows the
    last column is its event time."""

    ours: str
    theirs: str
    changes: bool
    streams: frozenset[str]


class Drawing:
    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.lengths = draw.sample(LENGTHS, 2)  # few, so that queries have some in common
        self.conditions = draw.sample(CONDITIONS, 3)

    def condition(self, alias: str) -> str:
        return self.draw.choice(self.conditions).format(u=alias)

    def query(self) -> Asked:
        return self.draw.choice((self.join, self.join, self.selection, self.of_one, self.of_two))()

    def selection(self) -> Asked:
        stream = self.draw.choice(NAMES)
        text = f"SELECT u.id, u.s, u.ts AS at FROM {stream} AS u WHERE {self.condition('u')}"
        return Asked(text, text, False, frozenset(stream))

    def join(self) -> Asked:
        draw, aliases = self.draw, "uvw"[: self.draw.choice((2, 2, 3))]
        streams = [draw.choice(NAMES) for _ in aliases]
        conditions = [f"u.{key} = {one}.{key}" for one in aliases[1:] for key in draw.choice(("k", "k", "x", "s"))]
        conditions += [self.condition(one) for one in aliases if draw.random() < 0.4]
        pairs = [(one, other) for one in aliases for other in aliases if one != other]
        length, each = draw.choice(self.lengths), {one: draw.choice(self.lengths) for one in aliases}
        if draw.random() < 0.5:
            sources = [f"{stream} AS {one}" for stream, one in zip(streams, aliases, strict=True)]
            windows, each = f" WINDOW = {length} SECONDS", dict.fromkeys(aliases, length)
        else:
            sources = [
                f"{stream} [RANGE {each[one]} SECONDS] AS {one}" for stream, one in zip(streams, aliases, strict=True)
            ]
            windows = ""
        bounds = [f"{other}.ts <= {one}.ts + INTERVAL {each[one]} SECONDS" for one, other in pairs]
        columns = f"u.id, {aliases[-1]}.id AS other, v.s"
        ours = (
            f"SELECT {columns}, event_time() AS at FROM {', '.join(sources)} WHERE {' AND '.join(conditions)}{windows}"
        )
        newest = f"greatest({', '.join(f'{one}.ts' for one in aliases)})"
        plain = ", ".join(f"{stream} AS {one}" for stream, one in zip(streams, aliases, strict=True))
        theirs = f"SELECT {columns}, {newest} AS at FROM {plain} WHERE {' AND '.join(conditions + bounds)}"
        return Asked(ours, theirs, False, frozenset(streams))

    def of_one(self) -> Asked:
        return self._over(self.draw.choice(OF_ONE), "u")

    def of_two(self) -> Asked:
        return self._over(self.draw.choice(OF_TWO), "uv")

    def _over(self, text: str, aliases: str) -> Asked:
        words = {"f": self.draw.choice(AGGREGATES), "w": self.condition("u"), "v": self.condition("v")}
        streams, ours, theirs = [], [], []
        for alias in aliases:
            stream, length = self.draw.choice(NAMES), self.draw.choice(self.lengths)
            streams.append(stream)
            ours.append(f"{stream} [RANGE {length} SECONDS] AS {alias}")
            held = f"ts <= $T AND ts >= $T - INTERVAL {length} SECONDS"
            theirs.append(f"(SELECT * FROM {stream} WHERE {held}) AS {alias}")
        return Asked(text.format(*ours, **words), text.format(*theirs, **words), True, frozenset(streams))

    def pushes(self, behind_s: float) -> list[tuple[str, list[Row]]]:
        """Rows of all streams as they come, each up to so many seconds behind its time; some streams are short."""
        draw, coming = self.draw, []
        for name in NAMES:
            for _ in range(draw.choice((0, 20, 40, 40))):
                at = NOON + draw.randrange(60) * SECOND + draw.choice((0, 0, 0, 1)) * MICROSECOND
                keys = {"k": draw.choice((None, 0, 1, 1, 2, 3)), "x": draw.choice((None, 0, 1, 2, 3, 5, -1))}
                row = {"id": 0, **keys, "s": draw.choice((None, "", "p", "q")), "ts": at}
                come = at + draw.random() * behind_s * SECOND
                coming += [(come, name, dict(row)) for _ in range(draw.choice((1, 1, 1, 2)))]
        coming.sort(key=lambda one: one[0])
        pushes: list[tuple[str, list[Row]]] = []
        for number, (_, name, row) in enumerate(coming):
            row["id"] = number
            if pushes and pushes[-1][0] == name and draw.random() < 0.7:
                pushes[-1][1].append(row)
            else:
                pushes.append((name, [row]))
        return pushes


def session(lateness_s: int) -> wm.Session:
    made = wm.Session()
    for name in NAMES:
        schema = {"id": "BIGINT", "k": KEYS[name], "x": "INT", "s": "TEXT", "ts": "TIMESTAMP"}
        made.stream(name, schema=schema, time="ts", lateness=f"{lateness_s} seconds")
    return made


def taken_in(
    asked: Asked, pushes: Sequence[tuple[str, list[Row]]], lateness_s: int
) -> tuple[dict[str, list[Row]], Counter[str]]:
    """The rows of each stream that are not too late for a query that sees them all, and how many are."""
    newest: dict[str, dt.datetime] = {}
    found: dict[str, list[Row]] = {name: [] for name in NAMES}
    late: Counter[str] = Counter()
    for name, row in ((name, row) for name, rows in pushes if name in asked.streams for row in rows):
        if newest.keys() == asked.streams and row["ts"] < min(newest.values()) - lateness_s * SECOND:
            late[name] += 1
            continue
        found[name].append(row)
        newest[name] = max(newest.get(name, row["ts"]), row["ts"])
    return found, late


def check(
    asked: Asked, given: pa.Table, rows: Mapping[str, list[Row]], draw: random.Random, whole: dt.datetime
) -> None:
    """whole: from when on the answer is to be given; nothing before that."""
    with duckdb.connect() as duck:
        for name in NAMES:
            duck.register("rows", pa.Table.from_pylist(rows[name], SCHEMA)).execute(f"CREATE TABLE {name} AS FROM rows")
        if not asked.changes:
            expected = bag(row for row in duck.execute(asked.theirs).fetchall() if row[-1] >= whole)
            assert bag(tuple(row.values()) for row in given.to_pylist()) == expected, asked.ours
            return
        times = [row["ts"] for name in asked.streams for row in rows[name]]
        if not times:
            assert given.num_rows == 0
            return
        log = given.to_pylist()
        assert all(row["_ts"] >= whole for row in log), asked.ours
        ends = {
            time + length * SECOND + more for time in times for length in LENGTHS for more in (0 * SECOND, MICROSECOND)
        }
        for at in draw.sample(sorted(ends), min(6, len(ends))):
            if at < whole:
                continue
            held: Bag = Counter()
            for row in log:
                if row["_ts"] <= at:
                    (one,) = bag([tuple(row[name] for name in row if name not in ("_op", "_ts"))])
                    held[one] += 1 if row["_op"] == "+" else -1
            assert min(held.values(), default=0) >= 0, asked.ours
            expected = (
                bag(duck.execute(asked.theirs.replace("$T", f"TIMESTAMP '{at}'")).fetchall())
                if at >= min(times)
                else Counter()
            )
            assert +held == expected, f"{asked.ours} at {at}"


def bag(rows: Any) -> Bag:
    return Counter(tuple(round(float(one), 9) if isinstance(one, float) else one for one in row) for row in rows)
