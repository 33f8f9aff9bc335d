"""Queries that ask for rows by constants are given those alone: each answer is what it would be alone."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import watersmeet as wm
from tests.effort import random_cases
from watersmeet.hosts.local.pull import Pull
from watersmeet.hosts.local.pulled_execution import PulledExecution

NOON = dt.datetime(2026, 1, 1, 12)
SCHEMA = pa.schema([("ts", pa.timestamp("us")), ("k", pa.int32()), ("v", pa.int64()), ("word", pa.string())])
WORDS = "uvwxyz"
ROWS = st.tuples(
    st.integers(0, 12), st.none() | st.integers(0, 12), st.integers(-3, 3), st.none() | st.sampled_from(WORDS)
)
pytestmark = pytest.mark.filterwarnings("ignore:cross_join", "ignore:late_rows", "ignore:many_answers")


def _table(rows: Sequence[tuple[int, int | None, int, str | None]]) -> pa.Table:
    times = [NOON + dt.timedelta(seconds=row[0]) for row in rows]
    return pa.table([times, *([row[place] for row in rows] for place in (1, 2, 3))], schema=SCHEMA)


@st.composite
def condition(draw: st.DrawFn, alias: str) -> str:
    number, word = draw(st.integers(0, 14)), draw(st.sampled_from(WORDS))
    numbers = ", ".join(map(str, draw(st.lists(st.integers(0, 14), min_size=2, max_size=4))))
    return draw(
        st.sampled_from(
            [
                f"{alias}.k = {number}",
                f"{number} = {alias}.k AND {alias}.v > 0",
                f"{alias}.v <> 1 AND {alias}.k IN ({numbers})",
                f"{alias}.word = '{word}'",
                f"{alias}.word = '{word}' AND {alias}.k = {number}",
                f"{alias}.k = {number} AND {alias}.k = {number + 1}",
                f"({alias}.k = {number} OR {alias}.v = 2)",
                f"({alias}.k = {number} OR {alias}.k = {number + 1})",
                f"{alias}.k < {number}",
            ]
        )
    )


@st.composite
def query(draw: st.DrawFn) -> str:
    one, other = draw(st.sampled_from(["aa", "ab", "ba"]))
    asked, also = draw(condition("x")), draw(condition("y"))
    width, rows = draw(st.integers(0, 5)), draw(st.integers(1, 4))
    return draw(
        st.sampled_from(
            [
                f"SELECT x.k, x.v, x.word FROM {one} x WHERE {asked}",
                f"SELECT x.k, COUNT(*) AS n, SUM(x.v) AS s FROM {one} x [RANGE {width} SECONDS] WHERE {asked} "
                "GROUP BY x.k",
                f"SELECT COUNT(*) AS n FROM {one} x [RANGE {width} SECONDS] WHERE {asked}",
                f"SELECT x.word, COUNT(*) AS n FROM {one} x [ROWS {rows}] WHERE {asked} GROUP BY x.word",
                f"SELECT DISTINCT x.word FROM {one} x [RANGE {width} SECONDS] WHERE {asked}",
                f"SELECT x.k, x.v, y.v AS w FROM {one} x, {other} y WHERE x.k = y.k AND {asked} "
                f"WINDOW = {width} SECONDS",
                f"SELECT x.k, x.v, y.v AS w FROM {one} x, {other} y WHERE x.word = y.word AND {asked} AND {also} "
                f"WINDOW = {width} SECONDS",
                f"SELECT x.v, y.v AS w FROM {one} x [ROWS {rows}], {other} y [RANGE {width} SECONDS] "
                f"WHERE x.k = y.k AND {asked}",
                f"SELECT x.v, y.v AS w FROM {one} x LEFT JOIN {other} y ON x.k = y.k AND "
                f"y.ts BETWEEN x.ts AND x.ts + INTERVAL {width} SECONDS WHERE {asked}",
                f"SELECT x.k, x.v FROM {one} x [RANGE {width} SECONDS] WHERE {asked} ORDER BY x.v, x.k LIMIT {rows}",
                f"SELECT x.k FROM {one} x [RANGE {width} SECONDS] WHERE {asked} EXCEPT "
                f"SELECT y.k FROM {other} y [RANGE {rows} SECONDS] WHERE {also}",
                f"SELECT x.k, x.v FROM {one} x [RANGE {width} SECONDS] WHERE {asked} UNION "
                f"SELECT x.k, x.v FROM {other} x [RANGE {rows} SECONDS] WHERE {also.replace('y.', 'x.')}",
            ]
        )
    )


def _session(tables: dict[str, pa.Table], *, arriving: bool) -> wm.Session:
    made = wm.Session()
    for name, table in tables.items():
        how = {"read": "arrival", "lateness": "3 seconds"} if arriving else {}
        made.stream(name, table, time="ts", **how)  # type: ignore[arg-type]
    return made


def _bag(blocks: Sequence[pa.RecordBatch]) -> Counter[str]:
    return Counter(map(repr, (row for block in blocks for row in block.to_pylist())))


@random_cases(80)
@given(
    rows=st.tuples(st.lists(ROWS, max_size=30), st.lists(ROWS, max_size=30)),
    script=st.lists(query(), min_size=8, max_size=16, unique=True),
    batch_rows=st.sampled_from([1, 4, 9, 300]),
    arriving=st.booleans(),
    times=st.sampled_from([1, 1, 20]),
)
def test_answers_are_those_of_each_query_alone(
    rows: tuple[list[tuple[int, int | None, int, str | None]], list[tuple[int, int | None, int, str | None]]],
    script: list[str],
    batch_rows: int,
    arriving: bool,
    times: int,
) -> None:
    """times: how often the rows come, so that pieces are no small ones."""
    tables = dict(zip("ab", (_table(times * one) for one in rows), strict=True))
    session = _session(tables, arriving=arriving)
    runs = [PulledExecution(session.sql(text).plan, batch_rows=batch_rows) for text in script]
    found: dict[int, list[pa.RecordBatch]] = {id(run): [] for run in runs}
    late: dict[int, dict[str, set[int]]] = {id(run): {} for run in runs}
    for run in runs:
        run.on_late_rows = lambda name, ones, run=run: late[id(run)].setdefault(name, set()).update(ones.tolist())  # type: ignore[misc]
    for run, block in Pull(runs).answers():
        if block is not None:
            found[id(run)].append(block)
    for run, text in zip(runs, script, strict=True):
        assert run.failure is None, text
        in_time = {
            name: table.filter(pa.array([n not in late[id(run)].get(name, ()) for n in range(len(table))], pa.bool_()))
            for name, table in tables.items()
        }
        alone = _session(in_time, arriving=False).sql(text)
        assert _bag(found[id(run)]) == _bag(alone.to_arrow().to_batches()), text
        assert run.metrics.rows_in == sum(len(tables[name]) for name in run.streams), text


def test_branches_that_call_different_streams_the_same_ask_for_rows_of_their_own() -> None:
    rows = [(at, at % 13, at, "u") for at in range(40)]
    session = _session({name: _table(rows) for name in "ab"}, arriving=False)
    script = [
        f"SELECT k, COUNT(*) AS n FROM a [RANGE 5 SECONDS] x WHERE k = {key} GROUP BY k UNION "
        f"SELECT k, COUNT(*) AS n FROM b [RANGE 9 SECONDS] x WHERE k = {12 - key} GROUP BY k"
        for key in range(12)
    ]
    runs = [PulledExecution(session.sql(text).plan) for text in script]
    found = {id(run): Counter[str]() for run in runs}
    for run, block in Pull(runs).answers():
        if block is not None:
            found[id(run)] += _bag([block])
    for run, text in zip(runs, script, strict=True):
        assert found[id(run)] == _bag(session.sql(text).to_arrow().to_batches()), text
