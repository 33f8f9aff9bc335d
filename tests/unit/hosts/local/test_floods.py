"""Rows that bring about more answers than anybody asks for: they come in blocks, and whoever takes them may stop."""

from __future__ import annotations

import datetime as dt
import threading
import warnings
from collections.abc import Sequence
from itertools import islice
from time import monotonic, perf_counter

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.errors import RunError
from watersmeet.hosts.local import pull
from watersmeet.hosts.local.pulled_execution import PulledExecution
from watersmeet.warning import DataWarning

NOON = dt.datetime(2026, 1, 1, 12)
FAR = dt.datetime(9999, 1, 1)
EVERY_SECOND = "SELECT RSTREAM COUNT(*) AS n FROM s [UNBOUNDED] EVERY 1 SECOND"
SCHEMA = {"k": "BIGINT", "ts": "TIMESTAMP"}
MOMENTS = np.datetime64(NOON) + np.arange(200_000)  # a microsecond apart


def session_of(times: Sequence[dt.datetime] | npt.NDArray[np.datetime64]) -> wm.Session:
    session = wm.Session()
    rows = pa.table({"k": np.arange(len(times)), "ts": pa.array(times, pa.timestamp("us"))})
    session.stream("s", rows, time="ts")
    return session


def pushed() -> wm.Session:
    session = wm.Session()
    session.stream("s", schema=SCHEMA, time="ts")
    return session


@pytest.mark.parametrize(
    "sql",
    [
        EVERY_SECOND,
        "SELECT RSTREAM k, COUNT(*) AS n FROM s [LANDMARK '2026-01-01'] GROUP BY k EVERY 1 SECOND",
        "SELECT k, COUNT(*) AS n FROM HOP(s, 1 SECOND, 300000 DAYS) GROUP BY k, window_start, window_end",
    ],
)
def test_a_row_in_the_far_future_is_answered_in_blocks_and_told(sql: str) -> None:
    with pytest.warns(
        DataWarning, match=r"many_answers: .*more answers come of the row of 9999-01-01.*stream 's'.*max_future"
    ):
        blocks = list(islice(session_of([NOON, NOON + dt.timedelta(seconds=5), FAR]).sql(sql).batches(), 3))
    assert [block.num_rows > 0 for block in blocks] == [True] * 3
    assert max(block.num_rows for block in blocks) <= 1 << 18


def test_blocks_are_the_answer_of_one_piece() -> None:
    times = [NOON, NOON + dt.timedelta(seconds=5), NOON + dt.timedelta(days=1), NOON + dt.timedelta(days=1, seconds=9)]
    answer = session_of(times).sql(EVERY_SECOND).to_arrow()
    seconds = [int((time - NOON).total_seconds()) for time in times]
    instants = np.arange(seconds[-1] + 1)
    assert np.array_equal(answer["n"], np.searchsorted(seconds, instants, side="right"))
    assert np.array_equal(answer["_ts"], np.datetime64(NOON) + instants.astype("timedelta64[s]"))


def test_a_run_in_the_middle_of_a_flood_is_stopped_by_another_thread() -> None:
    run = pushed().sql(EVERY_SECOND).start()
    run.push("s", {"k": [1], "ts": [NOON]})
    failures: list[BaseException] = []

    def push() -> None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                run.push("s", {"k": [2], "ts": [FAR]})
        except RunError as error:
            failures.append(error)

    thread = threading.Thread(target=push, daemon=True)
    thread.start()
    assert run.take(timeout=20).num_rows
    run.stop()
    thread.join(20)
    assert not thread.is_alive()
    assert "the run is stopped" in str(failures[0])


def test_no_more_answers_of_a_flood_are_made_than_may_wait() -> None:
    run = pushed().sql(EVERY_SECOND).start(max_waiting=100_000, timeout=0.2)
    run.push("s", {"k": [1], "ts": [NOON]})
    began_s = monotonic()
    with (
        pytest.warns(DataWarning, match="many_answers: .*max_future"),
        pytest.raises(RunError, match="nobody made room for"),
    ):
        run.push("s", {"k": [2], "ts": [FAR]})
    assert monotonic() - began_s < 30
    assert run.take().num_rows < 2_000_000


def test_on_answer_is_called_in_the_middle_of_a_flood_and_may_end_it() -> None:
    given = 0

    def take(rows: pa.RecordBatch) -> None:
        nonlocal given
        given += rows.num_rows
        if given > 100_000:
            raise OSError("enough")

    run = pushed().sql(EVERY_SECOND).start(on_answer=take)
    run.push("s", {"k": [1], "ts": [NOON]})
    with pytest.warns(DataWarning, match="many_answers"), pytest.raises(OSError, match="enough"):
        run.push("s", {"k": [2], "ts": [FAR]})


@pytest.mark.filterwarnings("ignore:many_answers", "ignore:cross_join")
@pytest.mark.parametrize(
    ("sql", "times"),
    [
        (EVERY_SECOND, [NOON, FAR]),
        ("SELECT x.k, y.k AS other FROM s x, s y WINDOW = 1 DAY", [NOON] * 40_000),
        ("SELECT x.k FROM s x SEMI JOIN s y ON x.k <> y.k AND ABS(y.ts - x.ts) <= 1 DAY", MOMENTS),
        ("SELECT x.k FROM s x, s y WHERE x.k + y.k < 9 WINDOW = 1 DAY", MOMENTS),
        ("SELECT COUNT(*) AS n FROM s x [RANGE 1 DAY], s y [RANGE 1 DAY]", MOMENTS),
        ("SELECT x.k FROM s x [RANGE 1 DAY], s y [RANGE 1 DAY] ORDER BY k LIMIT 3", MOMENTS),
    ],
)
def test_a_stop_is_heard_in_the_middle_of_a_batch(
    monkeypatch: pytest.MonkeyPatch, sql: str, times: Sequence[dt.datetime] | npt.NDArray[np.datetime64]
) -> None:
    monkeypatch.setattr(pull, "FINISHING_S", 0.1)
    run = PulledExecution(session_of(times).sql(sql).plan)
    asked = False
    for block in run.batches():
        if block.num_rows and not asked:
            asked = True
            run.request_stop()
    assert asked
    assert run.pull._stop_by_s < perf_counter() < run.pull._stop_by_s + 20


@pytest.mark.parametrize(
    ("sql", "most"),
    [
        ("SELECT k, window_end FROM HOP(s, 10 MILLISECONDS, 1 HOUR)", 1 << 18),
        (
            "SELECT k, window_end, COUNT(*) AS n FROM HOP(s, 1 MILLISECOND, 1 HOUR) "
            "WHERE window_end > TIMESTAMP '2026-01-01' GROUP BY k, window_start, window_end",
            1 << 18,
        ),
    ],
)
def test_rows_in_very_many_windows_come_in_blocks(sql: str, most: int) -> None:
    times = [NOON + dt.timedelta(milliseconds=at) for at in range(1_000)]
    answers = session_of(times).sql(sql).batches()
    blocks = list(islice((block for block in answers if block.num_rows), 4))
    assert len(blocks) == 4
    assert max(block.num_rows for block in blocks) <= most


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT k, window_end FROM HOP(s, 1 MILLISECOND, 1 HOUR)",
        "SELECT window_end, COUNT(*) AS n FROM HOP(s, 1 MILLISECOND, 1 HOUR) GROUP BY window_start, window_end "
        "OPTIONS (emit = 'changes')",
    ],
)
def test_a_stop_is_heard_before_all_copies_of_the_rows_of_an_instant_are_made(
    monkeypatch: pytest.MonkeyPatch, sql: str
) -> None:
    monkeypatch.setattr(pull, "FINISHING_S", 0.1)
    times = [NOON] * 5_000 + [NOON + dt.timedelta(seconds=at) for at in range(1, 10)]
    run = PulledExecution(session_of(times).sql(sql).plan)
    threading.Timer(0.5, run.request_stop).start()
    with pytest.warns(
        DataWarning, match=r"many_answers: .*more answers come of the row of 2026-01-01.* slide of HOP, gives fewer"
    ):
        given = [block.num_rows for block in run.batches()]
    assert run.pull._stop_by_s < perf_counter() < run.pull._stop_by_s + 20
    assert max(given, default=0) <= 1 << 18


def test_a_join_of_all_with_all_below_a_group_comes_in_parts() -> None:
    session = session_of(MOMENTS[:2_200])
    query = session.sql("SELECT COUNT(*) AS n FROM s x [RANGE 1 DAY] CROSS JOIN s y [RANGE 1 DAY]")
    began, most = 0, 0
    for _ in (run := PulledExecution(query.plan)).batches():
        combined = run.operator._combined  # type: ignore[attr-defined]
        began, most = combined, max(most, combined - began)
    assert began == 2_200**2
    assert most < 4_000_000
