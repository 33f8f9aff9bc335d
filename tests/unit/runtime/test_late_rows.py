"""Rows that come too late are told of wherever a person looks, and rows of the future do not make others late."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest

import watersmeet as wm
from tests.unit.cli.test_commands import call
from tests.unit.hand_clock import HandClock
from tests.warned import code_of
from watersmeet.hosts.local.pulled_execution import PulledExecution
from watersmeet.model.arrival import Arrival
from watersmeet.model.catalog import Stream
from watersmeet.runtime.clock import QueryClock
from watersmeet.runtime.metrics import Metrics
from watersmeet.runtime.progress import brief, describe

SECOND = 1_000_000
START = datetime(2026, 1, 1, 12)


def rows(*seconds: float) -> pa.RecordBatch:
    at = [START + timedelta(seconds=second) for second in seconds]
    return pa.record_batch({"k": pa.array([1] * len(at), pa.int64()), "ts": pa.array(at, pa.timestamp("us"))})


def session(*seconds: float, **how: Any) -> wm.Session:
    made = wm.Session()
    made.stream("a", pa.Table.from_batches([rows(*seconds)]), time="ts", **({"read": "arrival"} | how))
    return made


ALL = "SELECT a.k FROM a"


# ---- the example --------------------------------------------------------------------------------------------


def test_two_shuffled_frames_with_the_default_lateness_lose_nothing() -> None:
    rng = np.random.default_rng(7)
    frames = {}
    for name in "ab":
        times = START + np.sort(rng.integers(0, 3600, 5_000)) * timedelta(seconds=1)
        frame = pa.table({"k": rng.integers(0, 100, 5_000), "ts": pa.array(times.tolist(), pa.timestamp("ns"))})
        frames[name] = frame.take(rng.permutation(5_000)).to_pandas()
    made = wm.Session()
    for name, frame in frames.items():
        made.stream(name, frame, time="ts")
    query = made.sql("SELECT a.k, a.ts AS at, b.ts AS bt FROM a, b WHERE a.k = b.k WINDOW = 1 MINUTE")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = query.to_arrow()
    pairs = frames["a"].merge(frames["b"], on="k")
    assert found.num_rows == ((pairs.ts_x - pairs.ts_y).abs() <= timedelta(minutes=1)).sum() > 5_000
    assert query.metrics()["late_rows"] == 0


# ---- told -----------------------------------------------------------------------------------------------------------


def test_a_warning_says_how_many_rows_of_which_stream_and_what_to_set() -> None:
    query = session(0, 100, 40, 95).sql(ALL)
    with pytest.warns(wm.DataWarning, match="late_rows") as caught:
        query.to_arrow()
    (told,) = caught
    assert str(told.message) == (
        "late_rows: 2 rows of stream 'a' came too late and are left out of the answer: up to 1 min behind its newest "
        "row, of 2026-01-01 12:01:40.000000; set lateness='1 min' or more, or leave out read='arrival', so that the "
        "rows are read in time order"
    )
    assert told.filename == __file__
    assert query.metrics()["late_by_stream"] == {"a": 2}


def test_what_the_warning_says_to_set_is_enough() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert session(0, 100, 40, 95, lateness="1 min").sql(ALL).to_arrow().num_rows == 4
        assert session(0, 100, 40, 95, read="time").sql(ALL).to_arrow().num_rows == 4


def test_an_endless_run_tells_at_once_and_then_ever_more_rarely() -> None:
    def forever() -> Iterator[pa.RecordBatch]:
        yield rows(100)
        for _ in range(70):
            yield rows(1)

    made = wm.Session()
    made.stream("a", forever(), time="ts")
    with pytest.warns(wm.DataWarning, match="late_rows") as caught:
        made.sql(ALL).to_arrow()
    assert [int(str(one.message).split()[1]) for one in caught] == [1, 2, 4, 8, 16, 32, 64, 70]


def test_a_source_that_goes_on_without_lateness_says_so_at_the_start(caplog: pytest.LogCaptureFixture) -> None:
    for lateness, said in ((None, 1), ("0 seconds", 0)):
        caplog.clear()
        made = wm.Session()
        made.stream("a", iter([rows(1)]), time="ts", lateness=lateness)
        with caplog.at_level(logging.INFO, "watersmeet"):
            made.sql(ALL).to_arrow()
        assert sum("'a' says no lateness" in line for line in caplog.messages) == said


def test_an_error_instead_of_a_count_if_asked_for() -> None:
    query = session(0, 100, 40, 95, on_late="error").sql(ALL)
    with pytest.raises(wm.DataError, match=r"2 rows of stream 'a' came too late.*\n.*set lateness='1 min'"):
        query.to_arrow()


def test_an_error_over_late_rows_leaves_no_half_written_sink(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    pa_parquet.write_table(pa.Table.from_batches([rows(0, 100, 40)]), "a.parquet")
    source = "CREATE STREAM a WITH (path='a.parquet', time='ts', read='arrival', on_late='{}');"
    sink = "CREATE SINK s WITH (path='out.csv') AS SELECT a.k FROM a;"
    Path("error.sql").write_text(source.format("error") + sink)
    assert call("run", "error.sql", "--engine", "local", "--batch-rows", "1") == 1
    assert "came too late" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.parquet", "error.sql"]
    Path("count.sql").write_text(source.format("count") + sink)
    assert call("run", "count.sql", "--engine", "local") == 0
    told = capsys.readouterr().err
    assert "warning: 1 row of stream 'a' came too late" in told
    assert "3 rows in (1 late, of a)" in told


def test_progress_names_late_rows_and_the_stream_that_holds_time_back() -> None:
    metrics = Metrics(rows_in=10, late_rows=3, late_by_stream={"a": 2, "b": 1}, held_back_by="b", still_for_s=7.2)
    metrics.waits_for_rows = True
    assert "10 in (3 late: 2 of a, 1 of b)" in brief(metrics, 1.0)
    for told in (brief(metrics, 1.0), describe(metrics, 1.0)):
        assert "waiting for b" in told


def test_metrics_name_the_stream_that_holds_the_watermark_back() -> None:
    made = wm.Session()
    for name, last in (("a", 5), ("b", 3)):
        made.stream(name, pa.Table.from_batches([rows(*range(last))]), time="ts")
    query = made.sql("SELECT a.k FROM a, b WINDOW = 1 SECOND")
    batches = query.batches(batch_rows=1)
    for _ in range(4):
        next(batches)
    assert query.metrics()["held_back_by"] in ("a", "b")
    for _ in batches:
        pass
    assert query.metrics()["held_back_by"] is None


# ---- the future -----------------------------------------------------------------------------------------------------


def test_a_row_of_the_far_future_is_named_as_what_made_others_late() -> None:
    centuries = 600 * 365 * 86_400
    with pytest.warns(wm.DataWarning, match=r"late_rows: .*the row of 2\d+-.* lies in the future: max_future='1 hour'"):
        assert session(0, centuries, 1, 2).sql(ALL).to_arrow().num_rows == 2


def test_with_max_future_such_a_row_is_kept_and_told_but_makes_no_other_late() -> None:
    clock = HandClock(today=START + timedelta(seconds=10))
    plan = session(0, 3_700, 1, 2, 30, max_future="1 hour").sql(ALL).plan
    run = PulledExecution(plan)
    told: list[Warning] = []
    run.wall, run.tell = clock, told.append
    assert sum(batch.num_rows for batch in run.batches()) == 5
    assert run.metrics.late_rows == 0
    assert run.metrics.future_rows == {"a": 1}
    assert [code_of(one) for one in told] == ["future_rows"]
    assert "1 row of stream 'a' lies further ahead of the clock than max_future = '1 h'" in str(told[0])


# ---- the clock of a query -------------------------------------------------------------------------------------------


def clock_of(wall: HandClock, **idle_s: float | None) -> QueryClock:
    schema = rows().schema
    return QueryClock(
        [
            Stream(name, schema, "ts", arrival=Arrival(idle_us=None if idle is None else int(idle * SECOND)))
            for name, idle in idle_s.items()
        ],
        wall,
    )


def second_of(clock: QueryClock) -> float:
    return (clock.watermark_us - int(START.timestamp() * SECOND) - _offset()) / SECOND


def _offset() -> int:
    epoch = (START - datetime(1970, 1, 1)).total_seconds()
    return int((epoch - START.timestamp()) * SECOND)


def test_a_stream_without_rows_holds_the_watermark_at_the_beginning() -> None:
    clock = clock_of(HandClock(), a=None, b=None)
    clock.admit("a", rows(50))
    assert len(clock.admit("a", rows(1))) == 1
    assert clock.held_back_by == "b"
    clock.admit("b", rows(20))
    assert second_of(clock) == 20
    assert len(clock.admit("a", rows(19, 20))) == 1
    clock.end("b")
    assert second_of(clock) == 50


def test_a_silent_stream_does_not_count_until_its_next_row() -> None:
    wall = HandClock()
    clock = clock_of(wall, a=30, b=None)
    clock.admit("a", rows(10))
    clock.admit("b", rows(50))
    assert second_of(clock) == 10
    wall.move(29.9)
    assert not clock.tick()
    assert clock.silent_in_s == pytest.approx(0.1)
    wall.move(0.1)
    assert clock.tick()
    assert (second_of(clock), clock.held_back_by) == (50, "b")
    kept = clock.admit("a", rows(49, 50, 51))
    assert len(kept) == 2, "below the watermark as it came to be in the silence, a row is late"
    clock.admit("b", rows(70))
    assert (second_of(clock), clock.held_back_by) == (51, "a")


def test_the_watermark_never_goes_back_when_a_silent_stream_comes_again() -> None:
    wall = HandClock()
    clock = clock_of(wall, a=5, b=None)
    clock.admit("a", rows(10))
    clock.admit("b", rows(50))
    wall.move(5)
    clock.tick()
    clock.admit("a", rows(20))
    assert second_of(clock) == 50


def test_if_all_are_silent_event_time_goes_on_with_the_wall_clock() -> None:
    wall = HandClock()
    clock = clock_of(wall, a=5, b=5)
    clock.admit("a", rows(10))
    clock.admit("b", rows(12))
    wall.move(4)
    clock.tick()
    assert second_of(clock) == 10
    wall.move(2)
    assert clock.tick()
    assert second_of(clock) == 16
    assert clock.reached_in_s(clock.watermark_us + 3 * SECOND) == pytest.approx(3.000001)
    wall.move(10)
    clock.tick()
    assert second_of(clock) == 26
    assert len(clock.admit("a", rows(25, 27))) == 1
    assert clock.held_back_by == "a"


def test_silence_in_which_no_row_ever_came_moves_nothing() -> None:
    wall = HandClock()
    clock = clock_of(wall, a=5)
    wall.move(60)
    assert not clock.tick()
