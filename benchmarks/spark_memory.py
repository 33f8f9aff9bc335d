"""The most memory that a join on Spark takes, ours and Spark's own on the same files: Java's, and that of its Pythons.

    python -m benchmarks.spark_memory [--rows 500000] [--ways 2,3] [--batches 3] [--java 8g]

Every contender is a process of its own with a new Java, whose heap may be as large for all; Java takes what it is given
before it looks for garbage, so its figure goes with that. Pythons are those that Spark starts, workers and others,
together at one time; pages that they share are counted once. What buckets keep warm in memory-backed files is part of
that as far as it is mapped. The answers are compared as in spark_joins.py. One that takes too long is ended and left
out, with a word.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from benchmarks.harness import Figure, figure, report
from benchmarks.processes import MemoryWatch, processes

CONTENDERS = ("ours", "ours, packed", "spark")
WINDOW_ROWS = 400_000  # of all streams together, as in spark_joins.py
LONGEST_S = 120.0  # of one contender


def one(contender: str, ways: int, folder: Path, java: str) -> dict[str, float]:
    """In a process of its own: the most memory, and the answer."""
    from benchmarks import spark_joins
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
        label = f"{ways}-way on Spark, {rows:,} rows a batch, {contender}"
        said = told_by(command, label)
        if said is None:
            continue
        told = json.loads(said.splitlines()[-1])
        missing = exact[0] - told["rows"]
        # Spark's own may fall short by a few, see spark_joins.py.
        assert (told["rows"], told["checksum"]) == exact or (contender == "spark" and 0 < missing <= 10), (told, exact)
        figures += [
            figure(f"{label}: Java", "MB", [told["java"]], state_mb=round(told["state"], 1), missing=missing),
            figure(f"{label}: its Pythons", "MB", [told["python"]]),
        ]
    return figures


def told_by(command: list[str], label: str) -> str | None:
    """What a process says, None if that takes too long. Nothing that it has started is left, whatever happens."""
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        said, errors = running.communicate(timeout=LONGEST_S)
    except subprocess.TimeoutExpired:
        print(f"{label} is left out: it had not ended after {LONGEST_S:g} s", flush=True)
        return None
    finally:
        for left in [one.number for one in processes() if one.number != os.getpid()]:
            with suppress(ProcessLookupError):
                os.kill(left, signal.SIGKILL)
        running.wait()
    if running.returncode:
        sys.exit(f"{label} failed:\n{errors[-3000:]}")
    return said


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--ways", default="2,3")
    parser.add_argument("--batches", type=int, default=3)
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
        report("spark_memory", found, beside=asked != [2, 3])


if __name__ == "__main__":
    main()
