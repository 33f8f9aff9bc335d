"""Inputs that flow: none is waited for while another has rows, and time may go on without a silent one."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import watersmeet as wm
from tests.runners import bag_of
from tests.unit.hand_clock import HandClock
from watersmeet.hosts.local.pulled_execution import PulledExecution
from watersmeet.runtime.progress import held_back

START = datetime(2026, 1, 1)
PATIENCE_S = 60.0
JOIN = "SELECT a.k, b.k AS other FROM a, b WHERE a.k = b.k WINDOW = 1 HOUR"


def rows(*seconds: float, key: int = 1) -> pa.RecordBatch:
    at = [START + timedelta(seconds=second) for second in seconds]
    return pa.record_batch({"k": pa.array([key] * len(at), pa.int64()), "ts": pa.array(at, pa.timestamp("us"))})


def session(**streams: Any) -> wm.Session:
    made = wm.Session()
    for name, data in streams.items():
        how = data if isinstance(data, dict) else {"data": data}
        made.stream(name, how.pop("data"), time="ts", **how)
    return made


class Gate:
    """Batches that come, and then silence until it is opened."""

    def __init__(self, *batches: pa.RecordBatch, then: tuple[pa.RecordBatch, ...] = ()) -> None:
        self.batches, self.then = batches, then
        self.open = threading.Event()
        self.closed = threading.Event()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        try:
            yield from self.batches
            self.open.wait(PATIENCE_S)
            yield from self.then
        finally:
            self.closed.set()


def eventually(holds: Callable[[], bool]) -> bool:
    until = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > until:
            return False
        time.sleep(0.005)
    return True


@pytest.fixture
def readers() -> Callable[[], list[threading.Thread]]:
    """The threads that read and were not there before this test."""
    before = set(threading.enumerate())
    return lambda: [
        thread
        for thread in threading.enumerate()
        if thread.name.startswith("watersmeet reads") and thread not in before
    ]


def test_a_join_answers_when_its_last_row_is_in_though_the_other_stream_is_silent() -> None:
    quiet = Gate(rows(0))
    busy = Gate(*(rows(second) for second in range(1, 6)))
    run = PulledExecution(session(a=quiet, b=busy).sql(JOIN).plan)
    run.on_progress = lambda metrics: None  # so that the metrics are those of every step
    batches = run.batches()
    found = 0
    while found < 5:
        found += next(batches).num_rows
    assert not quiet.open.is_set()
    assert (run.metrics.held_back_by, run.metrics.waits_for_rows) == ("a", True)
    quiet.open.set()
    busy.open.set()
    assert sum(batch.num_rows for batch in batches) == 0


def test_nobody_is_said_to_be_waited_for_while_the_engine_works() -> None:
    """Every step takes ten seconds, in which the watermark stands still; all rows are at hand."""
    clock, told = HandClock(), list[tuple[float, str]]()
    table = pa.Table.from_batches([rows(0, 0, 0, 0)])
    run = PulledExecution(session(a=table, b=table).sql(JOIN).plan, batch_rows=1)
    run.wall, run.on_step = clock, lambda: clock.move(10)
    run.on_progress = lambda metrics: told.append((metrics.still_for_s, held_back(metrics)))
    assert sum(batch.num_rows for batch in run.batches()) == 16
    assert max(still for still, _ in told) >= 10
    assert {words for _, words in told} == {""}


def test_a_stream_without_rows_is_waited_for_while_those_of_another_are_worked_on() -> None:
    clock, quiet = HandClock(), Gate(rows(0))
    busy = pa.Table.from_batches([rows(*range(1, 6))])
    run = PulledExecution(session(a=quiet, b=busy).sql(JOIN).plan, batch_rows=1)
    run.wall, run.on_step = clock, lambda: clock.move(10)
    told: list[str] = []
    run.on_progress = lambda metrics: told.append(held_back(metrics))
    found = 0
    batches = run.batches()
    while found < 5:
        found += next(batches).num_rows
    assert "waiting for a)" in told[-1]
    quiet.open.set()
    assert sum(batch.num_rows for batch in batches) == 0


def test_a_stream_that_says_nothing_at_all_is_not_waited_for() -> None:
    quiet, table = Gate(rows()), pa.Table.from_batches([rows(*range(100))])
    run = PulledExecution(session(a=quiet, b=table).sql(JOIN).plan)
    read: list[int] = []
    run.on_progress = lambda metrics: read.append(metrics.rows_in)
    ended = threading.Thread(target=lambda: list(run.batches()), daemon=True)
    ended.start()
    assert eventually(lambda: 100 in read)
    quiet.open.set()
    ended.join(PATIENCE_S)
    assert not ended.is_alive()


def test_what_an_input_raises_is_raised_where_the_results_are_taken(
    readers: Callable[[], list[threading.Thread]],
) -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield rows(0)
        raise ValueError("the connection is gone")

    query = session(a=broken(), b=iter([rows(0), rows(1)])).sql(JOIN)
    found = 0
    with pytest.raises(ValueError, match="the connection is gone"):  # noqa: PT012
        for batch in query.batches():
            found += batch.num_rows
    assert eventually(lambda: not readers())


def test_who_stops_taking_results_stops_the_threads(readers: Callable[[], list[threading.Thread]]) -> None:
    endless = (rows(second) for second in range(10**9))
    other = (rows(second) for second in range(10**9))
    batches = session(a=endless, b=other).sql("SELECT a.k FROM a, b WINDOW = 1 SECOND").batches()
    next(batches)
    assert len(readers()) == 2
    batches.close()  # type: ignore[attr-defined]
    assert eventually(lambda: not readers())


def test_a_run_that_waits_can_be_stopped() -> None:
    one, other = Gate(rows(0)), Gate(rows(0))
    run = PulledExecution(session(a=one, b=other).sql(JOIN).plan)
    threading.Timer(0.2, run.request_stop).start()
    assert sum(batch.num_rows for batch in run.batches()) == 1
    for gate in (one, other):
        gate.open.set()
        assert gate.closed.wait(PATIENCE_S)


SILENT = """
import threading, sys
from tests.unit.hosts.local.test_quiet_streams import JOIN, Gate, rows, session
batches = session(a=Gate(rows(0)), b=Gate(rows(0))).sql(JOIN).batches()
print(next(batches).num_rows)
"""


def test_an_input_that_never_ends_does_not_keep_the_process_alive() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", SILENT], capture_output=True, text=True, timeout=50, cwd=Path(__file__).parents[4]
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "1\n", "")


def test_streams_that_all_have_rows_stay_side_by_side() -> None:
    """One has many times as many rows as the other; neither runs away, so the windows stay small."""
    many = (rows(*(second + part / 100 for part in range(100))) for second in range(300))
    few = (rows(second) for second in range(300))
    run = PulledExecution(session(a=many, b=few).sql("SELECT a.k FROM a, b WHERE a.k = b.k WINDOW = 1 SECOND").plan)
    kept: list[int] = []
    run.on_progress = lambda metrics: kept.append(metrics.kept_rows)
    found = sum(batch.num_rows for batch in run.batches())
    assert found == 298 * 201 + 101 + 200
    assert max(kept) < 30_300 // 2


@pytest.mark.parametrize("pieces", [1, 7])
def test_the_answer_over_generators_is_that_over_tables(pieces: int) -> None:
    tables = {
        name: pa.Table.from_batches([rows(*range(0, 200, step), key=key % 3) for key in range(9)]).sort_by("ts")
        for name, step in (("a", 2), ("b", 3))
    }
    sql = "SELECT a.k, a.ts, b.ts AS other FROM a, b WHERE a.k = b.k WINDOW = 5 SECONDS"
    expected = bag_of(session(**tables).sql(sql).to_arrow())
    flowing = {name: iter(table.to_batches(max_chunksize=pieces)) for name, table in tables.items()}
    assert bag_of(session(**flowing).sql(sql).to_arrow()) == expected


# ---- idle -----------------------------------------------------------------------------------------------------------


class Moving:
    """A clock that goes on a second at a time as soon as something holds, until the end of the block."""

    def __init__(self, clock: HandClock, begin: Callable[[], bool]) -> None:
        self.clock, self.begin, self.done = clock, begin, threading.Event()

    def __enter__(self) -> None:
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def __exit__(self, *_: object) -> None:
        self.done.set()
        self.thread.join()

    def _run(self) -> None:
        eventually(self.begin)
        while not self.done.wait(0.002):
            self.clock.move(1)


def seconds_of(batch: pa.RecordBatch) -> list[tuple[str, float, Any]]:
    return [(row["_op"], (row["_ts"] - START).total_seconds(), row["n"]) for row in batch.to_pylist()]


def test_if_all_streams_are_silent_the_last_windows_come_out() -> None:
    gate = Gate(rows(0, 1))
    made = session(a={"data": gate, "idle": "10 seconds"})
    run = PulledExecution(made.sql("SELECT COUNT(*) AS n FROM a [RANGE 5 SECONDS]").plan)
    clock = HandClock(today=START)
    run.wall = clock
    log: list[tuple[str, float, Any]] = []
    with Moving(clock, lambda: run.metrics.rows_in == 2):
        run.on_progress = lambda metrics: None
        batches = run.batches()
        while len(log) < 7:
            log += seconds_of(next(batches))
    assert log[:5] == [("+", 0, 1), ("-", 1, 1), ("+", 1, 2), ("-", 5.000001, 2), ("+", 5.000001, 1)]
    assert log[5:] == [("-", 6.000001, 1), ("+", 6.000001, 0)]
    batches.close()  # type: ignore[attr-defined]
    gate.open.set()


def test_a_silent_stream_no_longer_holds_the_others_back_and_what_it_sends_later_is_late() -> None:
    quiet = Gate(rows(0), then=(rows(1), rows(30)))
    busy = Gate(*(rows(second) for second in range(21)), then=(rows(31),))
    made = session(a={"data": quiet, "idle": "10 seconds"}, b=busy)
    run = PulledExecution(made.sql("SELECT k FROM a [NOW] UNION ALL SELECT k FROM b [NOW]").plan)
    clock = HandClock(today=START)
    told: list[Warning] = []
    run.wall, run.tell = clock, told.append
    run.on_progress = lambda metrics: None
    seen: list[datetime] = []
    batches = run.batches()
    with Moving(clock, lambda: run.metrics.rows_in == 22):
        while not seen or max(seen) < START + timedelta(seconds=19):
            seen += next(batches).column("_ts").to_pylist()
    quiet.open.set()

    def open_when_read() -> None:
        eventually(lambda: run.metrics.rows_in == 24)
        busy.open.set()

    threading.Thread(target=open_when_read, daemon=True).start()
    for batch in batches:
        seen += batch.column("_ts").to_pylist()
    assert run.metrics.late_by_stream == {"a": 1, "b": 0}
    assert "after a silence" in str(told[0])
    assert START + timedelta(seconds=31) in seen


def test_rows_that_wait_are_no_silence_however_slowly_results_are_taken() -> None:
    """A table is always ready, so its idle never comes to pass."""
    tables = {name: pa.Table.from_batches([rows(*range(10))]) for name in "ab"}
    made = session(**{name: {"data": table, "idle": "1 second"} for name, table in tables.items()})
    run = PulledExecution(made.sql("SELECT a.k FROM a, b WHERE a.k = b.k WINDOW = 1 SECOND").plan, batch_rows=1)
    clock = HandClock(today=START)
    run.wall = clock
    for _ in run.batches():
        clock.move(60)
    assert run.metrics.late_rows == 0
    assert run.metrics.results == 28
