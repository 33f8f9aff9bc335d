"""Joins on Spark, side by side: Spark's own stream-stream joins and ours, on the same Parquet files.

    python -m benchmarks.spark_joins [--rows 500000] [--ways 2,3,4] [--batches 6] [--runs 2]

Every run replays the same files, one per stream and trigger. The first batches fill the windows and warm the
JVM; the batch times of the rest count. The sink is a count and an order-free checksum. Ours must be those that DuckDB
gives for the same files. Spark's own may fall short by a few: a chain of its joins drops an intermediate row whose time
is exactly the watermark; what is missing is printed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.listener import StreamingQueryProgress

import watersmeet as wm
from benchmarks.harness import Figure, figure, report
from watersmeet.hosts.spark.launching.launch import start_spark
from watersmeet.hosts.spark.reading.file_stream import ParquetStream

GOALS = {"ours": {2: 10, 3: 15, 4: 30}, "ours, packed": {2: 20, 3: 30, 4: 40}}
SCHEMA = "k long, v long, ts timestamp"
NAMES = "abcdefgh"
BEGUN_S = 1_700_000_000
STATE = "spark.sql.streaming.stateStore."
STORES = "org.apache.spark.sql.execution.streaming.state."
# Spark's joins are fastest with the store in memory and state format 2; that store has no checkpoint format 2.
FOR_SPARK = {
    f"{STATE}providerClass": f"{STORES}HDFSBackedStateStoreProvider",
    f"{STATE}checkpointFormatVersion": "1",
    "spark.sql.streaming.join.stateFormatVersion": "2",
}
FOR_OURS = {f"{STATE}providerClass": f"{STORES}RocksDBStateStoreProvider", f"{STATE}checkpointFormatVersion": "1"}


def write_streams(folder: Path, ways: int, rows_per_batch: int, batches: int, window_rows: int) -> None:
    """One file per stream and batch; each row has about one partner per other stream in its window."""
    per_file = rows_per_batch // ways
    for i, name in enumerate(NAMES[:ways]):
        rng = np.random.default_rng(i)
        (folder / name).mkdir(parents=True)
        for batch in range(batches):
            at = np.arange(batch * per_file, (batch + 1) * per_file, dtype=np.int64) * 1000
            columns = {
                "k": rng.integers(0, window_rows, per_file),
                "v": rng.integers(0, 1 << 40, per_file),
                "ts": pa.array(at, pa.timestamp("us", tz="UTC")),
            }
            file = folder / name / f"{batch:04}.parquet"
            pq.write_table(pa.table(columns), file)
            os.utime(file, (BEGUN_S, BEGUN_S + batch))  # Spark takes files of one moment in any order


def read(spark: SparkSession, folder: Path, name: str) -> DataFrame:
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder / name))


def native(spark: SparkSession, folder: Path, ways: int, window_ms: int) -> DataFrame:
    """Chained binary joins; between two joins only one event-time column may stay, or Spark refuses."""
    first, *others = NAMES[:ways]
    out = read(spark, folder, first).withWatermark("ts", "0 seconds").select("k", F.col("v").alias("va"), "ts")
    for name in others:
        right = read(spark, folder, name).withWatermark("ts", "0 seconds")
        right = right.select(F.col("k").alias("rk"), F.col("v").alias(f"v{name}"), F.col("ts").alias("rts"))
        width = f"INTERVAL {window_ms} MILLISECONDS"
        near = F.expr(f"k = rk AND rts >= ts - {width} AND rts <= ts + {width}")
        out = out.join(right, near).drop("rk", "rts")
    return out.select("k", *(f"v{name}" for name in NAMES[:ways]))


def ours(spark: SparkSession, folder: Path, ways: int, window_ms: int, packed: bool) -> DataFrame:
    """The same combinations: every stream within the window of the first. From Spark's rows, or read packed."""
    session = wm.Session(spark)
    for name in NAMES[:ways]:
        source = ParquetStream(str(folder / name), max_files_per_trigger=1) if packed else read(spark, folder, name)
        session.stream(name, source, time="ts")
    first, *others = NAMES[:ways]
    same = " AND ".join(f"{first}.k = {name}.k" for name in others)
    windows = " AND ".join(f"WINDOW ({first}, {name}) = {window_ms} MILLISECONDS" for name in others)
    values = ", ".join(f"{name}.v AS v{name}" for name in NAMES[:ways])
    return session.sql(f"SELECT {first}.k, {values} FROM {', '.join(NAMES[:ways])} WHERE {same} {windows}").dataframe()


def mixed(ways: int) -> str:
    """A result row as one number, in words that Spark and DuckDB share."""
    weighed = " + ".join(f"v{name} * {3 + 2 * i}" for i, name in enumerate(NAMES[:ways]))
    return f"({weighed} + k) % 1000003"


def expected(folder: Path, ways: int, window_ms: int) -> tuple[int, int]:
    """Count and checksum of the answer, by DuckDB."""
    first, *others = NAMES[:ways]
    tables = ", ".join(f"'{folder}/{name}/*.parquet' {name}" for name in NAMES[:ways])
    width = f"INTERVAL {window_ms} MILLISECONDS"
    near = [f"{first}.k = {o}.k AND {o}.ts BETWEEN {first}.ts - {width} AND {first}.ts + {width}" for o in others]
    values = ", ".join(f"{name}.v AS v{name}" for name in NAMES[:ways])
    joined = f"SELECT {first}.k, {values} FROM {tables} WHERE {' AND '.join(near)}"
    # In the order written, so that every join is narrowed by time; DuckDB's own order joins by key alone first.
    duckdb.sql("SET disabled_optimizers = 'join_order'")
    count, total = duckdb.execute(f"SELECT count(*), sum({mixed(ways)})::BIGINT FROM ({joined})").fetchall()[0]
    return int(count), int(total or 0)


class Outcome:
    def __init__(self) -> None:
        self.batch_seconds: list[float] = []
        self.rows = 0
        self.checksum = 0
        self.state_bytes = 0
        self.lost = 0
        self.phases: dict[str, list[float]] = {}


def replay(df: DataFrame, ways: int, warm_up: int) -> Outcome:
    checkpoint = tempfile.mkdtemp(prefix="bench-")
    checked = df.observe("check", F.count(F.lit(1)).alias("n"), F.sum(F.expr(mixed(ways))).alias("s"))
    query = (
        checked.writeStream.format("noop").option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    )
    query.awaitTermination()
    outcome = Outcome()
    for progress in query.recentProgress:
        seen = progress.observedMetrics.get("check")
        outcome.rows += seen.n if seen else 0
        outcome.checksum += (seen.s or 0) if seen else 0
        outcome.lost += lost_results(progress)
        if progress.numInputRows and progress.batchId >= warm_up:
            outcome.batch_seconds.append(progress.durationMs["triggerExecution"] / 1000)
            for phase, ms in progress.durationMs.items():
                outcome.phases.setdefault(phase, []).append(ms / 1000)
            outcome.state_bytes = state_bytes(progress)
    shutil.rmtree(checkpoint, ignore_errors=True)
    return outcome


def state_bytes(progress: StreamingQueryProgress) -> int:
    """Of ours, the rows that the state holds; of Spark's, what its store says it uses."""
    held = [one["state_bytes"] for one in reports(progress) if "state_bytes" in one]
    return sum(held) if held else sum(operator.memoryUsedBytes for operator in progress.stateOperators)


def lost_results(progress: StreamingQueryProgress) -> int:
    """What a join in bounded memory says it lost in a batch."""
    return sum(one["counts"].get("lost_results", 0) for one in reports(progress))


def reports(progress: StreamingQueryProgress) -> list[dict[str, Any]]:
    """What the buckets of ours told with a batch."""
    observed = [row for name, row in progress.observedMetrics.items() if name.startswith("watersmeet")]
    return [json.loads(text) for row in observed for text in row.reports]


def compare(spark: SparkSession, ways: int, rows: int, batches: int, runs: int) -> list[Figure]:
    folder = Path(tempfile.mkdtemp(prefix="bench-data-"))
    window_rows = 400_000 // ways
    window_ms = window_rows // 2
    write_streams(folder, ways, rows, batches, window_rows)
    contenders: dict[str, tuple[dict[str, str], Callable[[], DataFrame]]] = {
        "ours": (FOR_OURS, lambda: ours(spark, folder, ways, window_ms, packed=False)),
        "ours, packed": (FOR_OURS, lambda: ours(spark, folder, ways, window_ms, packed=True)),
        "spark": (FOR_SPARK, lambda: native(spark, folder, ways, window_ms)),
    }
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    last: dict[str, Outcome] = {}
    for _ in range(runs):
        for name, (settings, build) in contenders.items():
            for setting, value in settings.items():
                spark.conf.set(setting, value)
            last[name] = replay(build(), ways, warm_up=2)
            seconds[name] += last[name].batch_seconds
            print(f"  {ways}-way {name}: {statistics.median(last[name].batch_seconds):.2f} s a batch", flush=True)
    answers = {name: (outcome.rows, outcome.checksum) for name, outcome in last.items()}
    exact = expected(folder, ways, window_ms)
    assert answers["ours"] == answers["ours, packed"] == exact, (answers, exact)
    missing = exact[0] - answers["spark"][0]
    assert 0 <= missing <= 10, (answers, exact)
    assert missing or answers["spark"] == exact, (answers, exact)
    shutil.rmtree(folder, ignore_errors=True)
    goals = {name: f">= {wanted[ways]}" if ways in wanted else "" for name, wanted in GOALS.items()}
    label = f"{ways}-way, {rows:,} rows a batch"
    figures = [
        figure(
            f"{label}, {name}",
            "s a batch",
            taken,
            state_mb=round(last[name].state_bytes / 1e6, 1),
            missing=exact[0] - answers[name][0],
        )
        for name, taken in seconds.items()
    ]
    for name, goal in goals.items():
        ratio = statistics.median(seconds["spark"]) / statistics.median(seconds[name])
        phases = {phase: round(statistics.median(taken), 2) for phase, taken in last[name].phases.items()}
        results = answers[name][0]
        figures.append(figure(f"{label}, Spark / {name}", "x", [ratio], goal, results=results, phases=phases))
    return figures


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", default="500000")
    parser.add_argument("--ways", default="2,3,4")
    parser.add_argument("--batches", type=int, default=6)
    parser.add_argument("--runs", type=int, default=2)
    given = parser.parse_args()
    spark = start_spark("local[2]", {"spark.driver.memory": "8g", "spark.sql.shuffle.partitions": "2"})
    cases = [(int(rows), int(ways)) for rows in given.rows.split(",") for ways in given.ways.split(",")]
    found = (one for rows, ways in cases for one in compare(spark, ways, rows, given.batches, given.runs))
    report("spark_joins", found, beside=given.ways != parser.get_default("ways"))
    spark.stop()


if __name__ == "__main__":
    main()
