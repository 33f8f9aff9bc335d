"""How long Spark's first answers take, phase by phase: a small three-way join of ours, and Spark's own chained join.

    python -m benchmarks.spark_start [--runs 3] [--batches 14] [--rows 6000] [--only "ours"]

Every start is a new process with a new JVM, ours and Spark's own in turn, on the same files. A "first start" has no
class archive yet; the others have one, which is made before if need be. "Spark's own" has neither that nor our daemon
nor our classes for local files. "small batches" is the setting of that name.

Told are: the start of the session, planning (from the session to the start of the query), the first batch until it is
committed, the second, and the median of those after the fourth. "planning and first batch" is what a user waits for
once Spark is there. Beside the seconds of the clock stand those of the processors, of all processes together: on a
machine that others use as well these are the ones to compare. The answers must be equal: count and checksum, also
DuckDB's.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.harness import Figure, figure, report
from benchmarks.processes import cpu_seconds
from watersmeet.hosts.spark.class_training import make_archive
from watersmeet.hosts.spark.launching.class_archive import VARIABLE
from watersmeet.hosts.spark.launching.query_start import TOO_SLOW, TRIES

WAYS, WINDOW_ROWS = 3, 4_000
WINDOW_MS = WINDOW_ROWS // 2
PLAIN = "Spark's own"
SMALL = "ours, packed, small batches"
CONTENDERS = ("ours, first start", "ours", "ours, packed", SMALL, PLAIN, f"{PLAIN}, started by us")
PHASES = ("session", "planning", "first batch", "second batch", "warm batch")
CPU = ("session cpu", "first answer cpu", "other batches cpu")


def one_start(contender: str, folder: Path) -> dict[str, object]:
    """In a process of its own: start, plan, run all batches, and tell when what was done."""
    begun = time.perf_counter()
    from pyspark.sql import functions as F

    from watersmeet.hosts.spark.launching.launch import SMALL_BATCHES, start_spark
    from watersmeet.hosts.spark.launching.local_files import CLASS_PATH

    # A class path of the user's own, if only an empty one, has ours left out.
    plain = {"spark.python.daemon.module": "pyspark.daemon", CLASS_PATH: ""}
    conf = {PLAIN: plain, SMALL: {SMALL_BATCHES: "true"}}.get(contender, {})
    spark = start_spark("local[2]", {"spark.sql.shuffle.partitions": "2", **conf})
    started, started_cpu = time.perf_counter(), cpu_seconds()
    from benchmarks import spark_joins

    if contender.startswith(PLAIN):
        for setting, value in spark_joins.FOR_SPARK.items():
            spark.conf.set(setting, value)
        df = spark_joins.native(spark, folder, WAYS, WINDOW_MS)
    else:
        df = spark_joins.ours(spark, folder, WAYS, WINDOW_MS, packed="packed" in contender)
    checked = df.observe("check", F.count(F.lit(1)).alias("n"), F.sum(F.expr(spark_joins.mixed(WAYS))).alias("s"))
    checkpoint = tempfile.mkdtemp(prefix="bench-")
    writer = checked.writeStream.format("noop").option("checkpointLocation", checkpoint)
    query = writer.trigger(availableNow=True).start()
    planned = time.perf_counter()
    while query.lastProgress is None and query.isActive:
        time.sleep(0.01)
    first, first_cpu = time.perf_counter(), cpu_seconds()
    query.awaitTermination()
    error = query.exception()
    if error is not None:
        raise error
    progress = [p for p in query.recentProgress if "addBatch" in p.durationMs]
    seen = [p.observedMetrics["check"] for p in progress if "check" in p.observedMetrics]
    batches = [p for p in progress if p.numInputRows]
    warm = [p.durationMs for p in batches[4:]]
    told = {
        "session": started - begun,
        "planning": planned - started,
        "first batch": first - planned,
        "second batch": batches[1].durationMs["triggerExecution"] / 1000,
        "warm batch": statistics.median(d["triggerExecution"] for d in warm) / 1000,
        "session cpu": started_cpu,
        "first answer cpu": first_cpu - started_cpu,
        "other batches cpu": (cpu_seconds() - first_cpu) / (len(batches) - 1),
        "all batches": [p.durationMs["triggerExecution"] for p in batches],
        "warm phases": {name: statistics.median(d.get(name, 0) for d in warm) for name in warm[0]},
        "first phases": dict(batches[0].durationMs),
        "rows": sum(row["n"] for row in seen),
        "checksum": sum(row["s"] or 0 for row in seen),
    }
    shutil.rmtree(checkpoint, ignore_errors=True)
    spark.stop()
    return told


def started(contender: str, folder: Path) -> dict[str, object]:
    environment = {VARIABLE: "off"} if contender in (PLAIN, "ours, first start") else {}
    command = [sys.executable, "-m", "benchmarks.spark_start", "--one", contender, "--folder", str(folder)]
    for _ in range(TRIES):
        ran = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | environment)
        if TOO_SLOW not in ran.stderr:
            break
        print(f"{contender}: once more, as a Python took more than the 10 s that Spark gives it", flush=True)
    if ran.returncode:
        sys.exit(f"{contender} failed:\n{ran.stderr[:3000]}")
    told: dict[str, object] = json.loads(ran.stdout.splitlines()[-1])
    waited = {phase: round(float(told[phase]), 2) for phase in (*PHASES, *CPU)}  # type: ignore[arg-type]
    print(
        contender, waited, told["all batches"], "first", told["first phases"], "warm", told["warm phases"], flush=True
    )
    return told


def measured(runs: int, folder: Path, contenders: list[str]) -> list[Figure]:
    from benchmarks.spark_joins import expected

    answer = expected(folder, WAYS, WINDOW_MS)
    samples: dict[str, list[dict[str, object]]] = {contender: [] for contender in contenders}
    for _ in range(runs):
        for contender in contenders:
            told = started(contender, folder)
            samples[contender].append(told)
            found = (told["rows"], told["checksum"])
            if found != answer:
                print(f"{contender}: {found}, DuckDB: {answer}")
                assert contender.startswith(PLAIN), "the answers differ"
    figures = []
    for contender, told_by in samples.items():
        for phase in (*PHASES, *CPU):
            figures.append(figure(f"{contender}: {phase}", "s", [float(t[phase]) for t in told_by]))  # type: ignore[arg-type]
        both = [float(t["planning"]) + float(t["first batch"]) for t in told_by]  # type: ignore[arg-type]
        figures.append(figure(f"{contender}: planning and first batch", "s", both))
    return figures


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--batches", type=int, default=14)
    parser.add_argument("--rows", type=int, default=6_000)
    parser.add_argument("--only", choices=CONTENDERS, action="append")
    parser.add_argument("--one", choices=CONTENDERS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(one_start(given.one, given.folder)))
        return
    from benchmarks.spark_joins import write_streams

    make_archive(print)

    with tempfile.TemporaryDirectory(prefix="bench-data-") as root:
        folder = Path(root) / "streams"
        write_streams(folder, WAYS, given.rows, given.batches, WINDOW_ROWS)
        report("spark_start", measured(given.runs, folder, given.only or list(CONTENDERS)))


if __name__ == "__main__":
    main()
