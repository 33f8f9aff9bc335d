"""Joins in bounded memory on Spark against the same joins that keep everything, on the same Parquet files.

    python -m benchmarks.spark_shedding [--rows 500000] [--batches 8] [--runs 3]

Memory for half of the rows in the windows. What is given and what is lost must add up to the exact answer.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import watersmeet as wm
from benchmarks.harness import Figure, figure, report
from benchmarks.spark_joins import FOR_OURS, NAMES, read, replay, write_streams
from watersmeet.hosts.spark.launching.launch import start_spark
from watersmeet.hosts.spark.reading.file_stream import ParquetStream

WINDOW = 200_000  # rows of each stream


def query(spark: SparkSession, folder: Path, packed: bool, options: str) -> DataFrame:
    session = wm.Session(spark)
    for name in NAMES[:2]:
        source = ParquetStream(str(folder / name), max_files_per_trigger=1) if packed else read(spark, folder, name)
        session.stream(name, source, time="ts")
    windows = ", ".join(f"{name} [RANGE {WINDOW} MILLISECONDS]" for name in NAMES[:2])
    return session.sql(f"SELECT a.k, a.v AS va, b.v AS vb FROM {windows} WHERE a.k = b.k {options}").dataframe()


def compare(spark: SparkSession, rows: int, batches: int, runs: int, packed: bool) -> list[Figure]:
    folder = Path(tempfile.mkdtemp(prefix="bench-data-"))
    write_streams(folder, 2, rows, batches, WINDOW)
    ways = {"everything kept": ""}
    for policy, recall in (("rand", "exact"), ("prob", "exact"), ("prob", "none")):
        options = f"OPTIONS (memory = '{WINDOW} rows', shed = '{policy}', recall = '{recall}')"
        ways[f"half the window kept, {policy}, recall {recall}"] = options
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    given: dict[str, int] = {}
    for _ in range(runs):
        for way, options in ways.items():
            outcome = replay(query(spark, folder, packed, options), 2, warm_up=2)
            seconds[way] += outcome.batch_seconds
            given[way] = outcome.rows
            print(f"  {way}: {statistics.median(outcome.batch_seconds):.2f} s a batch", flush=True)
            if "exact" in way:
                assert outcome.rows + outcome.lost == given["everything kept"], (way, outcome.rows, outcome.lost)
    shutil.rmtree(folder, ignore_errors=True)
    label = f"2-way, {rows:,} rows a batch{', packed' if packed else ''}"
    whole = seconds["everything kept"]
    figures = [figure(f"{label}, everything kept", "s a batch", whole)]
    for way in list(ways)[1:]:
        ratios = [statistics.median(whole) / one for one in seconds[way]]
        share = round(given[way] / given["everything kept"], 3)
        figures.append(figure(f"{label}, {way}", "x", ratios, ">= 0.8", given=share))
    return figures


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--batches", type=int, default=8)
    parser.add_argument("--runs", type=int, default=3)
    asked = parser.parse_args()
    spark = start_spark("local[2]", {"spark.driver.memory": "8g", "spark.sql.shuffle.partitions": "2"})
    for setting, value in FOR_OURS.items():
        spark.conf.set(setting, value)
    figures = [one for packed in (False, True) for one in compare(spark, asked.rows, asked.batches, asked.runs, packed)]
    report("spark_shedding", figures)
    spark.stop()


if __name__ == "__main__":
    main()
