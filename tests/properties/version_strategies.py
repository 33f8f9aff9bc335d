"""Random joins with tables that have versions, and the same as plain SQL: a version holds until the next of its key."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa
from hypothesis import strategies as st

from tests.properties.outer_strategies import KEYS, OuterCase
from tests.properties.strategies import one_in, streams
from tests.runners import Source
from watersmeet.model.versions import DELETES, PUTS, Versions

TABLES = ("r0", "r1")


@st.composite
def tables(draw: st.DrawFn, name: str, most: int, late: bool) -> Source:
    """A table by the stream of its changes."""
    source = draw(streams(name, most, late))
    key = tuple(draw(st.lists(st.sampled_from(KEYS), min_size=1, max_size=2, unique=True)))
    words = st.sampled_from([*sorted(PUTS), *sorted(DELETES), "INSERT", "-D", "+U"])
    ops = draw(st.lists(words, min_size=len(source.table), max_size=len(source.table)))
    table = source.table.append_column("op", pa.array(ops, pa.string()))
    op = draw(one_in(3, None, "op"))
    return replace(source, table=table, versions=Versions(key, op, draw(st.booleans())))


def holding(source: Source) -> str:
    """The versions of a table with the time until which each holds, in DuckDB's words."""
    assert source.versions is not None
    key = ", ".join(source.versions.key)
    arrived = f"SELECT *, row_number() OVER () AS arrived FROM {source.name}"
    until = f"lead(ts) OVER (PARTITION BY {key} ORDER BY ts, arrived) AS until"
    kept = "true"
    if source.versions.op is not None:
        kept = f"lower(op) NOT IN ({', '.join(repr(word) for word in sorted(DELETES))})"
    return f"(SELECT * FROM (SELECT *, {until} FROM ({arrived})) WHERE {kept})"


@dataclass(frozen=True)
class Joined:
    """Joins in our words and in DuckDB's, and the aliases that may be named; those in `sure` are never missing."""

    ours: str
    theirs: str
    seen: tuple[str, ...]
    sure: tuple[str, ...]


@st.composite
def with_versions(
    draw: st.DrawFn, so_far: Joined, alias: str, table: Source, *, shifted: bool = True, by_key: bool = False
) -> Joined:
    """by_key: by all columns of the key, so that there is one version at most."""
    assert table.versions is not None
    left = draw(one_in(2, True, False))
    timed = draw(st.sampled_from(so_far.sure))
    shift = draw(st.sampled_from([0, 0, 0, -1, 2])) if shifted else 0
    at = f"{timed}.ts" if shift == 0 else f"{timed}.ts {'-' if shift < 0 else '+'} INTERVAL {abs(shift)} SECONDS"
    # Most often the very stream whose time counts; it may be any that stands before.
    of = timed if draw(one_in(3, False, True)) else draw(st.sampled_from(so_far.seen))
    tests = [f"{of}.{key} = {alias}.{key}" for key in table.versions.key]
    if not by_key and draw(one_in(4, True, False)):  # by other columns than the key, or by none
        tests = [f"{of}.{key} = {alias}.{key}" for key in draw(st.lists(st.sampled_from(KEYS), max_size=1))] or ["TRUE"]
    if draw(one_in(3, True, False)):
        tests.append(draw(st.sampled_from([f"{alias}.j > 0", f"{timed}.j < {alias}.j", f"{timed}.k IS NOT NULL"])))
    if draw(one_in(4, True, False)):
        tests.append(f"{alias}.ts >= {timed}.ts - INTERVAL {draw(st.integers(0, 3))} SECONDS")
    word = "LEFT JOIN" if left else "JOIN"
    ours = f"{so_far.ours} {word} {table.name} FOR SYSTEM_TIME AS OF {at} AS {alias} ON {' AND '.join(tests)}"
    tests += [f"{alias}.ts <= {at}", f"({alias}.until IS NULL OR {at} < {alias}.until)"]
    theirs = f"{so_far.theirs} {word} {holding(table)} AS {alias} ON {' AND '.join(tests)}"
    return Joined(ours, theirs, (*so_far.seen, alias), so_far.sure)


@st.composite
def with_stream(draw: st.DrawFn, so_far: Joined, alias: str, name: str) -> Joined:
    left = draw(st.booleans())
    near = draw(st.sampled_from(so_far.sure))
    after, before = draw(st.integers(0, 2)), draw(st.integers(0, 2))
    tests = [
        f"{alias}.ts BETWEEN {near}.ts - INTERVAL {before} SECONDS AND {near}.ts + INTERVAL {after} SECONDS",
        f"{near}.k = {alias}.k",
    ]
    words = f" {'LEFT ' if left else ''}JOIN {name} AS {alias} ON {' AND '.join(tests)}"
    sure = so_far.sure if left else (*so_far.sure, alias)
    return Joined(so_far.ours + words, so_far.theirs + words, (*so_far.seen, alias), sure)


@st.composite
def version_cases(draw: st.DrawFn, late: bool = False) -> OuterCase:
    """A stream with versions of tables, perhaps joined with another stream before or after that."""
    joined = Joined("s0 AS a", "s0 AS a", ("a",), ("a",))
    read = [draw(streams("s0", 7, late))]
    steps = draw(st.sampled_from([("r0",), ("r0",), ("r0", "r1"), ("r0", "s1"), ("s1", "r0"), ("r0", "s1", "r1")]))
    for alias, name in zip("bcd", steps, strict=False):
        if name in TABLES:
            read.append(draw(tables(name, 7, late)))
            joined = draw(with_versions(joined, alias, read[-1]))
        else:
            read.append(draw(streams(name, 5, late)))
            joined = draw(with_stream(joined, alias, name))
    listed = ", ".join(f"{alias}.{name} AS {alias}_{name}" for alias in joined.seen for name in ("id", "k"))
    where = f" WHERE {joined.seen[-1]}.k IS NOT NULL" if draw(one_in(4, True, False)) else ""
    ours, theirs = (f"SELECT {listed} FROM {text}{where}" for text in (joined.ours, joined.theirs))
    return OuterCase(ours, theirs, tuple(read))


@st.composite
def grouped_version_cases(draw: st.DrawFn, by_key: bool = False) -> OuterCase:
    """Groups of such rows in the window of the stream, and what they are at every instant of a table of these."""
    size = draw(st.integers(0, 4))
    joined = Joined("s0 AS a", "s0 AS a", ("a",), ("a",))
    read = [draw(streams("s0", 7, False))]
    tests = [f"a.ts <= moment AND moment <= a.ts + INTERVAL {size} SECONDS"]
    beside = draw(st.booleans())
    if beside:
        joined = Joined(
            f"s0 [RANGE {size} SECONDS] AS a JOIN s1 [RANGE 2 SECONDS] AS x ON a.k = x.k",
            "s0 AS a JOIN s1 AS x ON a.k = x.k", ("a",), ("a",),
        )  # fmt: skip
        read.append(draw(streams("s1", 5, False)))
        tests.append("x.ts <= moment AND moment <= x.ts + INTERVAL 2 SECONDS")
    else:
        joined = replace(joined, ours=f"s0 [RANGE {size} SECONDS] AS a")
    for alias, name in zip("bc", draw(st.sampled_from([("r0",), ("r0", "r1")])), strict=False):
        read.append(draw(tables(name, 7, False)))
        joined = draw(with_versions(replace(joined, seen=("a",)), alias, read[-1], shifted=False, by_key=by_key))
    listed = "a.k AS k, COUNT(*) AS n, COUNT(b.id) AS m, SUM(b.id) AS total"
    ours = f"SELECT {listed} FROM {joined.ours} GROUP BY a.k"
    # Columns of the select list have the names of columns there.
    theirs = f"SELECT moment, {listed} FROM instants, {joined.theirs} WHERE {' AND '.join(tests)} GROUP BY moment, a.k"
    return OuterCase(ours, theirs, tuple(read))
