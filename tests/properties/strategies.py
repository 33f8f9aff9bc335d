"""Random queries with random data: SQL text, the streams it reads, and how their rows arrive.

Domains are small so that keys, times and window edges coincide often. Times are half seconds, windows whole ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise, permutations
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from tests.runners import Source

EPOCH = datetime(2024, 1, 1)
COLUMNS: dict[str, pa.DataType] = {
    "k": pa.int64(), "j": pa.int32(), "s": pa.string(), "d": pa.decimal128(6, 2), "f": pa.float64(),
    "w": pa.timestamp("us"), "day": pa.date32(), "b": pa.bool_(),
}  # fmt: skip
DOMAINS: dict[str, list[Any]] = {
    "k": [1, 1, 1, 2, 0, 3, -1, None],
    "j": [1, 1, 2, 0, None],
    "s": ["a", "a", "ab", "b", "", None],
    "d": [Decimal("0.00"), Decimal("0.50"), Decimal("1.00"), Decimal("-1.25"), Decimal("0.57"), None],
    "f": [0.0, -0.0, 0.5, 1.0, -1.5, 0.57, float("nan"), None],
    "w": [EPOCH, EPOCH + timedelta(seconds=3), EPOCH + timedelta(seconds=6), None],
    "day": [date(2024, 1, 1), date(2024, 1, 2), None],
    "b": [True, True, False, None],
}
KEYS = ["k", "j", "s", "d", "w", "f", "day", "b"]
ALIASES = "abcde"
MAX_ROWS = {1: 12, 2: 12, 3: 9, 4: 6, 5: 5}


@dataclass(frozen=True)
class Case:
    """A query in parts, so that a test can add conditions, and the sources it reads."""

    select: str
    sources_sql: str
    conditions: tuple[str, ...]
    constraints: tuple[str, ...]
    options: str
    sources: tuple[Source, ...]
    meaning: str  # the ids of the combinations in plain SQL

    @property
    def sql(self) -> str:
        where = f"\nWHERE {' AND '.join(self.conditions)}" if self.conditions else ""
        windows = f"\n{' AND '.join(self.constraints)}" if self.constraints else ""
        return f"SELECT {self.select}\nFROM {self.sources_sql}{where}{windows}{self.options}"

    def where(self, condition: str) -> Case:
        return replace(self, conditions=(*self.conditions, condition))

    def ids_only(self) -> Case:
        """The same query selecting every row's id, which stand first in the select list, and nothing else."""
        return replace(self, select=", ".join(part for part in self.select.split(", ") if part.endswith("_id")))

    def __repr__(self) -> str:
        streams = [
            f"{s.name} (lateness {s.lateness}):\n{s.table.to_pandas().to_string() if len(s.table) else 'empty'}"
            for s in self.sources
        ]
        return "\n".join(["", self.sql, *streams, self.meaning])


# ---- data -----------------------------------------------------------------------------------------------------------


def values(name: str) -> st.SearchStrategy[Any]:
    return st.sampled_from(DOMAINS[name])


@st.composite
def rows(draw: st.DrawFn, most: int) -> list[tuple[Any, ...]]:
    """Mostly enough rows for something to match; now and then few or none."""
    least = draw(one_in(8, 0, most // 2 + 1))
    return draw(st.lists(st.tuples(*map(values, COLUMNS)), min_size=least, max_size=most))


BETWEEN_BURSTS = 20  # half seconds


def one_in(n: int, rare: Any, usual: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from([usual] * (n - 1) + [rare])


@st.composite
def streams(draw: st.DrawFn, name: str, most: int, late: bool = True) -> Source:
    """A stream whose rows arrive in order, disordered within lateness, or, if `late` allows it, partly too late. Now
    and then they are two bursts, further apart than windows are long."""
    data = draw(rows(most))
    halves = draw(st.lists(st.integers(0, 2 * most), min_size=len(data), max_size=len(data)))
    if draw(one_in(3, True, False)):
        halves = [half + BETWEEN_BURSTS if half > most else half for half in halves]
    lateness_s = draw(st.sampled_from([0, 0, 1, 3]))
    disorder = draw(st.sampled_from(["none", "within lateness", *(["any"] if late else [])]))
    if disorder == "none":
        halves.sort()
    elif disorder == "within lateness":
        delays = draw(st.lists(st.integers(0, 2 * lateness_s), min_size=len(data), max_size=len(data)))
        halves = [t for _, t in sorted(zip((h + d for h, d in zip(halves, delays, strict=True)), halves, strict=True))]
    return Source(name, stream_table(halves, data), "ts", f"{lateness_s} seconds")


def stream_table(halves: Sequence[int], data: Sequence[tuple[Any, ...]]) -> pa.Table:
    times = [EPOCH + timedelta(seconds=half / 2) for half in halves]
    head = {"id": pa.array(range(len(times)), pa.int64()), "ts": pa.array(times, pa.timestamp("us"))}
    return pa.table({**head, **_columns(data)})


def _columns(data: Sequence[tuple[Any, ...]]) -> dict[str, pa.Array]:
    return {name: pa.array([row[i] for row in data], kind) for i, (name, kind) in enumerate(COLUMNS.items())}


@st.composite
def static_tables(draw: st.DrawFn, name: str) -> Source:
    data = draw(rows(4))
    return Source(name, pa.table({"id": pa.array(range(len(data)), pa.int64()), **_columns(data)}), time=None)


# ---- windows --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Windows:
    """Windows in brackets by alias, WINDOW constraints, time conditions for WHERE; and what they say in plain SQL."""

    brackets: dict[str, str]
    constraints: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()
    meaning: tuple[str, ...] = ()


@dataclass(frozen=True)
class Size:
    """A window of whole seconds, as it is written and as a test of plain SQL."""

    seconds: int
    written: str
    half_open: bool

    def covers(self, u: str, v: str) -> str:
        """t_v - t_u is at most this long."""
        return f"{gap(u, v)} {'<' if self.half_open else '<='} {self.seconds}000000"

    def follows(self, u: str, v: str) -> str:
        """v comes with or after u, at most this much later."""
        return f"({gap(u, v)} >= 0 AND {self.covers(u, v)})"


def gap(u: str, v: str) -> str:
    return f"(epoch_us({v}.ts) - epoch_us({u}.ts))"


@st.composite
def sizes(draw: st.DrawFn, half_open: bool) -> Size:
    seconds = draw(st.integers(1 if half_open else 0, 5))
    spellings = ["{} SECONDS", "INTERVAL '{}' SECOND", "INTERVAL {} SECONDS", "'{} seconds'"]
    return Size(seconds, draw(st.sampled_from(spellings)).format(seconds), half_open)


@st.composite
def bracket(draw: st.DrawFn, alias: str, others: Sequence[str], counts: bool, half_open: bool) -> tuple[str, list[str]]:
    """A window in brackets and, unless it counts rows, its meaning."""
    form = draw(st.sampled_from(["range", "range", "now", "unbounded", *(["rows", "partition"] if counts else [])]))
    size = Size(0, "", False) if form == "now" else draw(sizes(half_open))
    match form:
        case "rows":
            return f"[ROWS {draw(st.integers(1, 5))}]", []
        case "partition":
            keys = draw(st.lists(st.sampled_from(KEYS), min_size=1, max_size=2, unique=True))
            return f"[PARTITION BY {', '.join(keys)} ROWS {draw(st.integers(1, 3))}]", []
        case "unbounded":
            return "[UNBOUNDED]", []
        case "now" if not half_open:
            return "[NOW]", [size.covers(alias, other) for other in others]
    size = size if size.written else draw(sizes(half_open))
    return f"[RANGE {size.written}]", [size.covers(alias, other) for other in others]


@st.composite
def trees(draw: st.DrawFn, aliases: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs that connect all aliases."""
    order = draw(st.permutations(aliases))
    return [(order[draw(st.integers(0, i - 1))], order[i]) for i in range(1, len(order))]


@st.composite
def plain_bound(draw: st.DrawFn, u: str, v: str) -> tuple[str, str]:
    """A condition that bounds the time between u and v on both sides, and its meaning."""
    x, y = draw(st.integers(0, 5)), draw(st.integers(0, 5))
    spell = draw(st.sampled_from(["INTERVAL '{}' SECOND", "INTERVAL {} SECONDS", "{} SECONDS"])).format
    later = gap(u, v)
    return draw(
        st.sampled_from([
            (f"{v}.ts BETWEEN {u}.ts - {spell(x)} AND {u}.ts + {spell(y)}",
             f"{later} BETWEEN -{x}000000 AND {y}000000"),
            (f"ABS({u}.ts - {v}.ts) <= {spell(x)}", f"abs({later}) <= {x}000000"),
            (f"{spell(x)} > ABS({u}.ts - {v}.ts)", f"abs({later}) < {x}000000"),
            (f"{u}.ts <= {v}.ts AND {v}.ts < {u}.ts + {spell(x)}", f"{later} >= 0 AND {later} < {x}000000"),
            (f"{v}.ts - {u}.ts <= {spell(x)} AND {v}.ts >= {u}.ts - {spell(y)}",
             f"{later} <= {x}000000 AND {later} >= -{y}000000"),
            (f"{v}.ts - {spell(x)} <= {u}.ts AND {v}.ts > {u}.ts - {spell(y)}",
             f"{later} <= {x}000000 AND {later} > -{y}000000"),
            (f"{v}.ts = {u}.ts", f"{later} = 0"),
            (f"{u}.ts + {spell(x)} = {v}.ts", f"{later} = {x}000000"),
        ])
    )  # fmt: skip


@st.composite
def path_windows(draw: st.DrawFn, aliases: Sequence[str], half_open: bool) -> Windows:
    order = draw(st.permutations(aliases))
    steps = [(u, v, draw(sizes(half_open))) for u, v in pairwise(order)]
    written = ", ".join(size.written for _, _, size in steps)
    forward = " AND ".join(size.follows(u, v) for u, v, size in steps)
    backward = " AND ".join(size.follows(v, u) for u, v, size in steps)
    constraint = f"WINDOW PATH ({', '.join(order)}) = ({written})"
    return Windows({}, (constraint,), (), (f"(({forward}) OR ({backward}))",))


@st.composite
def connecting_windows(draw: st.DrawFn, aliases: Sequence[str], half_open: bool) -> Windows:
    """A form that bounds every pair without windows in brackets."""
    form = draw(st.sampled_from(["single", "pairs", "directed", "path", "path", "plain", "assorted"]))
    if form == "path":
        return draw(path_windows(aliases, half_open))
    if form == "single":
        size = draw(sizes(half_open))
        return Windows(
            {}, (f"WINDOW = {size.written}",), (), tuple(size.covers(u, v) for u, v in permutations(aliases, 2))
        )
    constraints: list[str] = []
    conditions: list[str] = []
    meaning: list[str] = []
    for u, v in draw(trees(aliases)):
        kind = draw(st.sampled_from(["pairs", "directed", "plain"])) if form == "assorted" else form
        size = draw(sizes(half_open))
        if kind == "pairs":
            constraints.append(f"WINDOW ({u}, {v}) = {size.written}")
            meaning += [size.covers(u, v), size.covers(v, u)]
        elif kind == "directed":
            constraints.append(f"DWINDOW ({u}, {v}) = {size.written}")
            meaning.append(size.follows(u, v))
        else:
            condition, meant = draw(plain_bound(u, v))
            conditions.append(condition)
            meaning.append(meant)
    return Windows({}, tuple(constraints), tuple(conditions), tuple(meaning))


@st.composite
def windows(draw: st.DrawFn, aliases: Sequence[str], counts: bool, half_open: bool, counted: bool) -> Windows:
    """Any window form: in brackets for every stream, constraints that connect them all, or both. `counted`: one of them
    counts rows at least."""
    form = draw(st.sampled_from(["brackets", "connecting", "connecting", "both"])) if len(aliases) > 1 else "brackets"
    connecting = Windows({}) if form == "brackets" else draw(connecting_windows(aliases, half_open))
    some = {"brackets": st.just(list(aliases)), "connecting": st.just([])}.get(
        form, st.lists(st.sampled_from(aliases), unique=True)
    )
    brackets: dict[str, str] = {}
    meaning = list(connecting.meaning)
    one = draw(st.sampled_from(aliases)) if counted else None
    for alias in draw(some):
        others = [other for other in aliases if other != alias]
        brackets[alias], meant = draw(bracket(alias, others, counts, half_open))
        meaning += meant if alias != one else []
    if one is not None:
        brackets[one] = draw(st.sampled_from(["[ROWS 1]", "[ROWS 3]", "[PARTITION BY k ROWS 2]"]))
    return replace(connecting, brackets=brackets, meaning=tuple(meaning))


# ---- predicates -----------------------------------------------------------------------------------------------------


def theta_predicates(u: str, v: str) -> list[str]:
    return [
        f"{u}.k < {v}.k", f"{u}.k <> {v}.j", f"{u}.k + {v}.j > 2", f"{u}.d * 2 <= {v}.d", f"{u}.f >= {v}.f",
        f"{u}.k - 1 = {v}.k", f"{u}.d = {v}.k", f"{u}.f = {v}.j", f"{u}.s < {v}.s", f"{u}.w < {v}.ts",
        f"{u}.w <= {v}.w + INTERVAL 3 SECONDS", f"{u}.day <= {v}.w", f"{u}.k / {v}.k > 0.5", f"{u}.d > {v}.f",
        f"{u}.d <= {v}.f AND {u}.d >= {v}.f", f"CAST({u}.d AS INT) = {v}.k", f"CAST({u}.f AS STRING) < {v}.s",
    ]  # fmt: skip


def band_predicates(u: str, v: str) -> list[str]:
    return [
        f"ABS({u}.k - {v}.k) <= 1", f"{u}.k BETWEEN {v}.k - 1 AND {v}.k + 1", f"{v}.d >= {u}.d AND {v}.d < {u}.d + 1",
        f"{u}.d BETWEEN {v}.d - 0.5 AND {v}.d + 0.5", f"ABS({u}.f - {v}.f) < 1", f"{u}.w - {v}.w <= INTERVAL 3 SECONDS",
    ]  # fmt: skip


def residual_predicates(u: str, v: str) -> list[str]:
    return [
        f"({u}.k = {v}.k OR {u}.s LIKE 'a%')", f"{u}.s || {v}.s LIKE '%b_'", f"COALESCE({u}.k, 0) = COALESCE({v}.k, 0)",
        f"{u}.k % 2 = {v}.k % 2", f"{u}.k IN (1, {v}.k, {v}.j)", f"NOT ({u}.b AND {v}.b)", f"({u}.b OR {v}.b IS NULL)",
        f"CASE WHEN {u}.k > 1 THEN {v}.k ELSE {v}.j END >= 1", f"{u}.k NOT IN ({v}.k, 2)", f"LENGTH({u}.s) = {v}.j",
        f"(({u}.k = {v}.k AND {u}.s = {v}.s) OR {u}.d > {v}.d)", f"GREATEST({u}.k, {v}.k) < 3",
        f"NULLIF({u}.k, 1) = {v}.k",
    ]  # fmt: skip


def local_predicates(u: str) -> list[str]:
    return [
        f"{u}.k > 0", f"{u}.s IS NOT NULL", f"{u}.k % 2 = 0", f"NOT ({u}.f > 0.5)", f"{u}.b", f"{u}.d BETWEEN 0 AND 1",
        f"{u}.s IN ('a', 'ab')", f"{u}.ts >= TIMESTAMP '2024-01-01 00:00:02'", f"{u}.day = DATE '2024-01-01'",
        f"UPPER({u}.s) LIKE 'A%'", f"({u}.k IS NULL OR {u}.j < 2)", f"-{u}.k < 1", f"{u}.d = {u}.f",
        f"TRY_CAST({u}.s AS INT) IS NULL", f"ROUND({u}.d) = CAST({u}.d AS DOUBLE)",
    ]  # fmt: skip


@st.composite
def pair_predicates(draw: st.DrawFn, u: str, v: str) -> list[str]:
    kind = draw(
        st.sampled_from(["equal", "other column", "composite", "theta", "band", "residual", "residual", "none"])
    )
    match kind:
        case "equal":
            column = draw(st.sampled_from(KEYS))
            return [f"{u}.{column} = {v}.{column}"]
        case "other column":
            left, right = draw(
                st.sampled_from(
                    [("k", "j"), ("j", "k"), ("d", "d"), ("w", "w"), ("k", "d"), ("f", "k"), ("d", "f"), ("f", "d")]
                )
            )
            return [f"{u}.{left} = {v}.{right}"]
        case "composite":
            columns = draw(st.lists(st.sampled_from(KEYS), min_size=2, max_size=3, unique=True))
            return [f"{u}.{column} = {v}.{column}" for column in columns]
        case "theta":
            return [draw(st.sampled_from(theta_predicates(u, v)))]
        case "band":
            return [draw(st.sampled_from(band_predicates(u, v)))]
        case "residual":
            return [draw(st.sampled_from(residual_predicates(u, v)))]
    return []


@st.composite
def predicates(draw: st.DrawFn, aliases: Sequence[str]) -> list[str]:
    """One column common to all, something for each pair of a tree, or nothing; and sometimes local filters."""
    form = draw(st.sampled_from(["common", "per pair", "per pair", "none"])) if len(aliases) > 1 else "none"
    found: list[str] = []
    if form == "common":
        column = draw(st.sampled_from(["k", "j", "s"]))
        found += [f"{u}.{column} = {v}.{column}" for u, v in pairwise(aliases)]
    elif form == "per pair":
        for u, v in draw(trees(aliases)):
            if len(aliases) < 4 or draw(st.booleans()):
                found += draw(pair_predicates(u, v))
    if draw(one_in(4, True, False)):
        found.append(draw(st.sampled_from(local_predicates(draw(st.sampled_from(aliases))))))
    return found


# ---- queries --------------------------------------------------------------------------------------------------------


@st.composite
def select_lists(draw: st.DrawFn, aliases: Sequence[str], tables: Sequence[str]) -> str:
    """Every row's id, so that combinations are told apart, and a few computed columns."""
    ids = [f"{alias}.id AS {alias}_id" for alias in (*aliases, *tables)]
    u, v = aliases[0], aliases[-1]
    extras = [
        "event_time() AS newest", f"{u}.k + {v}.k AS total", f"{u}.s AS s", f"{u}.d * {v}.d AS product",
        f"{v}.f AS f", f"{u}.k / {v}.j AS ratio", f"COALESCE({u}.s, 'none') || '!' AS text", f"{v}.ts AS at",
        f"{u}.day AS day", f"{v}.w AS w", f"{u}.b AS b", f"{u}.ts - {v}.ts AS gap", f"{v}.k IS NULL AS missing",
    ]  # fmt: skip
    return ", ".join(ids + draw(st.lists(st.sampled_from(extras), max_size=3, unique=True)))


@st.composite
def cases(
    draw: st.DrawFn,
    counts: bool = True,
    most_streams: int = 5,
    least_streams: int = 1,
    late: bool = True,
    counted: bool = False,
) -> Case:
    """A whole query with its data; `counts` allows ROWS windows, `counted` asks for one, `late` allows rows that come
    too late."""
    n = draw(st.sampled_from([n for n in (2, 2, 2, 3, 3, 3, 4, 4, 5, 1) if least_streams <= n <= most_streams]))
    aliases = list(ALIASES[:n])
    origin = {
        alias: f"s{draw(st.integers(0, i)) if draw(one_in(4, True, False)) else i}" for i, alias in enumerate(aliases)
    }
    sources = [draw(streams(name, MAX_ROWS[n], late)) for name in dict.fromkeys(origin.values())]
    tables = ["lookup"] if draw(one_in(6, True, False)) else []
    half_open = draw(one_in(4, True, False))
    chosen = draw(windows(aliases, counts, half_open, counted))
    said = draw(predicates(aliases))
    if tables:
        column = draw(st.sampled_from(["k", "j", "s"]))
        said.append(f"{draw(st.sampled_from(aliases))}.{column} = lookup.{column}")
    entries = [f"{origin[alias]} {chosen.brackets.get(alias, '')} AS {alias}" for alias in aliases] + tables
    return Case(
        draw(select_lists(aliases, tables)),
        ", ".join(draw(st.permutations(entries))),
        (*chosen.conditions, *said),
        chosen.constraints,
        "\nOPTIONS (boundary = 'half_open')" if half_open else "",
        (*sources, *(draw(static_tables(name)) for name in tables)),
        _meaning({**origin, **{name: name for name in tables}}, [*chosen.meaning, *said]),
    )


def _meaning(origin: dict[str, str], conditions: Sequence[str]) -> str:
    ids = ", ".join(f"{alias}.id" for alias in origin)
    sources = ", ".join(f"live_{name} AS {alias}" for alias, name in origin.items())
    return f"SELECT {ids} FROM {sources} WHERE {' AND '.join(['true', *conditions])}"
