"""Queries that come and go while rows are pushed: the others notice nothing, and one that came late says from the
instant on from which its answer is whole what it would say if it had always run."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

import watersmeet as wm
from tests.effort import random_cases
from watersmeet.hosts.local.run import Run

NOON = dt.datetime(2026, 1, 1, 12)
COLUMNS = {"ts": "TIMESTAMP", "k": "BIGINT", "v": "INTEGER", "word": "TEXT"}
LATENESS = 4
Row = dict[str, Any]
Push = tuple[str, list[Row]]
pytestmark = pytest.mark.filterwarnings("ignore:cross_join", "ignore:many_answers")


def _at(seconds: int) -> dt.datetime:
    return NOON + dt.timedelta(seconds=seconds)


@st.composite
def pushes(draw: st.DrawFn, names: str = "abc", least: int = 1) -> list[Push]:
    """Rows of some streams, out of order within the lateness, a few at a time."""
    now, found = 0, []
    nothing = draw(st.sampled_from([[None], []]))
    for _ in range(draw(st.integers(least, 40))):
        rows = []
        for _ in range(draw(st.integers(1, 3))):
            rows.append(
                {
                    "ts": _at(now + draw(st.integers(0, LATENESS))),
                    "k": draw(st.sampled_from([1, 1, 2, *nothing])),
                    "v": draw(st.sampled_from([1, 2, -1, *nothing])),
                    "word": draw(st.sampled_from(["u", "u", "v", *nothing])),
                }
            )
        found.append((draw(st.sampled_from(names)), rows))
        now += draw(st.integers(0, 3))
    return found


@st.composite
def query(draw: st.DrawFn, names: str = "abc") -> str:
    """Its rows say of which instant they are, or it is an answer that changes."""
    one, other, third = draw(st.permutations(names.ljust(3, "c")))
    if third not in names or {one, other} - set(names):
        one, other, third = *names, names[0]
    wide, narrow = draw(st.integers(0, 14)), draw(st.integers(0, 6))
    key = "x.k = y.k"
    on = draw(st.sampled_from([key, key, f"{key} AND x.word = y.word", "x.word = y.word", "x.v < y.v"]))
    test = draw(st.sampled_from(["", "", " AND x.v > 0", " AND y.word = 'u'", " AND x.k = 1"]))
    joined = f"FROM {one} x, {other} y WHERE {on}{test}"
    return draw(
        st.sampled_from(
            [
                f"SELECT event_time() AS at, x.k, y.word {joined} WINDOW = {wide} SECONDS",
                f"SELECT event_time() AS at, x.ts AS t, x.word, y.k AS l {joined} DWINDOW (x, y) = {wide} SECONDS",
                f"SELECT event_time() AS at, x.k, z.v FROM {one} x, {other} y, {third} z WHERE {on} AND y.k = z.k"
                f"{test} DWINDOW (x, y) = {wide} SECONDS AND WINDOW (y, z) = {narrow} SECONDS",
                f"SELECT event_time() AS at, x.v, y.v AS w {joined} WINDOW = {wide} SECONDS OPTIONS (threads = 2)",
                f"SELECT ts AS at, k, word FROM {one} x WHERE TRUE{test if 'y.' not in test else ''}",
                f"SELECT x.k, COUNT(*) AS n FROM {one} x [RANGE {wide} SECONDS] GROUP BY x.k",
                f"SELECT COUNT(*) AS n, MAX(v) AS m FROM {one} x [RANGE {narrow} SECONDS]",
                f"SELECT x.k, SUM(y.v) AS s FROM {one} x [RANGE {wide} SECONDS], {other} y [RANGE {narrow} SECONDS] "
                f"WHERE {on}{test} GROUP BY x.k",
                f"SELECT DISTINCT word FROM {one} x [RANGE {wide} SECONDS]",
                f"SELECT k, COUNT(*) AS n FROM {one} x [UNBOUNDED] GROUP BY k",
                f"SELECT event_time() AS at, x.k FROM {one} x [ROWS 3], {other} y [RANGE {wide} SECONDS] "
                f"WHERE {on}{test}",
            ]
        )
    )


def _session() -> wm.Session:
    session = wm.Session()
    for name in "abc":
        session.stream(name, schema=COLUMNS, time="ts", lateness=f"{LATENESS} seconds")
    return session


class Alone:
    """A query that runs from the first push on, by itself."""

    def __init__(self, text: str) -> None:
        self.run = _session().sql(text).start()

    def push(self, push: Push) -> None:
        if push[0] in self.run.driver.execution.streams:
            self.run.push(*push)


def _bag(answers: pa.Table) -> Counter[str]:
    return Counter(map(repr, answers.to_pylist()))


def _sums(log: list[Row], until: dt.datetime) -> Counter[str]:
    """What a log of changes adds up to at an instant."""
    found: Counter[str] = Counter()
    for row in log:
        if row["_ts"] <= until:
            found[repr({name: value for name, value in row.items() if name not in ("_op", "_ts")})] += (
                1 if row["_op"] == "+" else -1
            )
    assert min(found.values(), default=0) >= 0
    return +found


def _when(run: Run, text: str) -> str:
    """For the statistics of cases: when a query became whole."""
    if run.whole_from == dt.datetime.max:
        return "never whole"
    late = "late and whole" if run.whole_from > dt.datetime.min else "late from the beginning"
    return f"{late}{', by rows' if 'ROWS' in text else ''}"


def _check_late(run: Run, found: pa.Table, all_of_it: pa.Table, text: str) -> None:
    whole = run.whole_from
    if run.driver.execution.waits_to_be_whole:  # it was stopped before that
        assert not found.num_rows, text
        return
    if "at" in found.column_names:
        expected = [row for row in all_of_it.to_pylist() if row["at"] >= whole]
        assert Counter(map(repr, found.to_pylist())) == Counter(map(repr, expected)), (text, whole)
        return
    mine, its = found.to_pylist(), all_of_it.to_pylist()
    assert all(row["_ts"] >= whole for row in mine), text
    for until in sorted({whole, *(row["_ts"] for row in [*mine, *its])}):
        if until >= whole:
            assert _sums(mine, until) == _sums(its, until), (text, whole, until)


@random_cases(150)
@given(
    rows=pushes(),
    first=st.lists(query(), min_size=1, max_size=4),
    more=st.lists(st.tuples(st.integers(0, 40), query()), max_size=4),
    leave=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 7)), max_size=4),
    ends=st.booleans(),
)
def test_queries_come_and_go(
    rows: Sequence[Push],
    first: list[str],
    more: list[tuple[int, str]],
    leave: list[tuple[int, int]],
    *,
    ends: bool,
) -> None:
    texts = dict(enumerate([*first, *(text for _, text in more)]))
    alone = {f"q{number}": Alone(text) for number, text in texts.items()}
    session = _session()
    runs = session.start(";\n".join(first))
    names = {f"query {number + 1}": f"q{number}" for number in range(len(first))}
    late: dict[str, Run] = {}
    gone: list[tuple[str, Run]] = []
    for place, push in enumerate([*rows, None]):
        for number, (when, text) in enumerate(more, len(first)):
            if min(when, len(rows)) == place:
                name = f"q{number}"
                late[name] = runs.add(text, name=name)
                names[name] = name
        for when, which in leave:
            if min(when, len(rows)) == place and which < len(list(runs)):
                name = list(runs)[which]
                gone.append((names[name], runs.drop(name)))
                alone[names[name]].run.stop()
        if push is None:
            break
        stream, some = push
        if any(stream in runs[name].driver.execution.streams for name in runs):
            runs.push(stream, some)
            for one in alone.values():
                if one.run.is_open:
                    one.push(push)
    if ends:
        runs.finish()
    else:
        runs.stop()
    for one in alone.values():
        one.run.finish() if ends else one.run.stop()
    for name, run in [*((names[name], runs[name]) for name in runs), *gone]:
        found, expected = run.take(), alone[name].run.take()
        text = texts[int(name[1:])]
        if name not in late:
            assert _bag(found) == _bag(expected), text
        else:
            event(_when(run, text))
            _check_late(run, found, expected, text)


KEPT = "SELECT x.ts AS t, x.k, x.v, x.word, y.ts AS u, y.v AS w, y.word AS z FROM a x, b y WHERE x.k = y.k"


@random_cases(120)
@given(rows=pushes("ab", 12), wide=st.integers(8, 25), when=st.integers(6, 30), text=query("ab"))
def test_one_over_kept_windows_begins_with_their_rows(rows: Sequence[Push], wide: int, when: int, text: str) -> None:
    runs = _session().start(f"{KEPT} WINDOW = {wide} SECONDS")
    alone = Alone(text)
    late: Run | None = None
    for place, push in enumerate(rows):
        if place == min(when, len(rows) - 1):
            late = runs.add(text, name="late")
        runs.push(*push)
        alone.push(push)
    assert late is not None
    runs.finish()
    alone.run.finish()
    event(_when(late, text))
    newest = max(row["ts"] for _, some in rows[: min(when, len(rows) - 1)] for row in some)
    event("whole before the last row came" if late.whole_from <= newest else "whole later")
    _check_late(late, late.take(), alone.run.take(), text)
