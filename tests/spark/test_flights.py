"""Real flights and weather on Spark: batch frames, scripts that end, checkpoints that are flushed and the user's own
streams give DuckDB's answer to the last row."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tests.flights import (
    LAST_FIVE,
    LAST_TEN,
    ONLY_FROM_NEWARK,
    SAME_DESTINATION,
    SLIDING_AVERAGE,
    WEATHER_BEFORE,
    WORST_DESTINATIONS,
    Row,
    Task,
    declared,
    expected_at,
    expected_log,
    expected_rows,
    given_bag,
    given_rows,
    last_event,
    shuffled,
    streams_of,
)
from tests.spark.harness import read_sink, streaming_frame
from watersmeet.hosts.spark.progress.running_query import RunningQuery
from watersmeet.hosts.spark.run import SparkRun
from watersmeet.hosts.spark.types import spark_schema
from watersmeet.runtime.run_settings import RunSettings
from watersmeet.session import Query, Session

BUCKETS = 2
PIECES = 2
ONE_AT_A_TIME = "source='parquet', path='{name}', maxFilesPerTrigger='1'"
ALL_AT_ONCE = "source='parquet', path='{name}'"


def expected(task: Task) -> Counter[Row]:
    return expected_log(task) if task.changes else expected_rows(task)


# ---- calls that are only made here ----------------------------------------------------------------------------------


def run_to_the_end(spark: SparkSession, script: str, checkpoint: str | None = None) -> list[RunningQuery]:
    """As `run --available-now`."""
    return SparkRun(spark, script, RunSettings(available_now=True, buckets=BUCKETS, checkpoint=checkpoint)).run()


def flush(spark: SparkSession, script: str, checkpoint: str) -> list[RunningQuery]:
    """As `run --available-now --checkpoint … --flush`."""
    choices = RunSettings(available_now=True, buckets=BUCKETS, checkpoint=checkpoint, flush=True)
    return SparkRun(spark, script, choices).run()


def finish(query: Query, folder: Path) -> None:
    """Answer what still waits in a stream of the user's own, after its last batch."""
    query.finish(lambda answer: to_sink(answer, folder), checkpoint=str(folder / "ck"))


# ---- batch frames ---------------------------------------------------------------------------------------------------


def batch_query(spark: SparkSession, task: Task) -> Query:
    """Over frames whose rows are in no order, in several partitions."""
    session = Session(spark, buckets=BUCKETS)
    for name, table in streams_of(task).items():
        frame = spark.createDataFrame(shuffled(table, 1), spark_schema(table.schema)).repartition(2)
        session.stream(name, frame, time="ts")
    return session.sql(task.sql)


@pytest.mark.parametrize(
    "task", [SAME_DESTINATION, WEATHER_BEFORE, LAST_FIVE, SLIDING_AVERAGE, ONLY_FROM_NEWARK, LAST_TEN], ids=str
)
def test_shuffled_frames_give_the_whole_answer(spark: SparkSession, task: Task) -> None:
    assert given_bag(batch_query(spark, task).to_arrow()) == expected(task)


def test_the_first_five_of_shuffled_frames_come_in_order(spark: SparkSession) -> None:
    task = WORST_DESTINATIONS
    assert given_rows(batch_query(spark, task).final()) == expected_at(task, last_event(task))


# ---- scripts over files ---------------------------------------------------------------------------------------------


def pieces_in_time(table: pa.Table) -> list[pa.Table]:
    """One piece after the other, their rows in no order: what may come out of order inside a file."""
    size = -(-table.num_rows // PIECES)
    return [shuffled(table.slice(i * size, size), i) for i in range(PIECES)]


def pieces_of_all_times(table: pa.Table) -> list[pa.Table]:
    mixed = shuffled(table, 2)
    size = -(-table.num_rows // PIECES)
    return [mixed.slice(i * size, size) for i in range(PIECES)]


def arrive(folder: Path, pieces: Sequence[pa.Table], first: int = 0) -> None:
    """Files of one age, as a copy or an archive leaves them; their names say in which order they belong."""
    folder.mkdir(exist_ok=True)
    for i, piece in reversed(list(enumerate(pieces, first))):
        path = folder / f"part-{i}.parquet"
        pq.write_table(piece, path)
        os.utime(path, (1e9, 1e9))


def script_of(task: Task, source: str) -> str:
    return declared(task, source) + f"CREATE SINK answer WITH (sink='parquet', path='answer') AS {task.sql};"


def written() -> Counter[Row]:
    """What the sink holds."""
    return given_bag(pq.read_table("answer"))


def test_a_script_that_ends_gives_the_whole_answer(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    task = SLIDING_AVERAGE
    for name, table in streams_of(task).items():
        arrive(tmp_path / name, pieces_in_time(table))
    (ended,) = run_to_the_end(spark, script_of(task, ONE_AT_A_TIME))
    assert ended.metrics.late_rows == 0
    assert written() == expected(task)


@pytest.mark.parametrize("task", [SAME_DESTINATION, LAST_TEN], ids=str)
def test_files_in_no_order_that_are_there_as_a_whole_give_the_whole_answer(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, task: Task
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, table in streams_of(task).items():
        arrive(tmp_path / name, pieces_of_all_times(table))
    run_to_the_end(spark, script_of(task, ALL_AT_ONCE))
    assert written() == expected(task)


@pytest.mark.soak  # test_runs_that_end.py flushes a checkpoint too
def test_a_checkpoint_goes_on_and_a_flush_answers_the_rest(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then what waits for the watermark is not there, and nothing is there that would have to be taken back."""
    monkeypatch.chdir(tmp_path)
    task = ONLY_FROM_NEWARK
    script = script_of(task, ONE_AT_A_TIME)
    for part in range(2):
        for name, table in streams_of(task).items():
            half = -(-table.num_rows // 2)
            arrive(tmp_path / name, [shuffled(table.slice(part * half, half), part)], part)
        before = written() if part else Counter()
        (ended,) = run_to_the_end(spark, script, "ck")
        assert ended.metrics.late_rows == 0
        assert before < written() < expected(task)
    flush(spark, script, "ck")
    assert written() == expected(task)


# ---- streams of the user's own --------------------------------------------------------------------------------------


def own_streams(spark: SparkSession, task: Task, folder: Path) -> Query:
    session = Session(spark, buckets=BUCKETS)
    for name, table in streams_of(task).items():
        arrive(folder / name, [shuffled(table, 3)])
        session.stream(name, streaming_frame(spark, folder / name, table.schema), time="ts")
    return session.sql(task.sql)


def to_sink(answer: DataFrame, folder: Path) -> DataStreamWriter:
    return answer.writeStream.format("parquet").option("path", str(folder / "sink"))


def taken_in(answer: DataFrame, folder: Path) -> None:
    writer = to_sink(answer, folder).option("checkpointLocation", str(folder / "ck"))
    writer.trigger(availableNow=True).start().awaitTermination()


def held(spark: SparkSession, query: Query, answer: DataFrame, folder: Path) -> Counter[Row]:
    return given_bag(read_sink(spark, folder / "sink", answer).cast(query.schema))


def test_a_join_in_time_over_own_streams_waits_for_nothing(spark: SparkSession, tmp_path: Path) -> None:
    query = own_streams(spark, WEATHER_BEFORE, tmp_path)
    answer = query.dataframe()
    taken_in(answer, tmp_path)
    assert held(spark, query, answer, tmp_path) == expected(WEATHER_BEFORE)


@pytest.mark.soak  # test_runs_that_end.py finishes such streams too
def test_own_streams_are_answered_to_the_last_row_when_they_are_finished(spark: SparkSession, tmp_path: Path) -> None:
    query = own_streams(spark, SLIDING_AVERAGE, tmp_path)
    answer = query.dataframe()
    taken_in(answer, tmp_path)
    assert held(spark, query, answer, tmp_path) < expected(SLIDING_AVERAGE)
    finish(query, tmp_path)
    assert held(spark, query, answer, tmp_path) == expected(SLIDING_AVERAGE)
