"""Queries that are started together and pushed to share windows, walks and parts of answers: what each gives, after
every push, is what it would give alone."""

from __future__ import annotations

import gc
import logging
import threading
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import watersmeet as wm
from tests.effort import random_cases
from tests.properties.test_come_and_go import LATENESS, Push, _at, _session, query
from watersmeet.errors import DataError, RunError
from watersmeet.hosts.local.run import Run
from watersmeet.operators.continuous.common import has_parts
from watersmeet.operators.join.shared_keeping import SharedKeeping
from watersmeet.operators.join.window_join import WindowJoin

NUMBERS = ("late_by_stream", "rows_in", "results", "stored_rows", "expired_rows", "kept_rows")
pytestmark = pytest.mark.filterwarnings("ignore:cross_join", "ignore:many_answers", "ignore:late_rows")


@st.composite
def pushes(draw: st.DrawFn) -> list[Push]:
    """Rows of some streams, of which some come too late, a few at a time."""
    now, found = 10, []
    for _ in range(draw(st.integers(1, 25))):
        rows = [
            {
                "ts": _at(now + draw(st.integers(-2 * LATENESS, LATENESS))),
                "k": draw(st.sampled_from([1, 1, 2, None])),
                "v": draw(st.sampled_from([1, 2, -1, None])),
                "word": draw(st.sampled_from(["u", "u", "v", None])),
            }
            for _ in range(draw(st.sampled_from([1, 1, 2, 3, 40])))
        ]
        found.append((draw(st.sampled_from("abc")), rows))
        now += draw(st.integers(0, 3))
    return found


@st.composite
def script(draw: st.DrawFn) -> list[str]:
    """Of few kinds, so that they have much in common."""
    one, other = draw(st.permutations("abc"))[:2]
    wide = draw(st.integers(1, 14))
    alike = [
        f"SELECT x.k, y.word FROM {one} x, {other} y WHERE x.k = y.k WINDOW = {wide} SECONDS",
        f"SELECT x.v, y.ts FROM {one} x, {other} y WHERE x.k = y.k AND x.v > 0 WINDOW = {wide // 2} SECONDS",
        f"SELECT y.v, x.ts FROM {other} y, {one} x WHERE x.k = y.k AND y.word = 'u' WINDOW = 3 SECONDS",
        f"SELECT k, COUNT(*) AS n, SUM(v) AS s FROM {one} [RANGE {wide} SECONDS] GROUP BY k",
        f"SELECT MAX(n) AS n FROM (SELECT k, COUNT(*) AS n, SUM(v) AS s FROM {one} [RANGE {wide} SECONDS] GROUP BY k) "
        "AS g",
        f"SELECT x.word, COUNT(*) AS n FROM {one} x [RANGE {wide} SECONDS], {other} y [RANGE 4 SECONDS] "
        "WHERE x.k = y.k GROUP BY x.word",
        f"SELECT DISTINCT y.v FROM {one} x [RANGE {wide} SECONDS], {other} y [RANGE 4 SECONDS] WHERE x.k = y.k",
    ]
    alike += [f"{alike[0]} OPTIONS (share = 'no')", alike[0], alike[3]]
    return draw(st.lists(st.one_of(st.sampled_from(alike), st.sampled_from(alike), query()), min_size=2, max_size=6))


def _same(run: Run, alone: Run, text: str) -> None:
    mine, its = run.take(), alone.take()
    assert Counter(map(repr, mine.to_pylist())) == Counter(map(repr, its.to_pylist())), text
    if "_ts" in mine.column_names:
        assert mine.select(["_ts", "_op"]) == its.select(["_ts", "_op"]), text
        assert Counter(map(repr, run.answer().to_pylist())) == Counter(map(repr, alone.answer().to_pylist())), text


@random_cases(120)
@given(
    rows=pushes(),
    texts=script(),
    leave=st.lists(st.tuples(st.integers(0, 25), st.integers(0, 5)), max_size=2),
    add=st.lists(st.tuples(st.integers(0, 25), query()), max_size=2),
    apart=st.lists(st.tuples(st.integers(0, 25), st.integers(0, 5)), max_size=1),
    flushes=st.sets(st.integers(0, 25), max_size=1),
    promises=st.sets(st.integers(0, 25), max_size=1),
    ends=st.booleans(),
)
def test_what_each_gives_after_every_push_is_what_it_gives_alone(
    rows: list[Push],
    texts: list[str],
    leave: list[tuple[int, int]],
    add: list[tuple[int, str]],
    apart: list[tuple[int, int]],
    flushes: set[int],
    promises: set[int],
    *,
    ends: bool,
) -> None:
    """apart: a query that is given rows by itself."""
    runs = _session().start(";\n".join(texts))
    mine = {f"query {number}": text for number, text in enumerate(texts, 1)}
    alone = {name: _session().sql(text).start() for name, text in mine.items()}

    def reading(stream: str) -> list[str]:
        return [name for name in mine if stream in alone[name].driver.execution.streams]

    for place, (stream, some) in enumerate(rows):
        for _, text in [one for one in add if one[0] == place]:
            runs.add(text)
        for _, which in [one for one in leave if one[0] == place and one[1] < len(mine)]:
            name = list(mine)[which]
            del mine[name]
            runs.drop(name)
        for _, which in [one for one in apart if one[0] == place and one[1] < len(mine)]:
            name = list(mine)[which]
            if name in reading(stream):
                runs[name].push(stream, some[:1])
                alone[name].push(stream, some[:1])
        if any(stream in runs[name].driver.execution.streams for name in runs):
            runs.push(stream, some)
        for name in reading(stream):
            alone[name].push(stream, some)
            if place in promises:
                alone[name].advance(stream, _at(25))
        if place in promises and any(stream in runs[name].driver.execution.streams for name in runs):
            runs.advance(stream, _at(25))
        if place in flushes and len(runs):
            runs.flush()
            for name in mine:
                alone[name].flush()
        for name, text in mine.items():
            _same(runs[name], alone[name], text)
            numbers, its = runs[name].metrics(), alone[name].metrics()
            assert {one: numbers[one] for one in NUMBERS} == {one: its[one] for one in NUMBERS}, text
    if ends:
        runs.finish()
        for name, text in mine.items():
            alone[name].finish()
            _same(runs[name], alone[name], text)
    runs.stop()


JOINS = [
    f"SELECT a.v, b.word FROM a, b WHERE a.k = b.k{test} WINDOW = {width} SECONDS"
    for width, test in ((5, ""), (20, " AND a.v > 1"), (9, " AND b.v > 3"), (20, ""))
]
COUNTS = "SELECT k, COUNT(*) AS n FROM a [RANGE 20 SECONDS] GROUP BY k"
MOST = f"SELECT MAX(n) AS most FROM ({COUNTS}) g"


def _rows(first: int, count: int) -> list[dict[str, Any]]:
    return [{"ts": _at(at // 20), "k": at % 40, "v": at % 7, "word": "u"} for at in range(first, first + count)]


def _push_all(runs: wm.Runs | Run, count: int = 4000, piece: int = 50) -> None:
    for first in range(0, count, piece):
        for stream in "ab":
            runs.push(stream, _rows(first, piece))


def _bytes(runs: wm.Runs) -> int:
    return sum(runs[name].metrics()["state_bytes"] for name in runs)


def test_rows_are_kept_once_and_parts_computed_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "watersmeet")
    runs = _session().start(";".join([*JOINS, COUNTS, MOST]))
    _push_all(runs)
    told = [one.getMessage() for one in caplog.records]
    assert "the rows of a are kept once for 4 joins" in told
    assert "the rows of b are kept once for 4 joins" in told
    assert "GROUP BY over a is computed once for query 5 and query 6" in told
    operators = [runs[name].driver.execution.operator for name in runs]
    stores = {id(store) for one in operators[:4] if isinstance(one, WindowJoin) for store in one.stores.values()}
    assert len(stores) == 2
    assert all(map(has_parts, operators[4:]))
    apart = [_session().sql(text).start() for text in [*JOINS, COUNTS, MOST]]
    for one in apart:
        for first in range(0, 4000, 50):
            for stream in one.driver.execution.streams:
                one.push(stream, _rows(first, 50))
    mine = [runs[name].metrics()["state_bytes"] for name in runs]
    its = [one.metrics()["state_bytes"] for one in apart]
    assert sum(mine[:4]) <= 1.2 * max(its[:4])
    assert sum(mine[4:]) < 0.8 * sum(its[4:])


def test_what_only_a_dropped_query_needed_is_let_go_of() -> None:
    runs = _session().start(";".join([JOINS[3].replace("20", "100"), JOINS[0], JOINS[0].replace("a.v", "b.v")]))
    _push_all(runs)
    kept = _bytes(runs)
    dropped = runs.drop("query 1")
    numbers = dropped.metrics()
    for first in range(4000, 8000, 50):
        for stream in "ab":
            runs.push(stream, _rows(first, 50))
    assert _bytes(runs) < kept / 4
    assert dropped.metrics() == numbers


def test_one_that_is_given_rows_by_itself_takes_its_own_with_it() -> None:
    runs = _session().start(";".join([*JOINS[:3], COUNTS, MOST]))
    _push_all(runs, 1000)
    kept = {name: runs[name].metrics()["kept_rows"] for name in runs}
    runs["query 2"].push("a", _rows(1000, 50))
    runs["query 5"].advance("a", _at(50))
    operators = {name: runs[name].driver.execution.operator for name in runs}
    assert isinstance(operators["query 2"], WindowJoin)
    assert not isinstance(operators["query 2"].keeping, SharedKeeping)
    assert isinstance(operators["query 1"], WindowJoin)
    assert isinstance(operators["query 1"].keeping, SharedKeeping)
    assert runs["query 1"].metrics()["kept_rows"] == kept["query 1"]
    assert runs["query 2"].metrics()["kept_rows"] > kept["query 2"]
    runs.stop()


def test_one_that_fails_ends_alone_and_the_others_share_on() -> None:
    failing = "SELECT CAST(a.word AS BIGINT) AS n FROM a, b WHERE a.k = b.k WINDOW = 5 SECONDS"
    texts = [JOINS[0], failing, JOINS[3]]
    runs, alone = _session().start(";".join(texts)), [_session().sql(text).start() for text in (texts[0], texts[2])]
    failures = 0
    for first in range(0, 1000, 50):
        for stream in "ab":
            rows = _rows(first, 50)
            if first == 500 and stream == "a":
                rows = [{**row, "word": "x"} for row in rows]
            elif first < 500:
                rows = [{**row, "word": "1"} for row in rows]
            try:
                runs.push(stream, rows)
            except DataError:
                failures += 1
            for one in alone:
                one.push(stream, rows)
    assert failures == 1
    assert not runs["query 2"].driver.is_open
    for name, other in zip(("query 1", "query 3"), alone, strict=True):
        _same(runs[name], other, name)


def test_threads_may_push_at_the_same_time() -> None:
    texts = [*JOINS, COUNTS, MOST]
    runs = _session().start(";".join(texts))
    log: list[tuple[str, int]] = []
    pushing = threading.Lock()

    def push(stream: str) -> None:
        for first in range(0, 1000, 10):
            runs.push(stream, [{**row, "ts": _at(1)} for row in _rows(first, 10)])
            with pushing:
                log.append((stream, first))

    threads = [threading.Thread(target=push, args=[stream]) for stream in "abab"]
    for one in threads:
        one.start()
    for name in runs:
        runs[name].metrics()
    for one in threads:
        one.join()
    assert len(log) == 400
    for name, text in zip(runs, texts, strict=True):
        alone = _session().sql(text).start()
        for stream, first in log:
            if stream in alone.driver.execution.streams:
                alone.push(stream, [{**row, "ts": _at(1)} for row in _rows(first, 10)])
        assert runs[name].taken("a") == 2000
        mine, its = runs[name].take(), alone.take()
        assert Counter(map(repr, mine.to_pylist())) == Counter(map(repr, its.to_pylist())), text
    runs.stop()


def test_a_piece_goes_in_for_all_or_for_nobody() -> None:
    runs = _session().start(f"{JOINS[0]}; SELECT v FROM a", max_waiting=100, timeout=0.05)
    runs.push("a", _rows(0, 120))
    with pytest.raises(RunError, match="of the rows pushed to 'a' none went in"):
        runs.push("a", _rows(120, 50))
    assert [runs[name].taken("a") for name in runs] == [120, 120]
    assert runs["query 2"].take().num_rows == 120
    runs.push("a", _rows(120, 50), at=120)
    assert [runs[name].taken("a") for name in runs] == [170, 170]
    runs.stop()


def test_what_a_sink_pushes_comes_after_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer may bring about a push, which every query is given behind what made it."""
    runs = _session().start(";".join([JOINS[0], JOINS[3], "SELECT v FROM a"]))
    driver = runs["query 1"].driver
    pushed: list[int] = []

    def on_answer(answer: pa.RecordBatch) -> None:
        pushed.append(answer.num_rows)
        if len(pushed) < 3:
            runs.push("b", _rows(len(pushed), 1))

    monkeypatch.setattr(driver, "_on_answer", on_answer)
    runs.push("b", _rows(0, 3))
    runs.push("a", _rows(0, 3))
    assert pushed[0] == 3
    expected = _session().sql(JOINS[3]).start()
    for stream, rows in (("b", _rows(0, 3)), ("a", _rows(0, 3)), ("b", _rows(1, 1)), ("b", _rows(2, 1))):
        expected.push(stream, rows)
    _same(runs["query 2"], expected, JOINS[3])
    runs.stop()


def test_nothing_is_kept_of_queries_that_ended() -> None:
    runs = _session().start(";".join(JOINS[:2]))
    _push_all(runs, 500)
    operators = [runs[name].driver.execution.operator for name in runs]
    windows = {id(one.keeping._views["a"][0]): one.keeping._views["a"][0] for one in operators}  # type: ignore[attr-defined]
    runs.finish()
    gc.collect()
    assert [one._ways_of for one in windows.values()] == [{}]


@pytest.mark.parametrize(
    "text",
    [JOINS[0], JOINS[1], COUNTS, "SELECT a.v, b.word FROM a, b WHERE a.k = b.k AND a.v > 1 WINDOW = 4 SECONDS"],
)
def test_one_that_is_added_begins_with_rows_of_shared_windows(text: str) -> None:
    together = _session().start(";".join([JOINS[3], *JOINS[:3]]))
    apart = _session().start(";".join(f"{one} OPTIONS (share = 'no')" for one in [JOINS[3], *JOINS[:3]]))
    added = []
    for runs in (together, apart):
        _push_all(runs, 1000)
        added.append(runs.add(text, name="added"))
        for first in range(1000, 1400, 20):
            for stream in "ab":
                runs.push(stream, _rows(first, 20))
    assert added[0].whole_from == added[1].whole_from
    assert added[0].whole_from < _at(50)  # when it was added
    _same(*added, text)
    assert together["query 1"].driver.execution.kept_of("a") is not None
