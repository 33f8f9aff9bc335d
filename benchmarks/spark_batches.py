"""Where the time of a batch on Spark goes, what of it is Spark's own, and what a batch of next to nothing costs.

    python -m benchmarks.spark_batches [--rows 2000000] [--batches 6]

The steps of a large batch are found by leaving out those that follow: the files scanned only; handed to a Python that
drops them; packed; shuffled to buckets that do nothing; the whole query. And Spark's own share is a query of the same
shape whose Python does nothing at all: rows are dropped as they come, buckets keep nothing and give as many results as
the real ones. Seconds by the clock stand beside those of the processors, Java's and Python's apart. What
the stateful stage does inside is counted by the query itself and is per core.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial, reduce
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

import watersmeet as wm
from benchmarks.harness import Figure, figure, report
from benchmarks.processes import Kind, cpu_seconds
from benchmarks.spark_joins import FOR_OURS, FOR_SPARK, expected, native, ours, read, reports, write_streams
from watersmeet.hosts.spark.bucket.output import Output, output_of
from watersmeet.hosts.spark.dataframe import batch_time, make_job
from watersmeet.hosts.spark.exchange.messages import NOW, RowsRead, as_batch, to_buckets
from watersmeet.hosts.spark.exchange.pack import NOTHING_NEW_US, packer, with_newest
from watersmeet.hosts.spark.jobs.group import JobGroup
from watersmeet.hosts.spark.jobs.ids import GUARD
from watersmeet.hosts.spark.jobs.job import AtStart, SparkJob
from watersmeet.hosts.spark.launching.launch import start_spark
from watersmeet.hosts.spark.reading.connector_source import ConnectorReader, PackedConnector
from watersmeet.hosts.spark.reading.file_stream import ParquetStream
from watersmeet.hosts.spark.reading.source_packets import encoded, shipped
from watersmeet.hosts.spark.reading.splits import PACKED
from watersmeet.model.catalog import Stream

WAYS = 2
WINDOW_ROWS = 200_000
WARM_UP = 2
STREAMS = "ab"
POLL_S = 0.05
INSIDE = (("unpack_ns", "unpack"), ("kernel_ns", "kernel"), ("state_ns", "state"))
PHASES = ("latestOffset", "queryPlanning", "walCommit", "commitOffsets")
Arrow = Iterator[pa.RecordBatch]


# ---- queries with steps left out -------------------------------------------------------------------------------------


def scanned(spark: SparkSession, folder: Path) -> DataFrame:
    return reduce(DataFrame.union, [read(spark, folder, name) for name in STREAMS])


def handed_over(spark: SparkSession, folder: Path, then: Mapping[str, Callable[[Arrow], Arrow]]) -> DataFrame:
    """Spark's rows through a function of Python's for each stream."""
    return reduce(DataFrame.union, [read(spark, folder, name).mapInArrow(then[name], PACKED) for name in STREAMS])


def read_packed(spark: SparkSession, folder: Path, job: SparkJob, *, idle: bool) -> DataFrame:
    """The packets of our own source; `idle`: of one that does not read."""
    spark.dataSource.register(IdleConnector)
    parts = []
    for name in STREAMS:
        stream = next(one.relation for one in job.streams if one.relation.name == name)
        assert isinstance(stream, Stream)
        source = ParquetStream(str(folder / name), max_files_per_trigger=1).connected(stream)
        reader = source.packed_reader(spark, JobGroup((job,)))
        if idle:
            options = source.encoded_options()
            reader = (
                spark.readStream.format(IdleConnector.name())
                .options(**options)
                .option("jobs", encoded(JobGroup((job,))))
            )
        parts.append(reader.option("source", name).load().drop("newest"))
    return reduce(DataFrame.union, parts)


def to_idle_buckets(packets: DataFrame, job: SparkJob, results: int) -> DataFrame:
    """Packets on their way through buckets that keep nothing and give so many results a batch."""
    output = output_of(job)
    dated = packets.withColumn(NOW, batch_time())
    stage = IdleStage(output, job.plan.output_schema, results // job.partitioning.buckets)
    frames = dated.groupBy("bucket").transformWithStateInPandas(stage, output.schema, "Append", "None")
    return output.rows(frames, "idle")


def few_packets(group: JobGroup) -> pa.RecordBatch:
    """One for each bucket, so that Spark calls them."""
    return as_batch(to_buckets(group.keys, RowsRead()))


def dropping(group: JobGroup, batches: Arrow) -> Arrow:
    for _ in batches:
        pass
    yield few_packets(group)


class IdleConnector(PackedConnector):
    @classmethod
    def name(cls) -> str:
        return "idle_partitions"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802
        return IdleReader(dict(self.options))


class IdleReader(ConnectorReader):
    def rows_of(self, partition: InputPartition) -> Arrow:
        yield with_newest(few_packets(shipped(self.encoded_jobs)), NOTHING_NEW_US)


class IdleStage(StatefulProcessor):
    def __init__(self, output: Output, results: pa.Schema, rows: int) -> None:
        self.output, self.results, self.rows = output, results, rows

    def init(self, handle: Any) -> None:
        pass

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        for _ in rows:
            pass
        if key[0] != GUARD and self.rows:
            yield _frame(self.output, self.results, self.rows)

    def close(self) -> None:
        pass


def _frame(output: Output, results: pa.Schema, rows: int) -> pd.DataFrame:
    columns = [pa.array(np.arange(rows)).cast(field.type) for field in results]
    return output.frame([pa.RecordBatch.from_arrays(columns, schema=results)])


# ---- measuring -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ran:
    """Every batch that had input, the first ones left out, and the processor time of one of them."""

    progress: list[StreamingQueryProgress]
    cpu_s: dict[Kind, float]

    def seconds(self, phase: str) -> list[float]:
        return [p.durationMs.get(phase, 0) / 1000 for p in self.progress]

    def counted(self, name: str) -> list[float]:
        """A number that the query observed, in seconds."""
        return [sum(one["counts"].get(name, 0) for one in reports(p)) / 1e9 for p in self.progress] or [0.0]

    def figure(self, label: str) -> Figure:
        cpu = {f"{kind}_cpu_s": round(seconds, 2) for kind, seconds in self.cpu_s.items()}
        return figure(label, "s", self.seconds("triggerExecution"), cpu_s=round(sum(self.cpu_s.values()), 2), **cpu)


def ran(df: DataFrame) -> Ran:
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as checkpoint:
        writer = df.writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start()
        while query.isActive and (query.lastProgress is None or query.lastProgress.batchId < WARM_UP - 1):
            time.sleep(POLL_S)
        before = {kind: cpu_seconds(kind) for kind in _KINDS}
        query.awaitTermination()
        used = {kind: cpu_seconds(kind) - before[kind] for kind in _KINDS}
        progress = [p for p in query.recentProgress if p.numInputRows and p.batchId >= WARM_UP]
        return Ran(progress, {kind: seconds / len(progress) for kind, seconds in used.items()})


_KINDS: tuple[Kind, ...] = ("java", "python")


def split(spark: SparkSession, folder: Path, rows: int, batches: int) -> Iterator[Figure]:
    label = f"2-way, {rows:,} rows a batch"
    job = _job(spark, folder)
    results = expected(folder, WAYS, WINDOW_ROWS // 2)[0] // batches
    packers = {name: packer(JobGroup((job,)), name) for name in STREAMS}
    droppers = dict.fromkeys(STREAMS, partial(dropping, JobGroup((job,))))
    idle = f"{label}: the same shape, but Python does nothing"
    steps: dict[str, Callable[[], DataFrame]] = {
        f"{label}: scan alone": lambda: scanned(spark, folder),
        f"{label}: scan, and rows to a Python that drops them": lambda: handed_over(spark, folder, droppers),
        f"{label}: scan and pack": lambda: handed_over(spark, folder, packers),
        f"{label}: scan, pack, buckets that do nothing": lambda: to_idle_buckets(
            handed_over(spark, folder, packers), job, 0
        ),
        f"{idle}, from rows": lambda: to_idle_buckets(handed_over(spark, folder, droppers), job, results),
        f"{label}: read packed": lambda: read_packed(spark, folder, job, idle=False),
        f"{idle} nor reads, from packets": lambda: to_idle_buckets(
            read_packed(spark, folder, job, idle=True), job, results
        ),
        f"{idle}, nor reads, nor has results": lambda: to_idle_buckets(
            read_packed(spark, folder, job, idle=True), job, 0
        ),
    }
    yield from (ran(build()).figure(name) for name, build in steps.items())
    for how, from_packets in (("from rows", False), ("from packets", True)):
        whole = ran(ours(spark, folder, WAYS, WINDOW_ROWS // 2, packed=from_packets))
        yield whole.figure(f"{label} {how}: whole batch")
        yield figure(f"{label} {how}: all tasks (addBatch)", "s", whole.seconds("addBatch"))
        for name, what in INSIDE:
            yield figure(f"{label} {how}: {what}, both cores added", "s", whole.counted(name))
        for phase in PHASES:
            yield figure(f"{label} {how}: {phase}", "s", whole.seconds(phase))
        stores = [sum(o.commitTimeMs for o in p.stateOperators) / 1000 for p in whole.progress]
        yield figure(f"{label} {how}: state store commits, added", "s", stores)


def _job(spark: SparkSession, folder: Path) -> SparkJob:
    session = wm.Session(spark)
    for name in STREAMS:
        session.stream(name, read(spark, folder, name), time="ts")
    window = f"WINDOW = {WINDOW_ROWS // 2} MILLISECONDS"
    query = session.sql(f"SELECT a.k, a.v AS va, b.v AS vb FROM a, b WHERE a.k = b.k {window}")
    return make_job(query.plan, 2, AtStart(shares_memory=True))


def fixed_costs(spark: SparkSession, folder: Path) -> Iterator[Figure]:
    """A batch of 20 rows: a query without state, Spark's join, ours; and ours if its Python does nothing."""
    window_ms = WINDOW_ROWS // 2
    job = _job(spark, folder)
    droppers = dict.fromkeys(STREAMS, partial(dropping, JobGroup((job,))))
    contenders: dict[str, tuple[dict[str, str], Callable[[], DataFrame]]] = {
        "no state": (FOR_OURS, lambda: scanned(spark, folder)),
        "Spark's join": (FOR_SPARK, lambda: native(spark, folder, WAYS, window_ms)),
        "Spark's join on RocksDB": (FOR_OURS, lambda: native(spark, folder, WAYS, window_ms)),
        "ours": (FOR_OURS, lambda: ours(spark, folder, WAYS, window_ms, packed=False)),
        "ours, if Python did nothing": (
            FOR_OURS,
            lambda: to_idle_buckets(handed_over(spark, folder, droppers), job, 0),
        ),
        "ours, packed": (FOR_OURS, lambda: ours(spark, folder, WAYS, window_ms, packed=True)),
        "ours, packed, if Python did nothing": (
            FOR_OURS,
            lambda: to_idle_buckets(read_packed(spark, folder, job, idle=True), job, 0),
        ),
    }
    for name, (settings, build) in contenders.items():
        for setting, value in settings.items():
            spark.conf.set(setting, value)
        batches = ran(build())
        one = batches.figure(f"20 rows a batch, {name}")
        phases = batches.progress[0].durationMs
        one.notes["phases"] = {phase: round(statistics.median(batches.seconds(phase)), 3) for phase in phases}
        one.notes["inside"] = {what: round(statistics.median(batches.counted(name)), 4) for name, what in INSIDE}
        yield one


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--batches", type=int, default=6)
    given = parser.parse_args()
    spark = start_spark("local[2]", {"spark.driver.memory": "8g", "spark.sql.shuffle.partitions": "2"})
    for setting, value in FOR_OURS.items():
        spark.conf.set(setting, value)
    with tempfile.TemporaryDirectory(prefix="bench-data-", ignore_cleanup_errors=True) as root:
        large, small = Path(root) / "large", Path(root) / "small"
        write_streams(large, WAYS, given.rows, given.batches, WINDOW_ROWS)
        write_streams(small, WAYS, 20, 20, WINDOW_ROWS)
        steps = split(spark, large, given.rows, given.batches)
        report("spark_batches", chain(steps, fixed_costs(spark, small)))
    spark.stop()


if __name__ == "__main__":
    main()
