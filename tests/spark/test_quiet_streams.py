"""Streams that fall silent on Spark: time goes on without them, and a batch that is repeated decides the same."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from tests.runners import Source, bag_of, by_reference
from tests.spark.harness import streaming_frame
from tests.spark.test_run import add
from watersmeet import Session
from watersmeet.hosts.spark.reading.file_stream import ParquetStream

PATIENCE_S = 300  # on a busy machine; what is waited for is mostly there in a few seconds
SECOND = 1_000_000


def rows(count: int, every_us: int) -> pa.Table:
    times = pa.array([1_000 * SECOND + i * every_us for i in range(count)], pa.timestamp("us"))
    return pa.table({"k": pa.array([i % 3 for i in range(count)], pa.int64()), "ts": times})


def test_the_last_windows_come_out_when_streams_fall_silent_whoever_reads_them(spark: SparkSession, tmp_path: Path):
    """One stream is read by Spark, one by us; the join is a stage of its own, which tells the other how far it is."""
    table = rows(6, SECOND)
    for name in "ab":
        add(tmp_path / name, 0, table)
    session = Session(spark, buckets=2)
    session.stream("a", streaming_frame(spark, tmp_path / "a", table.schema), time="ts", idle="2 seconds")
    session.stream("b", ParquetStream(str(tmp_path / "b")), time="ts", idle="1 second")
    sql = """SELECT a.k + b.k AS s, COUNT(*) AS n FROM a [RANGE 2 SECONDS], b [RANGE 2 SECONDS]
             WHERE a.k = b.k GROUP BY a.k + b.k"""
    query = session.sql(sql)
    expected = by_reference(sql, [Source(name, table) for name in "ab"])
    frame = query.dataframe()
    answer = frame.writeStream.format("parquet").option("path", str(tmp_path / "out"))
    running = answer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until and (query.metrics()["results"] or 0) < expected.total():
            assert running.exception() is None
            time.sleep(0.2)
    finally:
        running.stop()
    given = spark.read.schema(frame.schema).parquet(str(tmp_path / "out")).toArrow()
    assert bag_of(given.cast(query.schema)) == expected
    assert query.metrics()["watermark_us"] > 1_007 * SECOND


def test_a_batch_that_fails_and_is_repeated_later_decides_by_the_time_it_had(spark: SparkSession, tmp_path: Path):
    """Every pulse lets some more rows expire; the repeat must not let those expire that have done so meanwhile."""
    add(tmp_path / "a", 0, rows(200, SECOND // 10))
    session = Session(spark, buckets=2)
    session.stream("a", ParquetStream(str(tmp_path / "a")), time="ts", lateness="22 seconds", idle="1 second")
    # The rows are of 20 seconds, so none is answered before the wall clock has gone on for two.
    query = session.sql("SELECT k, COUNT(*) AS n FROM a [RANGE 5 SECONDS] GROUP BY k")
    given: dict[int, list[list[tuple[object, ...]]]] = {}

    def take(frame: DataFrame, number: int) -> None:
        given.setdefault(number, []).append(sorted(tuple(row) for row in frame.collect()))
        if sum(map(len, given[number])) and len(given) > 1 and not any(len(tries) > 1 for tries in given.values()):
            time.sleep(2)
            raise ValueError("the sink broke")

    answer = query.dataframe().writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path / "checkpoint"))
    with pytest.raises(StreamingQueryException):
        answer.start().awaitTermination(PATIENCE_S)
    broken = max(given)
    running = answer.start()
    try:
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until and max(given) <= broken + 1:
            assert running.exception() is None
            time.sleep(0.2)
    finally:
        running.stop()
    first, second = given[broken]
    assert first == second
    assert len(given[broken + 1]) == 1
