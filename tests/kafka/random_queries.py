"""Random queries over the usual rows, drawn by a seed, and what DuckDB says of the same rows.

Streams end with one row in each partition that is far behind all others in time: until there every answer is certain.
What these last rows are part of is left out of the comparison.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tests.durable.lives import MINUTE_US, rows_of
from tests.runners import Source, bound_plan
from watersmeet.checking.compare import surplus
from watersmeet.checking.recompute import DuckDB
from watersmeet.io.connectors.kafka.encoding import json_records
from watersmeet.model.time import parse_interval
from watersmeet.plan.query import Plan

STREAMS = ("a", "b", "c", "d")
LAST_ID = 1_000_000  # and more: the rows that end a stream
EPOCH = datetime(1970, 1, 1)
Answer = Counter[tuple[Any, ...]]


@dataclass(frozen=True)
class RandomQuery:
    """`ids`: the columns that tell of which rows an answer is made, if it has them."""

    sql: str
    streams: tuple[str, ...]
    ids: tuple[str, ...] = ()
    upsert: bool = False


@dataclass(frozen=True)
class Data:
    """The rows of all streams by partition, in the order in which they are put there; `gap`: after how long, behind all
    others, the last row of each partition comes."""

    count: int
    partitions: int
    lateness: str
    gap: str
    seed: int = 0

    def rows(self, stream: str) -> list[pa.Table]:
        rows = rows_of(stream, self.count, self.seed)
        places = list(range(self.count))
        return [
            pa.concat_tables([rows.take(places[one :: self.partitions]), self._last(one)])
            for one in range(self.partitions)
        ]

    def table(self, stream: str) -> pa.Table:
        return pa.concat_tables(self.rows(stream))

    def _last(self, partition: int) -> pa.Table:
        return pa.table(
            {
                "id": pa.array([LAST_ID + partition]),
                "k": pa.array([partition], pa.int64()),
                "v": pa.array([0.5]),
                "s": pa.array(["w0"]),
                "ts": pa.array([self.end_us], pa.timestamp("us")),
            }
        )

    @property
    def end_us(self) -> int:
        return 2 * MINUTE_US + parse_interval(self.gap)

    @property
    def certain_us(self) -> int:
        """Before this instant all is certain when all rows were read."""
        return self.end_us - parse_interval(self.lateness)


# ---- queries --------------------------------------------------------------------------------------------------------


def random_queries(seed: int, kinds: Sequence[str] | None = None) -> list[RandomQuery]:
    """One of each kind."""
    rng = Random(seed)
    return [KINDS[kind](rng) for kind in kinds or KINDS]


def _filters(rng: Random, aliases: Sequence[str]) -> list[str]:
    one = rng.choice(aliases)
    some = [f"{one}.v < 0.8", f"{one}.s <> 'w1'", f"{one}.id % 3 > 0", f"{one}.k BETWEEN 2 AND 17"]
    return rng.sample(some, rng.choice([0, 0, 1, 2]))


def _keys(rng: Random, u: str, v: str) -> list[str]:
    return rng.choice([[f"{u}.k = {v}.k"], [f"{u}.k = {v}.k"], [f"{u}.k = {v}.k", f"{u}.v < {v}.v + 0.5"]])


def inner_join(rng: Random) -> RandomQuery:
    """Of two to four streams, under any kind of windows."""
    aliases = STREAMS[: rng.choice([2, 3, 3, 4])]
    where = [test for u, v in pairwise(aliases) for test in _keys(rng, u, v)] + _filters(rng, aliases)
    form = rng.choice(["one", "pairs", "directed", "brackets", "path"])
    sizes = [rng.choice([2, 4, 6, 8]) for _ in aliases]
    pairs = [(u, v, size) for (u, v), size in zip(pairwise(aliases), sizes[1:], strict=True)]
    said = ", ".join(aliases)
    windows = {
        "one": f"WINDOW = {sizes[0]} SECONDS",
        "pairs": " AND ".join(f"WINDOW ({u}, {v}) = {n} SECONDS" for u, v, n in pairs),
        "directed": " AND ".join(f"DWINDOW ({u}, {v}) = {n} SECONDS" for u, v, n in pairs),
        "path": f"WINDOW PATH ({said}) = ({', '.join(f'{n} SECONDS' for n in sizes[1:])})",
        "brackets": "",
    }[form]
    if form == "brackets":
        said = ", ".join(f"{one} [RANGE {n} SECONDS]" for one, n in zip(aliases, sizes, strict=True))
    ids = tuple(f"id_{one}" for one in aliases)
    listed = ", ".join(f"{one}.id AS id_{one}" for one in aliases)
    sql = f"SELECT {listed}, {aliases[-1]}.s, a.v FROM {said} WHERE {' AND '.join(where)} {windows}"
    return RandomQuery(sql, aliases, ids)


def outer_join(rng: Random) -> RandomQuery:
    """Rows without a partner come when it is certain that they have none."""
    aliases = STREAMS[: rng.choice([2, 2, 3])]
    text, seen = aliases[0], [aliases[0]]
    for one in aliases[1:]:
        other = rng.choice(seen)
        before, after = rng.choice([0, 1, 2]), rng.choice([1, 2, 4])
        near = f"{one}.ts BETWEEN {other}.ts - INTERVAL {before} SECONDS AND {other}.ts + INTERVAL {after} SECONDS"
        kind = rng.choice(["LEFT", "LEFT", "FULL", "RIGHT"] if len(aliases) == 2 else ["LEFT"])
        text += f" {kind} JOIN {one} ON {' AND '.join([*_keys(rng, other, one), near])}"
        seen.append(one)
    ids = tuple(f"id_{one}" for one in aliases)
    return RandomQuery(f"SELECT {', '.join(f'{one}.id AS id_{one}' for one in aliases)} FROM {text}", aliases, ids)


def _measures(rng: Random, one: str) -> str:
    some = [f"SUM({one}.id) AS total", f"MIN({one}.v) AS low", f"MAX({one}.v) AS high", f"MAX({one}.s) AS word",
            f"COUNT(DISTINCT {one}.s) AS words", f"AVG({one}.id) AS mean"]  # fmt: skip
    return ", ".join(["COUNT(*) AS n", *rng.sample(some, 2)])


def window_groups(rng: Random) -> RandomQuery:
    """Groups of windows, each given once, when its window has ended."""
    size = rng.choice([2, 4, 10])
    window = rng.choice([f"TUMBLE(a, {size} SECONDS)", f"HOP(a, {size // 2} SECONDS, {size} SECONDS)"])
    key = rng.choice(["k", "s"])
    where = " ".join(f"WHERE {one}" for one in _filters(rng, ["w"])[:1])
    listed = f"w.window_start, w.window_end, w.{key}, {_measures(rng, 'w')}"
    return RandomQuery(
        f"SELECT {listed} FROM {window} AS w {where} GROUP BY w.window_start, w.window_end, w.{key}", ("a",)
    )


def changing_groups(rng: Random, upsert: bool = False) -> RandomQuery:
    """Groups of a stream or a join in windows: rows come and go."""
    aliases = STREAMS[: rng.choice([1, 2, 2])]
    sizes = [150, 200] if upsert else [3, 10, 150]  # of which something is there at the end
    said = ", ".join(f"{one} [RANGE {rng.choice(sizes)} SECONDS] AS {one}" for one in aliases)
    where = [test for u, v in pairwise(aliases) for test in _keys(rng, u, v)] + _filters(rng, aliases)
    near = [f"ABS(EPOCH_US({u}.ts) - EPOCH_US({v}.ts)) <= 3000000" for u, v in pairwise(aliases)]
    tests = f" WHERE {' AND '.join([*where, *near])}" if where or near else ""
    key = rng.choice(["k", "s"])
    having = "" if upsert else rng.choice(["", " HAVING COUNT(*) > 1"])
    sql = f"SELECT a.{key} AS g, {_measures(rng, aliases[-1])} FROM {said}{tests} GROUP BY a.{key}{having}"
    return RandomQuery(sql, aliases, upsert=upsert)


def distinct_rows(rng: Random) -> RandomQuery:
    sizes = [rng.choice([2, 5, 20]) for _ in "ab"]
    where = " AND ".join([*_keys(rng, "a", "b"), *_filters(rng, ["a", "b"])])
    said = f"a [RANGE {sizes[0]} SECONDS], b [RANGE {sizes[1]} SECONDS]"
    return RandomQuery(f"SELECT DISTINCT a.k, b.s FROM {said} WHERE {where}", ("a", "b"))


KINDS: dict[str, Callable[[Random], RandomQuery]] = {
    "inner": inner_join,
    "outer": outer_join,
    "windows": window_groups,
    "changes": changing_groups,
    "distinct": distinct_rows,
    "upsert": lambda rng: changing_groups(rng, upsert=True),
}


# ---- what DuckDB says -----------------------------------------------------------------------------------------------


def expected(query: RandomQuery, data: Data) -> Answer:
    """The records of the answer, as bytes of JSON; of a changing one the net changes of each instant."""
    sources = [Source(one, data.table(one), "ts", data.lateness) for one in query.streams]
    plan = bound_plan(query.sql, sources)
    if query.upsert or plan.kind == "changes":
        oracle = DuckDB(plan, {one.name: one.table for one in sources})
        return _last_answer(oracle, data) if query.upsert else _log(oracle, data)
    rows = DuckDB(plan, {one.name: _without_last(one.table) for one in sources}).combinations()
    return _encoded(plan, rows)


def _without_last(table: pa.Table) -> pa.Table:
    return table.filter(pc.less(table["id"], LAST_ID))


def _log(oracle: DuckDB, data: Data) -> Answer:
    found: list[tuple[Any, ...]] = []
    before: list[tuple[Any, ...]] = []
    instants = [at for at in oracle.instants() if at < data.certain_us]
    for at_us, rows in oracle.answers(instants):
        at = EPOCH + timedelta(microseconds=at_us)
        found += [("-", at, *row) for row in surplus(before, rows)] + [("+", at, *row) for row in surplus(rows, before)]
        before = rows
    return _encoded(oracle.plan, found)


def _last_answer(oracle: DuckDB, data: Data) -> Answer:
    """What is there when all that is certain was told, with the moment at which each row came."""
    there: dict[tuple[Any, ...], datetime] = {}
    for at_us, rows in oracle.answers([at for at in oracle.instants() if at < data.certain_us]):
        at = EPOCH + timedelta(microseconds=at_us)
        there = {row: there.get(row, at) for row in rows}
    return _encoded(oracle.plan, [("+", at, *row) for row, at in there.items()], without="_op")


def _encoded(plan: Plan, rows: Sequence[tuple[Any, ...]], without: str | None = None) -> Answer:
    if not rows:
        return Counter()
    schema = plan.output_schema
    arrays = [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), schema, strict=True)]
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
    if without is not None:
        batch = batch.drop_columns([without])
    return Counter((one,) for one in json_records(batch))


# ---- what the topic has ---------------------------------------------------------------------------------------------


def found(query: RandomQuery, records: Sequence[tuple[bytes | None, bytes | None]], data: Data) -> Answer:
    """The same of the records of a topic, each partition's in order."""
    if query.upsert:
        last: Mapping[bytes | None, bytes | None] = dict(records)
        return Counter((value,) for value in last.values() if value is not None)
    kept: Answer = Counter()
    for _, value in records:
        assert value is not None
        row = json.loads(value)
        if not any((row[one] or 0) >= LAST_ID for one in query.ids):
            kept[(value,)] += 1
    return kept
