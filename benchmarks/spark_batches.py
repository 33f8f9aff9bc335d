"""Where the time of a batch on Spark goes, and what a batch costs that has next to nothing in it.

    python -m benchmarks.spark_batches [--rows 2000000] [--batches 6]

The parts of a large batch are found by leaving parts out: the files scanned only; scanned and packed; the whole
query. What the stateful stage does inside is counted by the query itself and is per core; Spark's own steps
are as its progress reports them.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Callable
from functools import reduce
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress

import watersmeet as wm
from benchmarks.harness import Figure, figure, report
from benchmarks.spark_joins import FOR_OURS, FOR_SPARK, native, ours, read, reports, write_streams
from watersmeet.hosts.spark.dataframe import make_job
from watersmeet.hosts.spark.exchange.pack import packer
from watersmeet.hosts.spark.launching.launch import start_spark
from watersmeet.hosts.spark.reading.splits import PACKED

WAYS = 2
WINDOW_ROWS = 200_000
WARM_UP = 2


def scanned(spark: SparkSession, folder: Path) -> DataFrame:
    return reduce(DataFrame.union, [read(spark, folder, name) for name in "ab"])


def packed(spark: SparkSession, folder: Path) -> DataFrame:
    session = wm.Session(spark)
    for name in "ab":
        session.stream(name, read(spark, folder, name), time="ts")
    query = session.sql(f"SELECT a.k, a.v, b.v FROM a, b WHERE a.k = b.k WINDOW = {WINDOW_ROWS // 2} MILLISECONDS")
    job = make_job(query.plan, 2)
    parts = [read(spark, folder, name).mapInArrow(packer(job, name), PACKED) for name in "ab"]
    return reduce(DataFrame.union, parts)


def batches_of(df: DataFrame) -> list[StreamingQueryProgress]:
    """The progress of every batch that had input, the first ones left out."""
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as checkpoint:
        writer = df.writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        return [p for p in query.recentProgress if p.numInputRows and p.batchId >= WARM_UP]


def seconds(progress: list[StreamingQueryProgress], phase: str) -> list[float]:
    return [p.durationMs.get(phase, 0) / 1000 for p in progress]


def counted(progress: list[StreamingQueryProgress], name: str) -> list[float]:
    """A number that the query observed, in seconds."""
    return [sum(one["counts"].get(name, 0) for one in reports(p)) / 1e9 for p in progress] or [0.0]


def split(spark: SparkSession, folder: Path, rows: int) -> list[Figure]:
    label = f"2-way, {rows:,} rows a batch"
    scan = batches_of(scanned(spark, folder))
    pack = batches_of(packed(spark, folder))
    figures = [
        figure(f"{label}: scan alone", "s", seconds(scan, "addBatch")),
        figure(f"{label}: scan and pack", "s", seconds(pack, "addBatch")),
    ]
    for how, from_packets in (("from rows", False), ("from packets", True)):
        whole = batches_of(ours(spark, folder, WAYS, WINDOW_ROWS // 2, packed=from_packets))
        figures.append(figure(f"{label} {how}: whole batch", "s", seconds(whole, "triggerExecution")))
        figures.append(figure(f"{label} {how}: all tasks (addBatch)", "s", seconds(whole, "addBatch")))
        for name, what in (("unpack_ns", "unpack"), ("kernel_ns", "kernel"), ("state_ns", "state")):
            figures.append(figure(f"{label} {how}: {what}, both cores added", "s", counted(whole, name)))
        for phase in ("latestOffset", "queryPlanning", "walCommit", "commitOffsets"):
            figures.append(figure(f"{label} {how}: {phase}", "s", seconds(whole, phase)))
        stores = [sum(o.commitTimeMs for o in p.stateOperators) / 1000 for p in whole]
        figures.append(figure(f"{label} {how}: state store commits, added", "s", stores))
    return figures


def fixed_costs(spark: SparkSession, folder: Path) -> list[Figure]:
    """A batch of 20 rows: a query without state, Spark's join, ours."""
    window_ms = WINDOW_ROWS // 2
    contenders: dict[str, tuple[dict[str, str], Callable[[], DataFrame]]] = {
        "no state": (FOR_OURS, lambda: scanned(spark, folder)),
        "Spark's join": (FOR_SPARK, lambda: native(spark, folder, WAYS, window_ms)),
        "Spark's join on RocksDB": (FOR_OURS, lambda: native(spark, folder, WAYS, window_ms)),
        "ours": (FOR_OURS, lambda: ours(spark, folder, WAYS, window_ms, packed=False)),
        "ours, packed": (FOR_OURS, lambda: ours(spark, folder, WAYS, window_ms, packed=True)),
    }
    figures = []
    for name, (settings, build) in contenders.items():
        for setting, value in settings.items():
            spark.conf.set(setting, value)
        progress = batches_of(build())
        times = seconds(progress, "triggerExecution")
        phases = {phase: round(statistics.median(seconds(progress, phase)), 3) for phase in progress[0].durationMs}
        inside = {n: round(statistics.median(counted(progress, n)), 4) for n in ("unpack_ns", "kernel_ns", "state_ns")}
        figures.append(figure(f"20 rows a batch, {name}", "s", times, phases=phases, inside=inside))
    return figures


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
        figures = split(spark, large, given.rows) + fixed_costs(spark, small)
    report("spark_batches", figures)
    spark.stop()


if __name__ == "__main__":
    main()
