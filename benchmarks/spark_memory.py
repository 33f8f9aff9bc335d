"""The most memory that a join on Spark takes, ours and Spark's own on the same files: Java's, and that of its Pythons.

    python -m benchmarks.spark_memory [--rows 2000000] [--ways 2,3,4] [--batches 4] [--java 8g]

Every contender is a process of its own with a new Java, whose heap may be as large for all; Java takes what it is given
before it looks for garbage, so its figure goes with that. Pythons are those that Spark starts, workers and others,
together at one time; pages that they share are counted once. What buckets keep warm in memory-backed files is part of
that as far as it is mapped. The answers are compared as in spark_joins.py.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.harness import Figure, figure, report

CONTENDERS = ("ours", "ours, packed", "spark")
WINDOW_ROWS = 400_000  # of all streams together, as in spark_joins.py


def one(contender: str, ways: int, folder: Path, java: str) -> dict[str, float]:
    """In a process of its own: the most memory, and the answer."""
    from benchmarks import spark_joins
    from benchmarks.processes import MemoryWatch
    from watersmeet.hosts.spark.launching.launch import start_spark

    spark = start_spark("local[2]", {"spark.driver.memory": java, "spark.sql.shuffle.partitions": "2"})
    window_ms = WINDOW_ROWS // ways // 2
    for setting, value in (spark_joins.FOR_SPARK if contender == "spark" else spark_joins.FOR_OURS).items():
        spark.conf.set(setting, value)
    with MemoryWatch() as watch:
        if contender == "spark":
            df = spark_joins.native(spark, folder, ways, window_ms)
        else:
            df = spark_joins.ours(spark, folder, ways, window_ms, packed="packed" in contender)
        outcome = spark_joins.replay(df, ways, warm_up=0)
    spark.stop()
    most = {str(kind): mb for kind, mb in watch.most_mb.items()}
    return most | {"rows": outcome.rows, "checksum": outcome.checksum, "state": outcome.state_bytes / 1e6}


def measured(ways: int, rows: int, batches: int, java: str, root: Path) -> list[Figure]:
    from benchmarks.spark_joins import expected, write_streams

    folder = root / f"streams-{ways}"
    write_streams(folder, ways, rows, batches, WINDOW_ROWS // ways)
    exact = expected(folder, ways, WINDOW_ROWS // ways // 2)
    figures = []
    for contender in CONTENDERS:
        command = [sys.executable, "-m", "benchmarks.spark_memory", "--one", contender, "--folder", str(folder)]
        command += ["--ways", str(ways), "--java", java]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if ran.returncode:
            sys.exit(f"{contender} failed:\n{ran.stderr[-3000:]}")
        told = json.loads(ran.stdout.splitlines()[-1])
        missing = exact[0] - told["rows"]
        # Spark's own may fall short by a few, see spark_joins.py.
        assert (told["rows"], told["checksum"]) == exact or (contender == "spark" and 0 < missing <= 10), (told, exact)
        label = f"{ways}-way on Spark, {rows:,} rows a batch, {contender}"
        figures += [
            figure(f"{label}: Java", "MB", [told["java"]], state_mb=round(told["state"], 1), missing=missing),
            figure(f"{label}: its Pythons", "MB", [told["python"]]),
        ]
    return figures


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--ways", default="2,3,4")
    parser.add_argument("--batches", type=int, default=4)
    parser.add_argument("--java", default="8g", help="the size that Java's heap may have")
    parser.add_argument("--one", choices=CONTENDERS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(one(given.one, int(given.ways), given.folder, given.java)))
        return
    asked = [int(one) for one in given.ways.split(",")]
    with tempfile.TemporaryDirectory(prefix="bench-data-") as root:
        found = (one for ways in asked for one in measured(ways, given.rows, given.batches, given.java, Path(root)))
        report("spark_memory", found, beside=asked != [2, 3, 4])


if __name__ == "__main__":
    main()
