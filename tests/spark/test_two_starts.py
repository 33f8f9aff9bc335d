"""Two live copies of one checkpoint: on Spark, too, the newest start owns the sink, and the older is told by name."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.checkpoints import Kept
from watersmeet.errors import SetupError, SinkError
from watersmeet.hosts.spark.checkpoints.checkpoint import Checkpoint
from watersmeet.hosts.spark.progress.running_query import RunningQuery
from watersmeet.hosts.spark.progress.tally import Batch
from watersmeet.hosts.spark.run import SparkRun
from watersmeet.hosts.spark.writing.file_claim import FileClaim
from watersmeet.hosts.spark.writing.sink_run import SinkRun
from watersmeet.io.connectors.claims import new_start
from watersmeet.io.connectors.contract import Start
from watersmeet.io.connectors.files.local_folder import FolderClaim
from watersmeet.io.connectors.numbered_sinks import numbered_sink
from watersmeet.plan.query import Plan
from watersmeet.runtime.run_settings import RunSettings


def script(sink: str) -> str:
    return f"""
    CREATE STREAM s (k BIGINT, ts TIMESTAMP) WITH (source = 'csv', path = 'in', time = 'ts', lateness = '1 day');
    CREATE SINK out WITH ({sink}) AS SELECT k FROM s;"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    arrive(0)


def arrive(number: int) -> None:
    Path(f"in/.{number}").write_text(f"k,ts\n{number},2026-01-01 00:00:0{number}\n")
    Path(f"in/.{number}").rename(f"in/{number}.csv")


def goes_on_beside(spark: SparkSession, sink: str, claimed: Callable[[str, Start, Plan], object]) -> None:
    """A run on Spark; once it has written its first batch, another start claims its sink; then more rows come."""
    run = SparkRun(spark, script(sink), RunSettings(buckets=2, checkpoint="ck", trigger_s=0.2))
    patience = threading.Timer(300, run.request_stop)  # should nothing come
    patience.daemon = True
    patience.start()

    def claim_once(running: RunningQuery, batch: Batch) -> None:
        if batch.number == 0:
            checkpoint = Checkpoint(spark, str(Path("ck").absolute()))
            known = checkpoint.notes.get("starts", [])  # as a copy of the checkpoint has it
            claimed(checkpoint.run_name(), new_start(known), running.job.plan)
            arrive(1)

    run.run(claim_once)


def test_a_batch_of_an_older_start_is_refused_by_name(spark: SparkSession) -> None:
    options = {"sink": "sqlite", "path": "out.db"}
    taken: list[int] = []

    def claimed(run: str, start: Start, plan: Plan) -> None:
        sink = numbered_sink("out", options, plan.output_schema, run, start=start)
        taken.append(sink.committed())

    with pytest.raises(SinkError, match=r"sink 'out' is owned by a newer start \(run \w+, start 2, since 20"):
        goes_on_beside(spark, "sink = 'sqlite', path = 'out.db'", claimed)
    assert taken == [0]
    with sqlite3.connect("out.db") as database:
        assert database.execute("SELECT k FROM out").fetchall() == [(0,)]
    # The newest start is the next one: of the same checkpoint, as the other has written nothing.
    SparkRun(
        spark, script("sink = 'sqlite', path = 'out.db'"), RunSettings(available_now=True, buckets=2, checkpoint="ck")
    ).run()
    with sqlite3.connect("out.db") as database:
        assert sorted(database.execute("SELECT k FROM out")) == [(0,), (1,)]


def test_files_that_spark_writes_by_itself_are_looked_after_between_batches(
    spark: SparkSession, tmp_path: Path
) -> None:
    def claimed(run: str, start: Start, plan: Plan) -> None:
        with FolderClaim("out", tmp_path / "out", run, start).taking_over():
            pass

    with pytest.raises(SinkError, match=r"sink 'out' is owned by a newer start \(run \w+, start 2, since 20"):
        goes_on_beside(spark, "sink = 'parquet', path = 'out'", claimed)
    SparkRun(
        spark, script("sink = 'parquet', path = 'out'"), RunSettings(available_now=True, buckets=2, checkpoint="ck")
    ).run()
    assert sorted(row.k for row in spark.read.parquet(str(tmp_path / "out")).collect()) == [0, 1]


def write_batch(number: str) -> None:
    Path("out/_spark_metadata").mkdir(parents=True, exist_ok=True)
    Path(f"out/_spark_metadata/{number}").touch()


def test_a_batch_that_an_older_start_had_in_hand_is_not_taken_for_one_of_the_newer(tmp_path: Path) -> None:
    write_batch("0")
    checkpoint = Kept(tmp_path / "copy", begun=1)
    claimed = FileClaim("out", tmp_path / "out", SinkRun(checkpoint, durable=True))
    assert not claimed.has_more()
    write_batch("1")
    assert claimed.has_more()
    assert "that an older start of this run had in hand" in str(claimed.written_by_another())
    # Under that number the next start of this checkpoint has a batch of its own, which Spark would pass over.
    with pytest.raises(SinkError, match=r"has batches of run .* that this checkpoint does not know"):
        FileClaim("out", tmp_path / "out", SinkRun(checkpoint, durable=True))


def test_a_batch_of_ones_own_is_no_others(tmp_path: Path) -> None:
    claimed = FileClaim("out", tmp_path / "out", SinkRun(Kept(tmp_path / "ck", begun=9), durable=True))
    write_batch("9.compact")
    claimed.look(has_written=True)
    assert not claimed.has_more()


def test_files_with_batches_that_a_checkpoint_never_began_are_refused(tmp_path: Path) -> None:
    write_batch("0")
    write_batch("1")
    with pytest.raises(SetupError, match="sink 'out' has batches up to 1, but it ends with batch 0"):
        FileClaim("out", tmp_path / "out", SinkRun(Kept(tmp_path / "copy", begun=0), durable=True))
