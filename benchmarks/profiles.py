"""Where the time of what misses its goal goes, by sampling: kernels by name, libraries, rooms of the source, functions.

    python -m benchmarks.profiles [--only 'one push;Nexmark'] [--seconds 2]

Each workload (benchmarks/profiling/workloads.py) is a short one of the benchmark whose goal it stands for, in a process
of its own. Once it is warm, perf looks at its processor time and py-spy at its lines of Python, for the same seconds.
Shares of kernels and libraries are of processor time, all threads together, and add up to all that was seen. Rooms and
functions are those of the innermost line of the engine's source, with what it calls elsewhere, kernels included.

What has its goal by the clock (latency) is looked at by the clock: of the time in which a batch is written down and
answered, waiting for the disk among it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks import nexmark
from benchmarks.harness import Figure, figure, report
from benchmarks.profiling import shares
from benchmarks.profiling.addresses import Names
from benchmarks.profiling.profilers import MissingError, Seen, looked_at, py_spy, why_no_perf
from benchmarks.profiling.workloads import NEXMARK_EVENTS, WORKLOADS
from watersmeet.compiling.library import CHOICE

SECONDS = 2.0
# By the clock, while this function is at work.
WITHIN = {"latency": "BatchLoop._batch"}


@contextmanager
def at_work(name: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A process in which the workload goes on."""
    command = [sys.executable, "-m", "benchmarks.profiling.workloads", name, str(folder)]
    # Kernels of Numba's: the library that comes with a wheel keeps no names.
    env = {**os.environ, CHOICE: "numba"}
    running = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
    try:
        assert running.stdout is not None
        if "ready\n" not in iter(running.stdout.readline, ""):
            raise SystemExit(f"{name} ended with {running.wait()} before it was warm")
        yield running
    finally:
        running.kill()
        running.wait()


def looked(name: str, folder: Path, seconds: float, with_perf: bool) -> tuple[Seen, Names]:
    with at_work(name, folder) as running, tempfile.TemporaryDirectory() as seen_in:
        waiting = name.partition(":")[0] in WITHIN
        seen = looked_at(running.pid, seconds, Path(seen_in), waiting=waiting, with_perf=with_perf)
        code, _ = running.communicate("end\n")
    return seen, Names(json.loads(code.splitlines()[-1]))


def figure_of(name: str, seen: Seen, names: Names) -> Figure:
    """How many samples there are, and the shares."""
    inside = WITHIN.get(name.partition(":")[0])
    stacks = shares.in_source(shares.within(seen.stacks, inside) if inside else seen.stacks)
    notes: dict[str, object] = {
        "rooms": shares.shares(shares.by_room(stacks)),
        "functions": shares.shares(shares.by_function(stacks), shares.FUNCTIONS),
        "stacks": stacks.total(),
    }
    if inside or seen.places is None:
        return figure(name, "samples", [stacks.total()], **notes)
    libraries = shares.shares(shares.by_library(seen.places, names))
    kernels = shares.shares(shares.by_kernel(seen.places, names))
    return figure(name, "samples", [seen.places.total()], kernels=kernels, libraries=libraries, **notes)


def figures(wanted: list[str], seconds: float) -> Iterator[Figure]:
    py_spy()
    without = why_no_perf()
    if without:
        print(without, flush=True)
    with tempfile.TemporaryDirectory(prefix="profiles-") as made:
        folder = Path(made)
        if any(name.startswith("Nexmark") for name in wanted):
            nexmark.write_streams(folder, NEXMARK_EVENTS)
        for name in wanted:
            yield figure_of(name, *looked(name, folder, seconds, without is None))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="workloads whose names begin so, parted by semicolons")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for which each is looked at")
    asked = parser.parse_args()
    wanted = [name for name in WORKLOADS if name.startswith(tuple(asked.only.split(";")))]
    try:
        report("profiles", figures(wanted, asked.seconds), beside=len(wanted) < len(WORKLOADS))
    except MissingError as missing:
        raise SystemExit(f"nothing can be looked at here, so there are no figures: {missing}") from None


if __name__ == "__main__":
    main()
