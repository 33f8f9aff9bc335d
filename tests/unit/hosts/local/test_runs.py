"""Queries that are started together, and come and go."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import watersmeet as wm
from watersmeet.errors import CatalogError, DataError, OptionError, RunError
from watersmeet.hosts.local.pushed_execution import PushedExecution
from watersmeet.hosts.local.runs import Runs
from watersmeet.operators.saving import Saved

NOON = dt.datetime(2026, 1, 1, 12)
JOIN = "SELECT a.v, b.v AS w FROM a, b WHERE a.k = b.k WINDOW = {} SECONDS"


def _session() -> wm.Session:
    session = wm.Session()
    for name in "ab":
        session.stream(name, schema={"k": "BIGINT", "v": "BIGINT", "ts": "TIMESTAMP"}, time="ts")
    return session


def _row(second: int, k: int | None = 1) -> dict[str, object]:
    return {"k": k, "v": second, "ts": NOON + dt.timedelta(seconds=second)}


def _pushed_to(runs: wm.Runs, stream: str, seconds: range) -> None:
    for second in seconds:
        runs.push(stream, _row(second))


def test_a_dropped_query_closes_its_sink_with_all_that_it_answered(tmp_path: Path) -> None:
    sinks = [
        f"CREATE SINK s{n} WITH (sink = 'parquet', path = '{tmp_path}/{n}.parquet') AS SELECT v FROM a" for n in (1, 2)
    ]
    runs = _session().start(";".join(sinks))
    runs.push("a", _row(1))
    runs.drop("s1")
    assert pq.read_table(tmp_path / "1.parquet").to_pylist() == [{"v": 1}]
    assert list(runs) == ["s2"]
    assert "s1" not in runs
    runs.push("a", _row(2))
    assert not (tmp_path / "2.parquet").exists()
    runs.finish()
    assert pq.read_table(tmp_path / "2.parquet").to_pylist() == [{"v": 1}, {"v": 2}]


def test_a_query_that_fails_stops_alone_and_leaves_nothing(tmp_path: Path) -> None:
    failing = (
        f"CREATE SINK s WITH (sink = 'parquet', path = '{tmp_path}/s.parquet') AS SELECT CAST(t AS BIGINT) AS x FROM c"
    )
    session = _session()
    session.stream("c", schema={"t": "TEXT", "ts": "TIMESTAMP"}, time="ts")
    runs = session.start(f"{failing}; SELECT t FROM c")
    with pytest.raises(DataError):
        runs.push("c", {"t": ["1", "one"], "ts": [NOON, NOON]})
    runs.push("c", {"t": "2", "ts": NOON})
    assert runs["query 2"].take()["t"].to_pylist() == ["1", "one", "2"]
    with pytest.raises(DataError):
        runs.finish()
    assert not (tmp_path / "s.parquet").exists()


def test_what_cannot_be_done_is_said() -> None:
    session = _session()
    runs = session.start(JOIN.format(5))
    with pytest.raises(CatalogError, match="none of the queries that run has a stream 'c'"):
        runs.push("c", _row(1))
    with pytest.raises(RunError, match="no query 'other' is running"):
        runs.drop("other")
    with pytest.raises(RunError, match="expected one query to add, found 2"):
        runs.add("SELECT v FROM a; SELECT v FROM b")
    runs.add("SELECT v FROM a", name="x")
    with pytest.raises(RunError, match="a query 'x' is running"):
        runs.add("SELECT v FROM a", name="x")
    session.stream("a", schema={"k": "TEXT", "ts": "TIMESTAMP"}, time="ts", replace=True)
    with pytest.raises(CatalogError, match="was declared anew"):
        runs.add("SELECT k FROM a")
    with pytest.raises(OptionError, match="save_every is for runs that keep their progress"):
        session.start("SELECT v FROM b", save_every="1 s")


@pytest.mark.parametrize("name", ["", " ", 5, "a\0b"])
def test_a_name_is_a_text(name: object) -> None:
    runs = _session().start("SELECT v FROM a")
    with pytest.raises(OptionError, match="name must be a text"):
        runs.add("SELECT v FROM b", name=name)  # type: ignore[arg-type]
    assert list(runs) == ["query 1"]


def test_a_push_that_would_leave_rows_out_is_refused() -> None:
    runs = _session().start("SELECT v FROM a")
    runs.push("a", [_row(1), _row(2)], at=0)
    with pytest.raises(RunError, match="row 5 of 'a' is pushed, and 2 were before: 3 rows would be missing"):
        runs.push("a", _row(6), at=5)
    for at in (-1, True, "0"):
        with pytest.raises(OptionError, match="at must be the number of a row"):
            runs.push("a", _row(3), at=at)  # type: ignore[arg-type]
    runs.push("a", [_row(2), _row(3)], at=1)
    assert runs["query 1"].take()["v"].to_pylist() == [1, 2, 3]


def test_a_failure_is_told_once_and_the_query_can_be_replaced(tmp_path: Path) -> None:
    """With a checkpoint rows are answered after their push has returned."""
    session = wm.Session()
    session.stream("c", schema={"t": "TEXT", "ts": "TIMESTAMP"}, time="ts")
    failing = "SELECT CAST(t AS BIGINT) AS x FROM c"
    runs = session.start("SELECT t FROM c", checkpoint=tmp_path / "state")
    runs.add(failing, name="numbers")
    told = _is_told(runs, "one")  # the row may be answered before its push returns
    with pytest.raises(DataError):
        runs["numbers"].wait(30)
    told += _is_told(runs, "2")
    assert (told, _is_told(runs, "3")) == (1, 0)
    dropped = runs.drop("numbers")
    with pytest.raises(DataError):
        dropped.take()
    again = runs.add(failing, name="numbers")
    runs.push("c", {"t": "4", "ts": NOON + dt.timedelta(seconds=1)})
    runs.flush()
    assert again.take(timeout=30)["x"].to_pylist() == [4]
    runs.stop()


def _is_told(runs: Runs, text: str) -> int:
    try:
        runs.push("c", {"t": text, "ts": NOON})
    except DataError:
        return 1
    return 0


def test_names_may_be_longer_than_those_of_files(tmp_path: Path) -> None:
    session = _session()
    with session.start("SELECT v FROM a", checkpoint=tmp_path) as runs:
        for name in ("ü" * 300, "ü" * 299 + "x"):
            runs.add("SELECT v FROM a", name=name)
        runs.push("a", _row(1))
        assert [runs[name].take(timeout=30)["v"].to_pylist() for name in list(runs)] == [[1]] * 3


def test_rows_that_were_left_out_are_missed_only_by_those_who_would_see_them() -> None:
    runs = _session().start(JOIN.format(20))
    for second in range(30):
        runs.push("a", _row(second, None if second == 15 else 1))
        runs.push("b", _row(second))
    at = {width: runs.add(JOIN.format(width), name=f"join {width}").whole_from.second for width in (5, 20)}
    assert at == {5: 14, 20: 29}
    counted = runs.add("SELECT COUNT(*) AS n FROM a [RANGE 5 SECONDS]", name="counted")
    assert NOON + dt.timedelta(seconds=20) < counted.whole_from < NOON + dt.timedelta(seconds=21)
    assert counted.take().to_pylist()[0]["n"] == 5  # those of seconds 16 to 20


def test_what_an_older_state_does_not_tell_was_left_out() -> None:
    plan = _session().sql(JOIN.format(20)).plan
    one, other = PushedExecution(plan), PushedExecution(plan)
    values = one.operator.save().values
    assert "left_out_us" in values
    other.operator.load(Saved({name: value for name, value in values.items() if name != "left_out_us"}))
    kept = other.kept_of("a")
    assert kept is not None
    assert kept.left_out_us > 2**60


def test_a_run_over_a_stream_that_nobody_looked_at_meanwhile_misses_it() -> None:
    runs = _session().start("SELECT v FROM a; SELECT v FROM b")
    runs.push("a", _row(5))
    runs.drop("query 1")  # which had read `a`
    again = runs.add("SELECT v FROM a", name="again")
    assert again.whole_from == NOON + dt.timedelta(seconds=5, microseconds=1)
    assert runs.add("SELECT COUNT(*) AS n FROM a [UNBOUNDED]").whole_from == dt.datetime.max


ROWS = "SELECT COUNT(*) AS n, MIN(v) AS least FROM a [ROWS 3]"


def test_an_answer_over_so_many_rows_is_whole_once_as_many_have_come() -> None:
    runs = _session().start("SELECT v FROM a")
    _pushed_to(runs, "a", range(5))
    late = runs.add(ROWS, name="late")
    _pushed_to(runs, "a", range(5, 7))
    assert (late.whole_from, late.take().num_rows) == (dt.datetime.max, 0)
    assert late.driver.execution.operator.wake_us is None  # no look at the clock could bring it on
    _pushed_to(runs, "a", range(7, 10))
    assert late.whole_from == NOON + dt.timedelta(seconds=7)
    given = [(row["_op"], row["_ts"].second, row["n"], row["least"]) for row in late.take().to_pylist()]
    assert given == [("+", 7, 3, 5), ("-", 8, 3, 5), ("+", 8, 3, 6)]


def test_rows_that_joins_keep_count_for_windows_of_so_many_rows() -> None:
    runs = _session().start("SELECT a.v, b.k FROM a, b WHERE a.v > b.v WINDOW = 20 SECONDS")
    for second in range(30):
        runs.push("a", _row(second))
        runs.push("b", _row(second))
    late = runs.add(ROWS, name="late")
    assert late.whole_from < NOON + dt.timedelta(seconds=14)
    assert late.answer().to_pylist() == [{"n": 3, "least": 26}]


@pytest.mark.parametrize("window", ["[UNBOUNDED]", "[PARTITION BY k ROWS 3]"])
def test_an_answer_that_can_never_be_whole_is_given_only_if_it_may_be_partial(window: str) -> None:
    runs = _session().start("SELECT v FROM a")
    _pushed_to(runs, "a", range(5))
    query = f"SELECT COUNT(*) AS n FROM a {window}"
    never, partial = runs.add(query, name="never"), runs.add(query, name="partial", partial=True)
    said = runs.add(f"{query} OPTIONS (partial = 'yes')", name="said")
    _pushed_to(runs, "a", range(5, 8))
    runs.flush()
    assert {one.whole_from for one in (never, partial, said)} == {dt.datetime.max}
    assert never.take().num_rows == 0
    assert never.metrics()["kept_rows"] == 0
    assert partial.answer().to_pylist() == said.answer().to_pylist() == [{"n": 3}]
    runs.finish()


def test_a_partial_answer_is_over_what_is_kept_and_says_from_when_on_that_is_all() -> None:
    runs = _session().start(JOIN.format(10))
    for second in range(30):
        runs.push("a", _row(second))
        runs.push("b", _row(second))
    query = "SELECT COUNT(*) AS n FROM a [RANGE 1 MINUTE]"
    patient, partial = runs.add(query, name="patient"), runs.add(query, name="partial", partial=True)
    assert patient.whole_from == partial.whole_from > NOON + dt.timedelta(minutes=1)
    assert patient.take().num_rows == 0
    kept = partial.answer().to_pylist()[0]["n"]
    assert 10 <= kept < 29
    for second in range(30, 120):
        runs.push("a", _row(second))
    assert patient.answer().to_pylist() == partial.answer().to_pylist() == [{"n": 60}]  # just before 119 s
