"""Moments of arrival on Spark: recorded with the batch, so that one which is repeated has the same."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable

from tests.effort import thinned
from tests.runners import Source, bag_of, by_reference
from tests.spark.harness import streaming_frame
from tests.spark.planning import planner
from tests.spark.simulation import LOSSES, Simulation
from tests.spark.test_run import add
from watersmeet import Session
from watersmeet.hosts.spark.bucket import warm_state
from watersmeet.hosts.spark.reading.file_stream import ParquetStream
from watersmeet.hosts.spark.reading.splits import SourceSplit
from watersmeet.model.arriving import Arrivals
from watersmeet.model.catalog import Stream, Table

PATIENCE_S = 300
TUMBLE = "SELECT k, COUNT(*) AS n, window_end FROM TUMBLE({}, 10 SECONDS) GROUP BY k, window_start, window_end"
QUERIES = [
    TUMBLE.format("a"),
    "SELECT k, COUNT(*) AS n, MIN(ts) AS first FROM a [RANGE 5 SECONDS] GROUP BY k",
    "SELECT a.k, a.ts, b.ts AS later FROM a, b WHERE a.k = b.k WINDOW = 3 SECONDS",
    "SELECT a.k, b.k AS other FROM a LEFT JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 4 SECONDS",
]


@dataclass(frozen=True)
class Arriving(Source):
    """A stream whose rows were stamped where they came in."""

    def relation(self) -> Stream | Table:
        declared = super().relation()
        assert isinstance(declared, Stream)
        return replace(declared, arrivals=Arrivals())


@pytest.fixture
def _own_warm_copies(warm_copies: Path) -> Iterator[None]:
    warm_state._at_hand.clear()
    yield
    warm_state._at_hand.clear()


def stamped(keys: list[int], at_ms: int) -> pa.Table:
    moments = pa.array([at_ms * 1000] * len(keys), pa.timestamp("us"))
    return pa.table({"k": pa.array(keys, pa.int64()), "ts": moments})


@pytest.mark.slow
@pytest.mark.usefixtures("_own_warm_copies")
@pytest.mark.parametrize(("sql", "loss"), thinned(QUERIES, LOSSES))
def test_workers_that_die_at_every_call_change_nothing(sql: str, loss: str) -> None:
    rng = np.random.default_rng(5)
    names = ["a", "b"] if " b" in sql else ["a"]
    sources = [Arriving(name, stamped([], 0)) for name in names]
    simulation = Simulation(sql, sources, 2, crash_everywhere=True, after_crash=LOSSES[loss])
    came: dict[str, list[pa.Table]] = {name: [] for name in names}
    for _ in range(8):
        simulation.now_ms += int(rng.integers(0, 4000))
        # The moment is logged a little before the time of the batch.
        batch = {name: stamped(rng.integers(0, 3, rng.integers(0, 4)).tolist(), simulation.now_ms) for name in names}
        for name, rows in batch.items():
            came[name].append(rows)
        simulation.batch(batch)
        if rng.random() < 0.5:
            simulation.pulse(float(rng.integers(0, 6)))
    simulation.batch({}, ended=names)
    recorded = [replace(one, table=pa.concat_tables(came[one.name])) for one in sources]
    assert simulation.crashes > 50
    assert simulation.counted("late_rows") == 0
    assert simulation.answer() == by_reference(sql, recorded)


@pytest.mark.usefixtures("_own_warm_copies")
def test_windows_come_out_while_nothing_comes() -> None:
    simulation = Simulation(TUMBLE.format("a"), [Arriving("a", stamped([], 0))], 2)
    simulation.batch({"a": stamped([1, 1, 2], simulation.now_ms)})
    assert simulation.table().num_rows == 0
    simulation.pulse(10)
    assert sorted(row["n"] for row in simulation.table().to_pylist()) == [1, 2]


def test_the_moment_of_files_stands_in_their_offsets(tmp_path: Path) -> None:
    add(tmp_path / "a", 0, pa.table({"k": [1]}))
    reader = planner(tmp_path / "a", arrival="true")
    before_us = time.time_ns() // 1000
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    (first,) = reader.partitions(start, end)
    assert isinstance(first, SourceSplit)
    assert first.moments.arrival_us is not None
    assert before_us <= first.moments.arrival_us <= time.time_ns() // 1000
    time.sleep(0.01)
    assert reader.partitions(start, end) == [first]  # a repeat is planned from the log
    add(tmp_path / "a", 1, pa.table({"k": [1]}))
    ahead = {**end, "arrival_us": str(before_us + 10**12)}  # the clock was set back
    assert reader.latestOffset(ahead, ReadAllAvailable())["arrival_us"] == ahead["arrival_us"]


def test_a_batch_that_is_repeated_has_the_moments_it_had(spark: SparkSession, tmp_path: Path) -> None:
    """One stream is read by us, one by Spark."""
    table = pa.table({"k": pa.array([1, 2, 3], pa.int64())})
    for name in "ab":
        add(tmp_path / name, 0, table)
    session = Session(spark, buckets=2)
    session.stream("a", ParquetStream(str(tmp_path / "a")), time="arrival")
    session.stream("b", streaming_frame(spark, tmp_path / "b", table.schema), time="arrival", arrival_column="came")
    query = session.sql("SELECT a.k, a.arrival, b.came FROM a, b WHERE a.k = b.k WINDOW = 1 MINUTE")
    given: list[list[tuple[object, ...]]] = []

    def take(frame: DataFrame, number: int) -> None:
        given.append(sorted(tuple(row) for row in frame.collect()))
        if len(given) == 1:
            time.sleep(0.2)
            raise ValueError("the sink broke")

    answer = query.dataframe().writeStream.foreachBatch(take).trigger(availableNow=True)
    answer = answer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    with pytest.raises(StreamingQueryException):
        answer.start().awaitTermination(PATIENCE_S)
    answer.start().awaitTermination(PATIENCE_S)
    assert given[0] == given[1]
    assert [row[0] for row in given[0]] == [1, 2, 3]
    for moment in {row[1] for row in given[0]} | {row[2] for row in given[0]}:
        assert abs((moment - datetime.now(UTC).replace(tzinfo=None)).total_seconds()) < PATIENCE_S


def test_bounded_rows_arrive_once_on_spark(spark: SparkSession) -> None:
    session = Session(spark, buckets=2)
    session.stream("a", pa.table({"k": [1, 2, 1]}), time="arrival")
    query = session.sql("SELECT k, arrival FROM a")
    first = query.to_arrow()
    assert bag_of(query.to_arrow()) == bag_of(first)
    assert len(set(first["arrival"].to_pylist())) == 1
    counted = session.sql("SELECT k, COUNT(*) AS n FROM a [RANGE 1 SECOND] GROUP BY k").final()
    assert sorted(counted.to_pylist(), key=str) == [{"k": 1, "n": 2}, {"k": 2, "n": 1}]
