"""Exactly once under faults: whatever is killed or damaged, the sink holds every result once, or an error says why.

Processes are killed with SIGKILL, only those started here. The sink is read through Spark, whose own log of the sink
decides which files count.
"""

from __future__ import annotations

import os
import random
import shutil
import time
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from tests.runners import Bag, Source, bag_of, by_reference
from tests.spark import processes
from tests.spark.harness import cut, run_streaming, start_streaming, streaming_session, write_arrivals
from tests.spark.test_streaming import random_streams
from watersmeet import Query
from watersmeet.errors import DataError, SetupError
from watersmeet.hosts.spark.checkpoints.checkpoint import check_checkpoint
from watersmeet.hosts.spark.errors import friendly

SQL = """SELECT a.id AS a, b.id AS b, c.id AS c FROM a, b, c
         WHERE a.x = b.x AND b.x = c.x WINDOW = 1500 MILLISECONDS"""
LONG = 240  # seconds that a driver may take


def prepared(folder: Path, batches: int, seed: int = 0) -> list[Source]:
    """Three streams of so many files each, and the query."""
    sources = random_streams("abc", rows=25 * batches, keys=6, seconds=2 * batches, seed=seed)
    for source in sources:
        write_arrivals(folder / "streams" / source.name, cut(source.table, [25]))
    (folder / "query.sql").write_text(SQL)
    return sources


def prepared_frame(spark: SparkSession, folder: Path, sources: list[Source]) -> DataFrame:
    return streaming_session(spark, sources, folder / "streams", 2).sql(SQL).dataframe()


def sink_of(spark: SparkSession, folder: Path) -> Bag:
    return bag_of(spark.read.parquet(str(folder / "sink")).toArrow())


def finish(folder: Path, master: str, attempts: int = 4) -> None:
    """Start the driver until it comes to the end of the input."""
    for _ in range(attempts):
        driver = processes.start_driver(folder, master)
        try:
            if driver.wait(timeout=LONG) == 0:
                return
        finally:
            processes.kill_driver(driver)
    raise AssertionError((folder / "driver.log").read_text()[-3000:])


KILLS = {"worker": processes.kill_worker, "executor": processes.kill_executor}


def kill_in_batch(driver: processes.Driver, checkpoint: Path, kind: str, batch: int, pause: float = 0.0) -> bool:
    """Wait for a moment in some batch from this one on and kill what `kind` says; whether there was such a moment."""
    moment = processes.state_written if kind == "driver, state written" else processes.in_batch
    if not processes.wait_for(moment(checkpoint, batch), driver):
        return False
    time.sleep(pause)
    return KILLS.get(kind, processes.kill_driver)(driver)


def test_the_sink_holds_every_result_once_after_the_driver_was_killed(spark, tmp_path):
    """Between writing the state and the commit. The query goes on in another process: here."""
    sources = prepared(tmp_path, batches=5)
    driver = processes.start_driver(tmp_path, "local[2]")
    try:
        killed = kill_in_batch(driver, tmp_path / "checkpoint", "driver, state written", batch=2)
    finally:
        processes.kill_driver(driver)
    assert killed, (tmp_path / "driver.log").read_text()[-3000:]
    before = processes.newest(tmp_path / "checkpoint" / "commits")
    run_streaming(spark, prepared_frame(spark, tmp_path, sources), tmp_path / "checkpoint", tmp_path / "sink")
    assert processes.newest(tmp_path / "checkpoint" / "commits") > before
    assert sink_of(spark, tmp_path) == by_reference(SQL, sources)


@pytest.mark.soak  # the killed driver stays; seeded runs of the long tests kill workers too
def test_the_sink_holds_every_result_once_after_the_workers_were_killed(spark, tmp_path):
    """In the middle of a task, which the query fails of; so it is started again."""
    sources = prepared(tmp_path, batches=4)
    frame = prepared_frame(spark, tmp_path, sources)
    running = start_streaming(frame, tmp_path / "checkpoint", tmp_path / "sink")
    in_batch = processes.in_batch(tmp_path / "checkpoint", 2)
    until = time.monotonic() + LONG
    while running.isActive and time.monotonic() < until:
        if in_batch():
            processes.kill(*processes.workers_below(os.getpid()))
        time.sleep(0.005)
    running.stop()
    assert running.exception() is not None
    run_streaming(spark, frame, tmp_path / "checkpoint", tmp_path / "sink")
    assert sink_of(spark, tmp_path) == by_reference(SQL, sources)


@pytest.mark.soak
def test_the_sink_holds_every_result_once_after_an_executor_was_killed(spark, tmp_path):
    sources = prepared(tmp_path, batches=4)
    driver = processes.start_driver(tmp_path, "local-cluster[2,1,1024]")
    try:
        assert kill_in_batch(driver, tmp_path / "checkpoint", "executor", batch=2)
        assert driver.wait(timeout=LONG) == 0, (tmp_path / "driver.log").read_text()[-3000:]
    finally:
        processes.kill_driver(driver)
    assert sink_of(spark, tmp_path) == by_reference(SQL, sources)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(7))
def test_the_sink_holds_every_result_once_after_three_kills_at_random_moments(spark, tmp_path, seed):
    chance = random.Random(seed)
    sources = prepared(tmp_path, batches=12, seed=seed)
    driver = processes.start_driver(tmp_path, "local[2]")
    try:
        for batch in (2, 5, 8):
            kind = chance.choice(["driver", "driver, state written", "worker"])
            if driver.poll() is not None:
                driver = processes.start_driver(tmp_path, "local[2]")
            assert kill_in_batch(driver, tmp_path / "checkpoint", kind, batch, pause=chance.random() * 0.5)
            if kind != "worker":
                driver.wait(timeout=LONG)
        driver.wait(timeout=LONG)
    finally:
        processes.kill_driver(driver)
    finish(tmp_path, "local[2]")
    assert sink_of(spark, tmp_path) == by_reference(SQL, sources)


# ---- damaged and changed checkpoints --------------------------------------------------------------------------------


class Restarts:
    """A query that is run a few files at a time on one checkpoint."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.folder = folder
        self.sources = random_streams("ab", rows=75, seed=3)
        self.sql = "SELECT a.id AS a, b.id AS b FROM a, b WHERE a.x = b.x WINDOW = 2 SECONDS"
        self.checkpoint = folder / "checkpoint"

    def arrive(self, first: int, last: int) -> None:
        for source in self.sources:
            write_arrivals(self.folder / source.name, cut(source.table, [25])[first:last], start=first)

    def query(self, sql: str | None = None) -> Query:
        return streaming_session(self.spark, self.sources, self.folder, 2).sql(sql or self.sql)

    def frame(self, sql: str | None = None) -> DataFrame:
        return self.query(sql).dataframe()

    def run(self, sql: str | None = None) -> pa.Table:
        return run_streaming(self.spark, self.frame(sql), self.checkpoint, self.folder / "sink")

    def assert_exact(self, answer: pa.Table) -> None:
        assert bag_of(answer) == by_reference(self.sql, self.sources)


@pytest.fixture
def restarts(spark: SparkSession, tmp_path: Path) -> Restarts:
    return Restarts(spark, tmp_path)


@pytest.mark.soak  # test_run.py has the refusal at the start, test_processor.py the guard
def test_a_changed_query_is_refused_and_the_old_one_goes_on(restarts):
    restarts.arrive(0, 1)
    restarts.run()
    changed = restarts.sql.replace("2 SECONDS", "3 SECONDS")
    check_checkpoint(restarts.query(), str(restarts.checkpoint))
    with pytest.raises(SetupError, match="checkpoint belongs to another query"):
        check_checkpoint(restarts.query(changed), str(restarts.checkpoint))
    restarts.arrive(1, 3)
    with pytest.raises(DataError, match="this checkpoint belongs to another query") as caught, friendly():
        restarts.run(changed)
    assert str(caught.value).endswith("or go back to the query that wrote this one")
    restarts.assert_exact(restarts.run())


@pytest.mark.soak
def test_another_number_of_shuffle_partitions_changes_nothing(restarts):
    restarts.arrive(0, 1)
    restarts.run()
    restarts.arrive(1, 3)
    restarts.spark.conf.set("spark.sql.shuffle.partitions", "5")
    try:
        answer = restarts.run()
    finally:
        restarts.spark.conf.set("spark.sql.shuffle.partitions", "2")
    restarts.assert_exact(answer)


def test_a_lost_commit_repeats_its_batch_without_using_the_warm_copy_of_the_first_try(restarts):
    restarts.arrive(0, 2)
    restarts.run()
    commits = restarts.checkpoint / "commits"
    for name in (str(processes.newest(commits)), f".{processes.newest(commits)}.crc"):
        (commits / name).unlink(missing_ok=True)
    restarts.arrive(2, 3)
    restarts.assert_exact(restarts.run())


@pytest.mark.soak
def test_a_truncated_state_file_is_an_error_of_spark_and_a_copy_of_the_checkpoint_goes_on(restarts):
    """Spark notices by itself; nothing wrong is ever written to the sink, and a backup of the checkpoint works."""
    restarts.arrive(0, 2)
    restarts.run()
    backup = restarts.folder / "backup"
    shutil.copytree(restarts.checkpoint, backup)
    version = processes.newest(restarts.checkpoint / "commits") + 1
    damaged = processes.changelogs(restarts.checkpoint, version)
    assert damaged
    for path in damaged:
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    restarts.spark.sparkContext._jvm.org.apache.spark.sql.execution.streaming.state.StateStore.stop()
    restarts.arrive(2, 3)
    before = bag_of(restarts.spark.read.parquet(str(restarts.folder / "sink")).toArrow())
    with pytest.raises(StreamingQueryException):
        restarts.run()
    assert bag_of(restarts.spark.read.parquet(str(restarts.folder / "sink")).toArrow()) == before
    shutil.rmtree(restarts.checkpoint)
    shutil.copytree(backup, restarts.checkpoint)
    restarts.spark.sparkContext._jvm.org.apache.spark.sql.execution.streaming.state.StateStore.stop()
    restarts.assert_exact(restarts.run())
