"""Joins of one script keep the rows of a stream once: each answer and count is what it would be alone."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import watersmeet as wm
from tests.effort import random_cases
from watersmeet.hosts.local.pull import Pull
from watersmeet.hosts.local.pulled_execution import PulledExecution
from watersmeet.operators.join.shared_keeping import SharedKeeping
from watersmeet.operators.join.shared_window import SharedWindow
from watersmeet.operators.join.window_join import WindowJoin

NOON = dt.datetime(2026, 1, 1, 12)
SCHEMA = pa.schema(
    [("ts", pa.timestamp("us")), ("k", pa.int64()), ("v", pa.int32()), ("x", pa.float64()), ("word", pa.string())]
)
ROWS = st.tuples(
    st.integers(0, 40),
    st.none() | st.integers(0, 3),
    st.none() | st.integers(-3, 3),
    st.sampled_from([0.0, -0.0, 1.5]),
    st.none() | st.sampled_from("uv"),
)
Row = tuple[int, int | None, int | None, float, str | None]
pytestmark = pytest.mark.filterwarnings("ignore:cross_join", "ignore:late_rows", "ignore:many_answers")


def _table(rows: Sequence[Row]) -> pa.Table:
    times = [NOON + dt.timedelta(seconds=row[0]) for row in rows]
    return pa.table([times, *([row[place] for row in rows] for place in (1, 2, 3, 4))], schema=SCHEMA)


@st.composite
def join(draw: st.DrawFn) -> str:
    one, other, third = draw(st.permutations("abc"))
    wide, narrow = draw(st.integers(0, 12)), draw(st.integers(0, 6))
    test = draw(
        st.sampled_from(
            [
                "", " AND x.v > 0", " AND y.word = 'u'", " AND y.v + x.v > 0", " AND x.k IS NOT NULL AND y.x > 1.0",
                " AND y.v IS NOT NULL", " AND x.k = 2", " AND y.k IN (1, 2)",
            ]
        )
    )  # fmt: skip
    on = draw(st.sampled_from(["x.k = y.k", "x.v = y.v", "x.k = y.k AND x.word = y.word", "x.x = y.x", "x.v < y.v"]))
    return draw(
        st.sampled_from(
            [
                f"SELECT x.k, x.word, y.v AS w FROM {one} x, {other} y WHERE {on}{test} WINDOW = {wide} SECONDS",
                f"SELECT x.ts, y.k AS l, y.x AS m FROM {one} x, {other} y WHERE {on}{test} DWINDOW (x, y) = {wide} "
                "SECONDS",
                f"SELECT x.v, y.v AS w, z.word FROM {one} x, {other} y, {third} z WHERE {on} AND y.k = z.k{test} "
                f"DWINDOW (x, y) = {wide} SECONDS AND WINDOW (y, z) = {narrow} SECONDS",
                f"SELECT x.v, y.v AS w, z.k AS l FROM {one} x [RANGE {wide} SECONDS], {other} y [RANGE {narrow} "
                f"SECONDS], {third} z [RANGE 3 SECONDS] WHERE {on} AND x.k = z.k{test}",
                f"SELECT x.v, y.v AS w, event_time() AS at FROM {one} x, {other} y WHERE {on}{test} AND "
                f"y.ts BETWEEN x.ts - INTERVAL {narrow} SECONDS AND x.ts + INTERVAL {wide} SECONDS",
                # These do not share: they have a stream twice, count rows, or are more than a join.
                f"SELECT x.v, y.v AS w FROM {one} x, {one} y WHERE {on}{test} WINDOW = {narrow} SECONDS",
                f"SELECT x.v, y.v AS w FROM {one} x [ROWS 3], {other} y [RANGE {wide} SECONDS] WHERE {on}{test}",
                f"SELECT x.k, COUNT(*) AS n FROM {one} x [RANGE {wide} SECONDS], {other} y [RANGE {narrow} SECONDS] "
                f"WHERE {on}{test} GROUP BY x.k",
            ]
        )
    )


def _session(tables: dict[str, pa.Table], *, arriving: bool) -> wm.Session:
    made = wm.Session()
    for name, table in tables.items():
        how = {"read": "arrival", "lateness": "4 seconds"} if arriving else {}
        made.stream(name, table, time="ts", **how)  # type: ignore[arg-type]
    return made


def _run(runs: Sequence[PulledExecution]) -> list[Counter[str]]:
    found: dict[int, Counter[str]] = {id(run): Counter() for run in runs}
    for run, block in Pull(runs).answers():
        if block is not None:
            found[id(run)].update(map(repr, block.to_pylist()))
    assert [run.failure for run in runs] == [None] * len(runs)
    return [found[id(run)] for run in runs]


@random_cases(150)
@given(
    rows=st.tuples(*[st.lists(ROWS, max_size=40)] * 3),
    script=st.lists(join(), min_size=2, max_size=8, unique=True),
    batch_rows=st.sampled_from([1, 3, 7, 16, 300]),
    arriving=st.booleans(),
    times=st.sampled_from([1, 1, 10]),
)
def test_answers_and_counts_are_those_of_each_join_alone(
    rows: tuple[list[Row], ...], script: list[str], batch_rows: int, arriving: bool, times: int
) -> None:
    """times: how often the rows come, so that pieces are no small ones."""
    tables = dict(zip("abc", (_table(times * one) for one in rows), strict=True))
    session = _session(tables, arriving=arriving)
    together = [PulledExecution(session.sql(text).plan, batch_rows=batch_rows) for text in script]
    late: dict[int, dict[str, set[int]]] = {id(run): {} for run in together}
    for run in together:
        run.on_late_rows = lambda name, ones, run=run: late[id(run)].setdefault(name, set()).update(ones.tolist())  # type: ignore[misc]
    for one, run, text in zip(_run(together), together, script, strict=True):
        in_time = {
            name: table.filter(pa.array([n not in late[id(run)].get(name, ()) for n in range(len(table))], pa.bool_()))
            for name, table in tables.items()
        }
        alone = PulledExecution(_session(in_time, arriving=False).sql(text).plan, batch_rows=batch_rows)
        (other,) = _run([alone])
        assert one == other, text
        if not arriving:  # else other rows are late
            mine, its = run.operator.counters, alone.operator.counters
            assert (mine.stored_rows, mine.expired_rows) == (its.stored_rows, its.expired_rows), text
            assert run.metrics.kept_rows == alone.metrics.kept_rows, text


@random_cases(60)
@given(
    rows=st.tuples(*[st.lists(ROWS, min_size=5, max_size=40)] * 3),
    script=st.lists(join(), min_size=3, max_size=6, unique=True),
    batch_rows=st.integers(1, 16),
    data=st.data(),
)
def test_one_that_leaves_takes_nothing_away(
    rows: tuple[list[Row], ...], script: list[str], batch_rows: int, data: st.DataObject
) -> None:
    session = _session(dict(zip("abc", map(_table, rows), strict=True)), arriving=False)
    runs = [PulledExecution(session.sql(text).plan, batch_rows=batch_rows) for text in script]
    leaving, after = data.draw(st.sampled_from(runs)), data.draw(st.integers(0, 3))
    pull, found = Pull(runs), {id(run): Counter[str]() for run in runs}
    for run, block in pull.answers():
        if block is not None:
            found[id(run)].update(map(repr, block.to_pylist()))
            if run is leaving and (after := after - 1) < 0:
                pull.fail(run, OSError("the disk is full"))
    for run, text in zip(runs, script, strict=True):
        if run.failure is None:
            assert found[id(run)] == _run([PulledExecution(session.sql(text).plan)])[0], text


def test_rows_are_kept_once() -> None:
    rows: list[Row] = [(at, at % 4, at % 7, 0.0, "u") for at in range(400)]
    session = _session({name: _table(rows) for name in "ab"}, arriving=False)
    script = [
        f"SELECT a.v, b.word FROM a, b WHERE a.k = b.k{test} WINDOW = {width} SECONDS"
        for width, test in ((5, ""), (20, " AND a.v > 1"), (9, " AND b.v > 3"), (20, ""))
    ]
    runs = [PulledExecution(session.sql(text).plan, batch_rows=50) for text in script]
    told: list[str] = []
    runs[0].notice = told.append
    _run(runs)
    assert told == ["the rows of a are kept once for 4 joins", "the rows of b are kept once for 4 joins"]
    stores = set()
    for run in runs:
        assert isinstance(run.operator, WindowJoin)
        assert isinstance(run.operator.keeping, SharedKeeping)
        stores |= {id(store) for store in run.operator.stores.values()}
    assert len(stores) == 2
    alone = [PulledExecution(session.sql(text).plan, batch_rows=50) for text in script]
    for one in alone:
        _run([one])
    assert sum(run.metrics.state_bytes for run in runs) <= 1.2 * max(one.metrics.state_bytes for one in alone)


def test_what_one_join_cannot_work_out_is_no_matter_of_the_others() -> None:
    rows: list[Row] = [(at, 1, at, 0.0, "u" if at > 5 else "12") for at in range(9)]
    session = _session({name: _table(rows) for name in "ab"}, arriving=False)
    script = [
        f"SELECT a.v FROM a, b WHERE a.k = b.k{test} WINDOW = 2 SECONDS"
        for test in ("", " AND CAST(a.word AS BIGINT) > 3", " AND a.v > 2")
    ]
    runs = [PulledExecution(session.sql(text).plan, batch_rows=3) for text in script]
    found = {id(run): 0 for run in runs}
    for run, block in Pull(runs).answers():
        found[id(run)] += 0 if block is None else block.num_rows
    assert [run.failure is None for run in runs] == [True, False, True]
    for place in (0, 2):
        (alone,) = _run([PulledExecution(session.sql(script[place]).plan)])
        assert found[id(runs[place])] == alone.total()


def test_rows_that_cannot_be_kept_are_missed_by_nobody_without_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[Row] = [(at, at % 4, at % 7, 0.0, "u") for at in range(400)]
    session = _session({name: _table(rows) for name in "ab"}, arriving=False)
    append, calls = SharedWindow._append, [0]

    def full(*given: Any) -> None:
        calls[0] += 1
        if calls[0] == 4:
            raise MemoryError("no room")
        append(*given)

    monkeypatch.setattr(SharedWindow, "_append", full)
    script = [f"SELECT a.v, b.word FROM a, b WHERE a.k = b.k WINDOW = {width} SECONDS" for width in (5, 9)]
    runs = [PulledExecution(session.sql(text).plan, batch_rows=50) for text in [*script, "SELECT k FROM a"]]
    for _ in Pull(runs).answers():
        pass
    assert [str(run.failure) for run in runs] == ["no room", "no room", "None"]


def test_a_stream_that_is_read_twice_for_what_is_bad_in_it_is_kept_apart() -> None:
    rows: list[Row] = [(at * 7 % 50, at % 4, at % 7, 0.0, "u") for at in range(100)]
    session = wm.Session()
    how = {"time": "ts", "read": "arrival", "lateness": "20 seconds"}
    session.stream("a", _table(rows).append_column("text", pa.array(["t"] * 100)), on_bad="skip", **how)  # type: ignore[arg-type]
    session.stream("b", _table(rows), **how)  # type: ignore[arg-type]
    script = [
        f"SELECT a.{column}, b.v FROM a, b WHERE a.k = b.k WINDOW = {width} SECONDS"
        for column in ("word", "text")
        for width in (5, 9)
    ]
    runs = [PulledExecution(session.sql(text).plan, batch_rows=7) for text in script]
    assert all(found.total() for found in _run(runs))
