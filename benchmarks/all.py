"""All figures of docs/performance.md, one benchmark after the other: `make bench`.

    python -m benchmarks.all [--only 'joins;peers'] [--again] [--quick]

Each is a process of its own and writes its JSON figure by figure. One that is done is not run again until the commit
has changed or `--again` is said. One that takes three times its minutes is ended, with all that it has started; what
fails is told at the end, and the others run nevertheless. `--quick` leaves out what takes minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

TOP = Path(__file__).parents[1]
DONE = TOP / "build" / "bench.json"
# Command and minutes on two quiet cores.
PARTS: dict[str, tuple[str, float]] = {
    "warm-up": ("watersmeet.warm_up", 3),
    "joins": ("benchmarks.joins", 6),
    "continuous": ("benchmarks.continuous", 2),
    "aggregates": ("benchmarks.aggregates", 3),
    "pushes": ("benchmarks.pushes", 0.5),
    "threads": ("benchmarks.threads", 6),
    "many_queries": ("benchmarks.many_queries", 2),
    "shared_memory": ("benchmarks.shared_memory", 4),
    "growth": ("benchmarks.growth", 4),
    "memory": ("benchmarks.memory", 3),
    "shedding": ("benchmarks.shedding", 6),
    "adaptive": ("benchmarks.adaptive", 1),
    "algorithms": ("benchmarks.algorithms", 2),
    "small_batches": ("benchmarks.small_batches", 0.5),
    "profiles": ("benchmarks.profiles", 4),
    "durable_throughput": ("benchmarks.durable_throughput", 2),
    "start": ("benchmarks.start {wheel}", 2),
    "latency_rivals": ("benchmarks.latency_rivals", 12),
    "peers": ("benchmarks.peers", 20),
    "nexmark": ("benchmarks.nexmark --rows 500000 --runs 2", 12),
    "sql_of_others": (
        "benchmarks.nexmark --rows 50000 --queries q101,q102,q103,q104,q105,q106,q201,q202 --into sql_of_others",
        4,
    ),
    "kafka": ("benchmarks.kafka", 6),
    "kafka_latency": ("benchmarks.kafka --latency", 2),
    "spark_joins": ("benchmarks.spark_joins --rows 2000000 --batches 4 --runs 1", 20),
    "spark_start": ("benchmarks.spark_start --runs 1", 4),
    "spark_batches": ("benchmarks.spark_batches", 6),
    "spark_shedding": ("benchmarks.spark_shedding", 4),
    "spark_memory": ("benchmarks.spark_memory", 6),
    "skew": ("benchmarks.skew", 4),
    "scale": ("benchmarks.scale", 8),
}


def commit() -> str:
    return subprocess.run(
        ["git", "-C", str(TOP), "rev-parse", "HEAD"], check=True, capture_output=True, text=True
    ).stdout.strip()


def done(now: str) -> list[str]:
    found = json.loads(DONE.read_text()) if DONE.exists() else {}
    return list(found["parts"]) if found.get("commit") == now else []


def command(part: str) -> list[str]:
    """A wheel that was built is measured at its start; else the source tree is."""
    wheels = sorted((TOP / "dist").glob("*-cp*.whl")) or sorted((TOP / "dist").glob("*.whl"))
    filled = PARTS[part][0].format(wheel=wheels[0] if wheels else "")
    return [sys.executable, "-m", *filled.split()]


def finished(part: str) -> bool:
    """With Ctrl-C or beyond its time, nothing is left of what it has started: that would be measured with the next."""
    run = subprocess.Popen(command(part), cwd=TOP, start_new_session=True)
    try:
        return run.wait(timeout=60 * 3 * PARTS[part][1]) == 0
    except subprocess.TimeoutExpired:
        print(f"{part} took more than three times its {PARTS[part][1]:g} minutes and was ended", flush=True)
        return False
    finally:
        for how, most_s in ((signal.SIGTERM, 10.0), (signal.SIGKILL, None)):
            with suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(run.pid, how)
                run.wait(timeout=most_s)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=";".join(PARTS), help="parted by semicolons")
    parser.add_argument("--again", action="store_true", help="also what is done")
    parser.add_argument("--quick", action="store_true", help="only what takes a minute or less")
    asked = parser.parse_args()
    now, failed = commit(), []
    ready = [] if asked.again else done(now)
    wanted = [one for one in asked.only.split(";") if one not in ready]
    if asked.quick:
        wanted = [one for one in wanted if PARTS[one][1] <= 1]
    DONE.parent.mkdir(exist_ok=True)
    for place, part in enumerate(wanted, 1):
        left = sum(PARTS[one][1] for one in wanted[place - 1 :])
        print(f"[{place}/{len(wanted)}] {part}, about {left:.0f} minutes to go", flush=True)
        started = time.monotonic()
        if not finished(part):
            failed.append(part)
            continue
        print(f"{part}: {time.monotonic() - started:.0f} s", flush=True)
        ready.append(part)
        DONE.write_text(json.dumps({"commit": now, "parts": ready}) + "\n")
    if failed:
        raise SystemExit(f"these failed, and keep their figures of before: {', '.join(failed)}")


if __name__ == "__main__":
    main()
