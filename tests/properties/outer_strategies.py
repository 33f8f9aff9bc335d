"""Random trees of inner, outer, semi and anti joins that only grow, and the same as plain SQL over whole tables.

The SQL is written from the tree alone, so that it knows nothing of how the engine reads one: a bound in ON or of a
window that names a row which is not there does not apply.
"""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from tests.plain_sql import said_by_duckdb
from tests.properties.strategies import one_in, streams
from tests.runners import Bag, Source, bag_of

STREAMS = ("s0", "s1", "s2")
KEYS = ("k", "j", "s")
KINDS = ("LEFT", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI", "INNER")


@dataclass(frozen=True)
class Tree:
    """A part of FROM: in our words, in DuckDB's, and the aliases whose columns may be named."""

    ours: str
    theirs: str
    seen: tuple[str, ...]
    nullable: frozenset[str] = frozenset()


@dataclass(frozen=True)
class OuterCase:
    sql: str
    plain_sql: str
    sources: tuple[Source, ...]

    def by_duckdb(self) -> Bag:
        return bag_of(said_by_duckdb(self.plain_sql, {source.name: source.table for source in self.sources}))

    def __repr__(self) -> str:
        tables = [f"{s.name} (lateness {s.lateness}):\n{s.table.to_pandas().to_string()}" for s in self.sources]
        return "\n".join(["", self.sql, *tables])


@st.composite
def trees(draw: st.DrawFn, aliases: tuple[str, ...], sizes: dict[str, int] | None) -> Tree:
    """`sizes`: windows of the streams in seconds; None if bounds stand in ON instead."""
    if len(aliases) == 1:
        name = draw(st.sampled_from(STREAMS))
        # Where bounds stand in ON, they say when a row is certain to be alone, also if nothing else ends.
        window = draw(one_in(6, " [UNBOUNDED]", "")) if sizes is None else f" [RANGE {sizes[aliases[0]]} SECONDS]"
        return Tree(f"{name}{window} AS {aliases[0]}", f"{name} AS {aliases[0]}", aliases)
    cut = draw(st.integers(1, len(aliases) - 1)) if draw(one_in(3, True, False)) else len(aliases) - 1
    left, right = draw(trees(aliases[:cut], sizes)), draw(trees(aliases[cut:], sizes))
    return draw(joined(left, right, sizes))


@st.composite
def joined(draw: st.DrawFn, left: Tree, right: Tree, sizes: dict[str, int] | None) -> Tree:
    kind = draw(st.sampled_from(KINDS))
    ours: list[str] = []
    theirs: list[str] = []
    optional = left.nullable | right.nullable
    if sizes is not None:
        for u in left.seen:
            for v in right.seen:
                near = (
                    f"{v}.ts - {u}.ts <= INTERVAL {sizes[u]} SECONDS AND {u}.ts - {v}.ts <= INTERVAL {sizes[v]} SECONDS"
                )
                theirs.append(_unless_missing(near, [u, v], optional))
    else:
        u, v = draw(st.sampled_from(left.seen)), draw(st.sampled_from(right.seen))
        before, after = draw(st.integers(0, 3)), draw(st.integers(0, 3))
        near = f"{v}.ts BETWEEN {u}.ts - INTERVAL {before} SECONDS AND {u}.ts + INTERVAL {after} SECONDS"
        ours.append(near)
        theirs.append(_unless_missing(near, [u, v], optional))
    for _ in range(draw(st.sampled_from([0, 1, 1, 2]))):
        u, v = draw(st.sampled_from(left.seen)), draw(st.sampled_from(right.seen))
        key = draw(st.sampled_from(KEYS))
        ours.append(f"{u}.{key} {draw(st.sampled_from(['=', '=', '=', '<>']))} {v}.{key}")
        theirs.append(ours[-1])
    if draw(one_in(5, True, False)):
        ours.append(f"{draw(st.sampled_from([*left.seen, *right.seen]))}.j > 0")
        theirs.append(ours[-1])
    words = [f"{side} {kind} JOIN {_grouped(other)} ON {' AND '.join(tests) or 'TRUE'}" for side, other, tests in (
        (left.ours, right.ours, ours), (left.theirs, right.theirs, theirs))]  # fmt: skip
    lost = {"LEFT": right.seen, "RIGHT": left.seen, "FULL": (*left.seen, *right.seen)}.get(kind, ())
    if kind in ("SEMI", "ANTI"):
        return Tree(words[0], words[1], left.seen, left.nullable)
    return Tree(words[0], words[1], (*left.seen, *right.seen), optional | frozenset(lost))


def _unless_missing(test: str, aliases: list[str], optional: frozenset[str]) -> str:
    missing = [f"{alias}.ts IS NULL" for alias in aliases if alias in optional]
    return f"({' OR '.join([*missing, f'({test})'])})"


def _grouped(text: str) -> str:
    return f"({text})" if " JOIN " in text else text


@st.composite
def outer_cases(draw: st.DrawFn, late: bool = False) -> OuterCase:
    aliases = tuple("abcd"[: draw(st.sampled_from([2, 2, 2, 3, 3, 4]))])
    sizes = {alias: draw(st.integers(0, 4)) for alias in aliases} if draw(st.booleans()) else None
    tree = draw(trees(aliases, sizes))
    listed = ", ".join(f"{alias}.{name} AS {alias}_{name}" for alias in tree.seen for name in ("id", "k"))
    where = ""
    if draw(one_in(3, True, False)):
        test = draw(st.sampled_from(["> 0", "IS NULL", "IS NOT NULL", "<> 1"]))
        where = f" WHERE {draw(st.sampled_from(tree.seen))}.k {test}"
    read = tuple(draw(streams(name, 7, late)) for name in STREAMS if f"{name} " in tree.ours)
    written = [f"SELECT {listed} FROM {tree.ours}{where}", f"SELECT {listed} FROM {tree.theirs}{where}"]
    # With windows a join in a subquery is an answer that changes.
    if sizes is None and draw(one_in(4, True, False)):
        around = draw(st.sampled_from(["WITH e AS ({}) SELECT * FROM e", "SELECT * FROM ({}) AS e WHERE {}_id > 1"]))
        written = [around.format(text, tree.seen[0]) for text in written]
    return OuterCase(*written, read)


@st.composite
def using_cases(draw: st.DrawFn) -> OuterCase:
    """A chain of joins by columns of one name, which become one: of a full join whichever is there."""
    aliases = tuple("abc"[: draw(st.sampled_from([2, 2, 3]))])
    names = {alias: draw(st.sampled_from(STREAMS)) for alias in aliases}
    sizes = {alias: draw(st.integers(0, 4)) for alias in aliases}
    keys = draw(st.lists(st.sampled_from(KEYS), min_size=1, max_size=2, unique=True))
    tree = Tree(f"{names['a']} [RANGE {sizes['a']} SECONDS] AS a", f"{names['a']} AS a", ("a",))
    merged = {key: f"a.{key}" for key in keys}
    for alias in aliases[1:]:
        kind = draw(st.sampled_from(["LEFT", "RIGHT", "FULL", "FULL", "INNER"]))
        tests = [f"{merged[key]} = {alias}.{key}" for key in keys]
        for u in tree.seen:
            after, before = f"{alias}.ts - {u}.ts <= INTERVAL", f"{u}.ts - {alias}.ts <= INTERVAL"
            near = f"{after} {sizes[u]} SECONDS AND {before} {sizes[alias]} SECONDS"
            tests.append(_unless_missing(near, [u, alias], tree.nullable))
        window = f"[RANGE {sizes[alias]} SECONDS]"
        ours = f"{tree.ours} {kind} JOIN {names[alias]} {window} AS {alias} USING ({', '.join(keys)})"
        theirs = f"{tree.theirs} {kind} JOIN {names[alias]} AS {alias} ON {' AND '.join(tests)}"
        lost = {"LEFT": (alias,), "RIGHT": tree.seen, "FULL": (*tree.seen, alias)}.get(kind, ())
        tree = Tree(ours, theirs, (*tree.seen, alias), tree.nullable | frozenset(lost))
        if kind in ("RIGHT", "FULL"):
            for key in keys:
                merged[key] = f"{alias}.{key}" if kind == "RIGHT" else f"COALESCE({merged[key]}, {alias}.{key})"
    ids = [f"{alias}.id AS {alias}_id" for alias in aliases]
    ours = f"SELECT {', '.join([*keys, *ids])} FROM {tree.ours}"
    theirs = f"SELECT {', '.join([*(f'{merged[key]} AS {key}' for key in keys), *ids])} FROM {tree.theirs}"
    if draw(one_in(3, True, False)):
        ours, theirs = f"{ours} WHERE {keys[0]} IS NOT NULL", f"{theirs} WHERE {merged[keys[0]]} IS NOT NULL"
    read = tuple(draw(streams(name, 6, False)) for name in STREAMS if name in names.values())
    return OuterCase(ours, theirs, read)


@st.composite
def asof_times(draw: st.DrawFn, alias: str, ends: bool) -> tuple[list[str], list[str]]:
    """Conditions on the time of a partner, and what asks for the nearest of several; ends: one that is later must come
    within a time."""
    theirs, seconds = f"{alias}.ts", draw(st.integers(1, 3))
    bounds = [f"{theirs} >= a.ts - INTERVAL {seconds} SECONDS", f"{theirs} <= a.ts + INTERVAL {seconds} SECONDS"]
    match draw(st.sampled_from(["latest", "latest", "first", "nearest"])):
        case "latest":
            tests = [draw(st.sampled_from([f"{theirs} <= a.ts", f"{theirs} < a.ts"]))]
            return [*tests, *draw(st.sampled_from([[], bounds[:1]]))], []
        case "first":
            tests = [draw(st.sampled_from([f"{theirs} >= a.ts", f"a.ts < {theirs}"]))]
            return [*tests, *draw(st.sampled_from([bounds[1:]] if ends else [[], bounds[1:]]))], []
    within = [bounds[1:], bounds]
    nearest = draw(st.sampled_from([f"NEAREST({theirs}, a.ts)", f"NEAREST(a.ts, {theirs})"]))
    return draw(st.sampled_from(within if ends else [[], bounds[:1], *within])), [nearest]


@st.composite
def asof_cases(draw: st.DrawFn, late: bool = False) -> OuterCase:
    """A chain of ASOF JOINs; DuckDB ranks the partners of each row, by time and then by all their columns."""
    aliases = tuple("abc"[: draw(st.sampled_from([2, 2, 3]))])
    names = {alias: draw(st.sampled_from(STREAMS)) for alias in aliases}
    read = tuple(draw(streams(name, 7, late)) for name in STREAMS if name in names.values())
    columns = next(source.table.schema.names for source in read)
    ours = f"{names['a']} AS a"
    theirs = f"(SELECT *, row_number() OVER () AS place FROM {names['a']}) AS a"
    for alias in aliases[1:]:
        left = draw(one_in(2, True, False))
        looked_up = draw(one_in(3, f"(SELECT * FROM {names[alias]} WHERE id <> 2)", names[alias]))
        keys = draw(st.lists(st.sampled_from(KEYS), max_size=2, unique=True))
        tests = [f"a.{key} = {alias}.{key}" for key in keys]
        times, nearest = draw(asof_times(alias, ends=left or alias != aliases[-1]))
        tests += times
        if draw(one_in(4, True, False)):
            tests.append(f"{alias}.j > 0")
        condition = " AND ".join(tests) or "TRUE"
        ours += f" ASOF {'LEFT ' if left else ''}JOIN {looked_up} AS {alias} ON {' AND '.join([*tests, *nearest])}"
        distance = f"abs(epoch_us({alias}.ts) - epoch_us(a.ts)), {alias}.ts"
        order = ", ".join([distance, *(f"{alias}.{name} DESC NULLS FIRST" for name in columns)])
        ranked = f"SELECT a.place, {alias}.*, row_number() OVER (PARTITION BY a.place ORDER BY {order}) AS rank"
        placed = f"(SELECT *, row_number() OVER () AS place FROM {names['a']}) AS a"
        best = f"(SELECT * FROM ({ranked} FROM {placed} JOIN {looked_up} AS {alias} ON {condition}) WHERE rank = 1)"
        theirs += f" {'LEFT' if left else 'INNER'} JOIN {best} AS {alias} ON a.place = {alias}.place"
    listed = ", ".join(f"{alias}.{name} AS {alias}_{name}" for alias in aliases for name in ("id", "k", "s"))
    where = f" WHERE {aliases[-1]}.k IS NOT NULL" if draw(one_in(4, True, False)) else ""
    return OuterCase(f"SELECT {listed} FROM {ours}{where}", f"SELECT {listed} FROM {theirs}{where}", read)


@st.composite
def asof_groups(draw: st.DrawFn, late: bool = False) -> OuterCase:
    """In an answer that changes: rows enter with their partner when that is certain, and leave with their window. When
    that is has no words in plain SQL."""
    left = draw(st.booleans())
    times, nearest = draw(asof_times("b", ends=left))
    keys = draw(st.lists(st.sampled_from(KEYS), max_size=1))
    condition = " AND ".join([*(f"a.{key} = b.{key}" for key in keys), *times, *nearest])
    names = draw(st.lists(st.sampled_from(STREAMS), min_size=2, max_size=2, unique=True))
    read = tuple(draw(streams(name, 7, late)) for name in STREAMS if name in names)
    rows = f"{names[0]} [RANGE {draw(st.integers(0, 4))} SECONDS] AS a"
    joined = f"{rows} ASOF {'LEFT ' if left else ''}JOIN {names[1]} AS b ON {condition}"
    return OuterCase(
        f"SELECT a.k, COUNT(*) AS n, COUNT(b.id) AS m, MAX(b.j) AS most FROM {joined} GROUP BY a.k", "", read
    )
