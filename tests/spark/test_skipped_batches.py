"""A batch whose answers do not end, on Spark: told while it runs, stopped soon, and left out by the next start."""

from __future__ import annotations

import datetime as dt
import logging
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyspark.sql import Row, SparkSession

from tests.runners import Source
from tests.spark.checkpoints import Kept
from tests.spark.following import progress
from tests.spark.harness import write_arrivals
from tests.spark.simulation import Simulation
from watersmeet import Query, Session
from watersmeet.errors import OptionError, UnsupportedError
from watersmeet.hosts.spark.bucket import processor
from watersmeet.hosts.spark.exchange import pack
from watersmeet.hosts.spark.jobs.job import AtStart
from watersmeet.hosts.spark.progress.listener import MetricsListener
from watersmeet.hosts.spark.run import SparkRun
from watersmeet.runtime.metrics import Metrics
from watersmeet.runtime.run_settings import COMMAND_LINE, RunSettings
from watersmeet.warning import DataWarning

NOON = dt.datetime(2026, 1, 1, 12)
FAR = dt.datetime(9999, 1, 1)
SCHEMA = pa.schema([("k", pa.int64()), ("ts", pa.timestamp("us"))])
SQL = "SELECT RSTREAM COUNT(*) AS n FROM s [UNBOUNDED] EVERY 1 SECOND"
SCRIPT = f"""
CREATE STREAM s (k BIGINT, ts TIMESTAMP) WITH (source='parquet', path='s', time='ts', maxFilesPerTrigger='1');
CREATE SINK counts WITH (sink='parquet', path='out') AS {SQL};
"""


def row(time: dt.datetime) -> pa.Table:
    return pa.table([[1], [time]], schema=SCHEMA)


def after(seconds: int) -> dt.datetime:
    return NOON + dt.timedelta(seconds=seconds)


@pytest.fixture
def flooded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A row a batch, the second of the far future."""
    monkeypatch.chdir(tmp_path)
    write_arrivals(tmp_path / "s", [row(NOON), row(FAR), row(after(3))])
    return tmp_path


def stopped_in_the_flood(spark: SparkSession, told: pytest.LogCaptureFixture) -> float:
    """How long the stop took, of a run that is in the middle of the flood."""
    run = SparkRun(spark, SCRIPT, RunSettings(buckets=1, checkpoint="ck"))
    asked: list[float] = []

    def stop() -> None:
        until = time.monotonic() + 200
        while "9999-01-01" not in told.text and time.monotonic() < until:
            time.sleep(0.1)
        asked.append(time.monotonic())
        run.request_stop()

    threading.Thread(target=stop, daemon=True).start()
    run.run()
    return time.monotonic() - asked[0]


def test_a_flood_is_told_at_the_driver_stopped_and_left_out_at_the_next_start(
    spark: SparkSession, flooded: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="watersmeet"):
        assert stopped_in_the_flood(spark, caplog) < 20
        assert "counts: 251" in caplog.text
        assert "--skip-batch 1" in caplog.text
        assert "max_future" in caplog.text
        assert "left in the middle of its answers" in caplog.text
        run = SparkRun(spark, SCRIPT, RunSettings(available_now=True, buckets=1, checkpoint="ck", skip_batches=("1",)))
        (ended,) = run.run()
    metrics = ended.metrics
    assert (metrics.skipped_batch_rows, metrics.late_rows, metrics.rows_in) == (1, 0, 1)
    answer = spark.read.parquet(str(flooded / "out")).toArrow().sort_by("_ts").to_pylist()
    assert answer == [{"_ts": after(at), "n": 1} for at in range(3)]


# ---- without Spark --------------------------------------------------------------------------------------------------


def test_a_batch_is_left_out_in_all_lives_until_spark_has_committed_it(tmp_path: Path) -> None:
    checkpoint = Kept(tmp_path, begun=3, committed=2)
    assert checkpoint.left_out(frozenset(), "q") == frozenset()
    assert checkpoint.left_out(frozenset({3}), "q") == {3}
    assert checkpoint.left_out(frozenset(), "q") == {3}
    checkpoint.reach(begun=4, committed=3)
    assert checkpoint.left_out(frozenset(), "q") == frozenset()


@pytest.mark.parametrize("asked", [2, 4])
def test_only_a_batch_that_was_begun_and_not_committed_can_be_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, asked: int
) -> None:
    with caplog.at_level(logging.WARNING, logger="watersmeet"):
        assert Kept(tmp_path, begun=3, committed=2).left_out(frozenset({asked}), "q") == frozenset()
    assert f"q: batch {asked} is not one that this start repeats" in caplog.text


def test_without_a_checkpoint_there_is_nothing_to_leave_out() -> None:
    with pytest.raises(OptionError, match="--skip-batch goes with --checkpoint"):
        RunSettings.read(COMMAND_LINE, skip_batch=("1",))


SQLS = {
    "changes": "SELECT k, COUNT(*) AS n FROM s [RANGE 1 HOUR] GROUP BY k",
    "a join": "SELECT a.k, b.k AS other FROM s a, s b WHERE a.k = b.k WINDOW = 1 HOUR",
    "rows": "SELECT k FROM s [ROWS 2]",
}


@pytest.mark.parametrize("sql", SQLS.values(), ids=SQLS)
@pytest.mark.parametrize("ended", [False, True])
def test_the_state_is_as_if_the_rows_of_a_batch_had_never_come(
    monkeypatch: pytest.MonkeyPatch, warm_copies: Path, sql: str, ended: bool
) -> None:
    first, far, last = row(NOON), row(FAR), row(after(3))
    answers = []
    for pieces in ([first, far, last], [first, last]):
        run = Simulation(sql, [Source("s", first)], 2)
        run.job = replace(run.job, start=AtStart(frozenset({1} if len(pieces) == 3 else ())))
        for number, piece in enumerate(pieces):
            for module in (pack, processor):
                monkeypatch.setattr(module, "batch_number", lambda number=number: number)
            # The end of an earlier run may lie in a batch that is left out; this run tells its own.
            run.batch({"s": piece}, ["s"] if number == 1 and ended and len(pieces) == 3 else [], "an earlier run")
        run.batch({}, ["s"])
        answers.append(run.answer())
    assert answers[0] == answers[1]
    assert answers[0]


def test_queries_of_ones_own_dataframes_tell_of_it_with_their_metrics() -> None:
    listener, metrics = MetricsListener(), Metrics()
    listener.follow("watersmeet_1", metrics, [], skipped=frozenset({1}))
    told = progress(1, 0, {"watersmeet_1": Row(rows_in=7, reports=[])})
    told.runId = told.id = told.name = "q"
    with pytest.warns(
        DataWarning, match="skipped_batch: .*q: 7 rows came in batches that were left out, as skip_batches says"
    ):
        listener.onQueryProgress(SimpleNamespace(progress=told))
    assert (metrics.rows_in, metrics.skipped_batch_rows) == (0, 7)


def test_batches_that_are_left_out_are_said_by_their_numbers() -> None:
    with pytest.raises(OptionError, match="skip_batches must be a list of the numbers of batches, not 'all'"):
        query().dataframe(skip_batches="all")  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match="has no DataFrames"):
        query().dataframe(skip_batches=[1])


def query() -> Query:
    session = Session()
    session.stream("s", row(NOON), time="ts")
    return session.sql(SQL)
