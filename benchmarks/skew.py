"""A join on Spark whose keys are skewed, beside one of uniform keys with as many results.

    python -m benchmarks.skew [--rows 10000] [--batches 5] [--runs 2] [--buckets 2]

Two streams, a row a millisecond of each, windows of a second, keys by Zipf's law with the exponent 1.5, on two cores;
once as they lie, once with the keys spread that come most often. Uniform keys are twenty, in windows so much longer
that as many rows meet; batches are not much longer than windows, as rows of one key would be passed over in vain else.
All answers must be DuckDB's.

What the fullest bucket has is told by the buckets themselves: results given, by the mean of all.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession, functions

import watersmeet as wm
from benchmarks.harness import Figure, figure, report
from benchmarks.spark_joins import BEGUN_S, FOR_OURS, mixed
from watersmeet.hosts.spark.bucket.output import OBSERVED, REPORTS
from watersmeet.hosts.spark.launching.launch import start_spark
from watersmeet.hosts.spark.reading.file_stream import ParquetStream

EXPONENT, KEYS, UNIFORM_KEYS = 1.5, 100_000, 20
WINDOW_MS, WARM_UP = 1_000, 2
Keys = npt.NDArray[np.int64]


def zipf_shares() -> npt.NDArray[np.float64]:
    weights = np.arange(1, KEYS + 1) ** -EXPONENT
    return weights / weights.sum()


def skewed(rng: np.random.Generator, rows: int) -> Keys:
    return rng.choice(KEYS, rows, p=zipf_shares())


def uniform(rng: np.random.Generator, rows: int) -> Keys:
    return rng.integers(0, UNIFORM_KEYS, rows)


# As many rows of the same key meet.
UNIFORM_MS = round(WINDOW_MS * UNIFORM_KEYS * float((zipf_shares() ** 2).sum()))


def write(folder: Path, keys_of: Callable[[np.random.Generator, int], Keys], rows: int, batches: int) -> None:
    for seed, name in enumerate("ab"):
        rng = np.random.default_rng(seed)
        (folder / name).mkdir(parents=True)
        for batch in range(batches):
            at = np.arange(batch * rows, (batch + 1) * rows, dtype=np.int64) * 1000
            columns = {
                "k": keys_of(rng, rows),
                "v": rng.integers(0, 1 << 40, rows),
                "ts": pa.array(at, pa.timestamp("us", tz="UTC")),
            }
            file = folder / name / f"{batch:04}.parquet"
            pq.write_table(pa.table(columns), file)
            os.utime(file, (BEGUN_S, BEGUN_S + batch))


@dataclass
class Outcome:
    seconds: list[float] = field(default_factory=list)
    results: int = 0
    checksum: int = 0
    by_bucket: Counter[int] = field(default_factory=Counter)

    @property
    def fullest(self) -> float:
        """By the mean of all buckets."""
        return max(self.by_bucket.values()) / statistics.mean(self.by_bucket.values())


def expected(folder: Path, window_ms: int) -> tuple[int, int]:
    """Count and checksum of the answer, by DuckDB; by key and stretch of time, as keys alone have too many rows."""
    width = 1000 * window_ms
    stretch = f"epoch_us(ts) // {width}"
    slots = f"(SELECT *, unnest([{stretch} - 1, {stretch}, {stretch} + 1]) AS slot FROM '{folder}/a/*.parquet')"
    others = f"(SELECT *, {stretch} AS slot FROM '{folder}/b/*.parquet')"
    joined = (
        f"SELECT a.k, a.v AS va, b.v AS vb FROM {slots} a JOIN {others} b "
        f"ON a.k = b.k AND a.slot = b.slot WHERE abs(epoch_us(a.ts) - epoch_us(b.ts)) <= {width}"
    )
    count, total = duckdb.execute(f"SELECT count(*), sum({mixed(2)})::BIGINT FROM ({joined})").fetchall()[0]
    return int(count), int(total or 0)


def run(spark: SparkSession, folder: Path, window_ms: int, buckets: int, options: str) -> Outcome:
    session = wm.Session(spark, buckets=buckets)
    for name in "ab":
        session.stream(name, ParquetStream(str(folder / name), max_files_per_trigger=1), time="ts")
    sql = f"SELECT a.k, a.v AS va, b.v AS vb FROM a, b WHERE a.k = b.k WINDOW = {window_ms} MILLISECONDS {options}"
    answer = session.sql(sql).dataframe()
    checked = answer.observe(
        "check", functions.count(functions.lit(1)).alias("n"), functions.sum(functions.expr(mixed(2))).alias("s")
    )
    checkpoint = tempfile.mkdtemp(prefix="bench-")
    writer = checked.writeStream.format("noop").option("checkpointLocation", checkpoint)
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    outcome = Outcome()
    for progress in query.recentProgress:
        seen = progress.observedMetrics.get("check")
        outcome.results += seen.n if seen else 0
        outcome.checksum += (seen.s or 0) if seen else 0
        told = (row.asDict() for name, row in progress.observedMetrics.items() if name.startswith(OBSERVED))
        reports = [json.loads(text) for row in told for text in row.get(REPORTS) or ()]
        by_bucket = {one["bucket"]: one["counts"].get("results", 0) for one in reports if one["bucket"] >= 0}
        if progress.numInputRows and progress.batchId >= WARM_UP:
            outcome.seconds.append(progress.durationMs["triggerExecution"] / 1000)
            outcome.by_bucket.update(by_bucket)
    shutil.rmtree(checkpoint, ignore_errors=True)
    return outcome


def compare(spark: SparkSession, rows: int, batches: int, runs: int, buckets: int) -> list[Figure]:
    folder = Path(tempfile.mkdtemp(prefix="bench-skew-"))
    write(folder / "uniform", uniform, rows, batches)
    write(folder / "zipf", skewed, rows, batches)
    keys = np.flatnonzero(zipf_shares() >= 1 / (2 * buckets))  # those that the run itself names
    spread = f"OPTIONS (spread = '{', '.join(map(str, keys))}')"
    cases = {
        "uniform": ("uniform", UNIFORM_MS, ""),
        "Zipf, spread": ("zipf", WINDOW_MS, spread),
        "Zipf": ("zipf", WINDOW_MS, ""),
    }
    found: dict[str, list[Outcome]] = {name: [] for name in cases}
    for _ in range(runs):
        for name, (data, window_ms, options) in cases.items():
            found[name].append(run(spark, folder / data, window_ms, buckets, options))
            print(f"  {name}: {statistics.median(found[name][-1].seconds):.2f} s a batch", flush=True)
    for name, (data, window_ms, _) in cases.items():
        exact = expected(folder / data, window_ms)
        assert all((one.results, one.checksum) == exact for one in found[name]), (name, exact)
    shutil.rmtree(folder, ignore_errors=True)
    label = f"{rows:,} rows a batch of each stream, {buckets} buckets"
    seconds = {name: [s for one in outcomes for s in one.seconds] for name, outcomes in found.items()}
    figures = [
        figure(f"{label}, {name}", "s a batch", seconds[name], results=outcomes[-1].results)
        for name, outcomes in found.items()
    ]
    for name, time_goal, full_goal in (("Zipf, spread", "<= 1.5", "<= 2"), ("Zipf", "", "")):
        ratio = statistics.median(seconds[name]) / statistics.median(seconds["uniform"])
        figures.append(figure(f"{label}, {name} / uniform", "x", [ratio], time_goal))
        full = [one.fullest for one in found[name]]
        figures.append(figure(f"{label}, {name}, fullest bucket / mean", "x", full, full_goal))
    return figures


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--batches", type=int, default=5)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--buckets", type=int, default=2)
    given = parser.parse_args()
    spark = start_spark("local[2]", {"spark.driver.memory": "4g", "spark.sql.shuffle.partitions": str(given.buckets)})
    for setting, value in FOR_OURS.items():
        spark.conf.set(setting, value)
    report("skew", compare(spark, given.rows, given.batches, given.runs, given.buckets))
    spark.stop()


if __name__ == "__main__":
    main()
