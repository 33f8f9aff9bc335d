"""Many queries over the same two streams on Spark: in one script that runs as one query of Spark's, and each by itself.

    python -m benchmarks.spark_many_queries [--rows 200000] [--only joins,selective] [--queries 10]

The queries are those of `many_queries.py`; what they read comes in five files of each stream, one a batch. A script
runs as it is, with `share = 'no'`, and its most expensive query alone, in turns, in one session that has run before;
each query must give as many rows, into Parquet files. Processor time is that of Java and of all Pythons, start of the
queries included. The state is what all buckets of all queries kept when they ended.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pa_parquet
from pyspark.sql import SparkSession

from benchmarks.harness import Figure, figure, report
from benchmarks.many_queries import KINDS, Kind, stream
from benchmarks.processes import cpu_seconds
from watersmeet.hosts.spark.launching.launch import start_spark
from watersmeet.hosts.spark.run import SparkRun
from watersmeet.runtime.run_settings import RunSettings

ROWS, FILES, RUNS = 200_000, 5, 3


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--queries", type=int, default=10)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--only", default="joins,selective")
    given = parser.parse_args()
    kinds = [one for one in KINDS if one.name in given.only.split(",")]
    spark = start_spark("local[2]")
    try:
        with tempfile.TemporaryDirectory() as folder:
            report("spark_many_queries", figures(spark, Path(folder), given, kinds), beside=len(kinds) < 2)
    finally:
        spark.stop()


def figures(spark: SparkSession, folder: Path, given: argparse.Namespace, kinds: Sequence[Kind]) -> Iterator[Figure]:
    for kind in kinds:
        at = folder / kind.name
        for seed, name in enumerate("ab"):
            rows = stream(given.rows, seed, kind.keys)
            (at / name).mkdir(parents=True)
            for number in range(FILES):
                part = rows.slice(number * given.rows // FILES, given.rows // FILES)
                pa_parquet.write_table(part, at / name / f"{number}.parquet")
        ran(spark, at, kind, [0, 1], "")  # warm-up
        yield from compared(spark, at, kind, given)


def compared(spark: SparkSession, folder: Path, kind: Kind, given: argparse.Namespace) -> Iterator[Figure]:
    queries = given.queries
    many, apart = range(queries), " OPTIONS (share = 'no')"
    ways = {
        "shared": (many, ""),
        "apart": (many, apart),
        "the most expensive alone": ([min(kind.widest, queries - 1)], ""),
    }
    found: dict[str, list[Ran]] = {way: [] for way in ways}
    for _ in range(given.runs):
        for way, (numbers, options) in ways.items():
            found[way].append(ran(spark, folder, kind, numbers, options))
    assert len({one.results for way in ("shared", "apart") for one in found[way]}) == 1, "the answers differ"
    for way, runs in found.items():
        name = f"{kind.name}, {queries} queries, {way}"
        yield figure(name, "s of processor time", [one.cpu_s for one in runs], "", results=sum(runs[0].results))
        yield figure(f"{name}, took", "s", [one.wall_s for one in runs])
        yield figure(f"{name}, state", "MB", [one.state_mb for one in runs])
    for way in ("apart", "the most expensive alone"):
        ratios = [mine.cpu_s / its.cpu_s for mine, its in zip(found["shared"], found[way], strict=True)]
        yield figure(f"{kind.name}, {queries} queries, shared against {way}", "times", ratios)


@dataclass(frozen=True)
class Ran:
    cpu_s: float
    wall_s: float
    state_mb: float
    results: tuple[int, ...]


def ran(spark: SparkSession, folder: Path, kind: Kind, numbers: Sequence[int], options: str) -> Ran:
    with tempfile.TemporaryDirectory(dir=folder) as out:
        text = script(folder, Path(out), kind, numbers, options)
        before_s, began_s = cpu_seconds(), time.monotonic()
        ended = SparkRun(spark, text, RunSettings(available_now=True, buckets=2, checkpoint=f"{out}/ck")).run()
        wall_s = time.monotonic() - began_s
        state = sum(one.metrics.state_bytes for one in ended) / 1e6
        return Ran(cpu_seconds() - before_s, wall_s, state, tuple(one.metrics.results for one in ended))


def script(folder: Path, out: Path, kind: Kind, numbers: Sequence[int], options: str) -> str:
    columns = "(ts TIMESTAMP, k BIGINT, v BIGINT, word TEXT)"
    streams = [
        f"CREATE STREAM {name} {columns} WITH (source = 'parquet', path = '{folder / name}', time = 'ts', "
        "maxFilesPerTrigger = '1');"
        for name in "ab"
    ]
    sinks = [
        f"CREATE SINK q{number} WITH (sink = 'parquet', path = '{out}/q{number}') AS {kind.query(number)}{options};"
        for number in numbers
    ]
    return "\n".join([*streams, *sinks])


if __name__ == "__main__":
    main()
