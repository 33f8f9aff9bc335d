"""The workloads that are looked at, each of the streams and queries of the benchmark whose goal it stands for.

    python -m benchmarks.profiling.workloads NAME FOLDER

runs one in a process of its own, over and over, once it is warm; then it says `ready`, goes on until a line comes, and
ends with a line that names its compiled code by address.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import chdir
from functools import partial
from itertools import count
from pathlib import Path
from threading import Event, Thread
from typing import TypeVar

import pyarrow as pa

from benchmarks import continuous, joins, latency, nexmark, pushes, shedding, threads
from benchmarks.profiling.addresses import compiled_code
from benchmarks.profiling.profilers import ASIDE
from watersmeet.cli.own_process import preferring_latency
from watersmeet.operators.contract import Rows

Round = Callable[[], object]
T = TypeVar("T")
CHANGING_ROWS = 1_000_000
NEXMARK_EVENTS = 200_000
WINDOWS = {"10 k": 10_000, "100 k": 100_000, "1 M": 1_000_000}
INSTANTS = 10  # rows that share one, where that is looked at
SHED_WINDOW, SHED_BATCHES = 100_000, 24
LATENCY_RATE, LATENCY_S = 10_000, 2.0
SET_NAME, ANY_PTRACER = 15, (0x59616D61, -1)  # PR_SET_NAME and PR_SET_PTRACER of prctl, and who may


def named_aside() -> None:
    ctypes.CDLL(None).prctl(SET_NAME, ASIDE.encode(), 0, 0, 0)


_aside = ThreadPoolExecutor(1, initializer=named_aside)


def aside(make: Callable[[], T]) -> T:
    """What a benchmark makes between what it measures is made in a thread that is not looked at."""
    return _aside.submit(make).result()


def again(rows: Rows, shift_us: int) -> Rows:
    """The same rows, later."""
    return Rows(rows.data, rows.times + shift_us)


def join(streams: int, window: int, _: Path) -> Round:
    """The whole operator, its windows full."""
    sql, feeds, _fill = joins.hash_join(streams, window)
    operator, span_us, turns = joins.make_join(sql, streams), len(feeds[0]) * joins.BATCH, count()

    def later() -> list[list[Rows]]:
        shift_us = next(turns) * span_us
        return [[again(rows, shift_us) for rows in feed] for feed in feeds]

    return lambda: joins.drive(operator, aside(later), 0)


def in_bounds(policy: str, recall: str, _: Path) -> Round:
    pairs, _fill = shedding.pairs_of(SHED_WINDOW, 1, shedding.BATCH, SHED_BATCHES)
    operator, turns = shedding.make(shedding.bounded(SHED_WINDOW, policy, recall)), count()

    def later() -> list[tuple[Rows, Rows]]:
        shift_us = next(turns) * len(pairs) * shedding.BATCH
        return [(again(one, shift_us), again(other, shift_us)) for one, other in pairs]

    def run() -> None:
        for pair in aside(later):
            shedding.pushed(operator, pair)

    return run


def in_two_threads(name: str, _: Path) -> Round:
    sql = threads.CASES[name]
    sources = {one: threads.stream(seed) for seed, one in enumerate("abc") if threads.reads(sql, one)}
    return partial(threads.in_threads(threads.session_over(sources), sql), 2)


def changing(name: str, together: int, _: Path) -> Round:
    rows = CHANGING_ROWS
    sql, _goal = continuous.QUERIES[name]
    return partial(continuous.rate, continuous.session_of(rows, together), sql, rows)


def push(name: str, _: Path) -> Round:
    rows: dict[int, pa.RecordBatch] = {}
    some, turns = pushes.pushing(pushes.QUERIES[name], rows.__getitem__), count()

    def made() -> dict[int, pa.RecordBatch]:
        first = next(turns) * pushes.PUSHES
        return {number: pushes.batch(number) for number in range(first, first + pushes.PUSHES)}

    def run() -> None:
        rows.clear()
        rows.update(aside(made))
        some()

    return run


def answering(name: str, folder: Path) -> Round:
    """A run that goes on, at a steady rate, each time with a checkpoint of its own."""
    turns = count()

    def run() -> None:
        with preferring_latency():
            latency.measured(name, LATENCY_RATE, LATENCY_S, folder / f"latency-{next(turns)}")

    return run


def of_nexmark(query: str, folder: Path) -> Round:
    """Over the files that are there already."""

    def run() -> None:
        with chdir(folder):
            nexmark.run_locally(query)

    return run


AGGREGATES = (
    "COUNT(*), SUM of int64 by group",
    "MIN, MAX by group",
    "AVG, STDDEV by group",
    "MEDIAN by group",
    "DISTINCT",
    "first 10",
    "first 3 of each group, in a window",
)
SHARED = f"COUNT(*), SUM of int64 by group, {INSTANTS} rows an instant"
THREADED = (
    "join, windows of 10 k",
    "join, windows of 100 k",
    "join, windows of 1 M",
    "groups, COUNT and SUM",
    "distinct",
)
SHED = {"RAND": ("rand", "exact"), "PROB": ("prob", "exact"), "panes": ("prob", "panes"), "drift": ("drift", "exact")}
# Below five times Flink per core.
BEHIND = ("q5", "q9", "q10", "q15", "q16", "q18", "q19")
WORKLOADS: dict[str, Callable[[Path], Round]] = {
    **{f"join of two, windows of {name}": partial(join, 2, window) for name, window in WINDOWS.items()},
    "join of four, windows of 10 k": partial(join, 4, WINDOWS["10 k"]),
    **{f"two threads: {name}": partial(in_two_threads, name) for name in THREADED},
    **{f"changing answers: {name}": partial(changing, name, 1) for name in AGGREGATES},
    f"changing answers: {SHARED}": partial(changing, AGGREGATES[0], INSTANTS),
    **{f"one push: {name}": partial(push, name) for name in ("join of two", "join of three", "sum by key")},
    "latency: join of two": partial(answering, "join of two"),
    **{f"bounded memory: {name}": partial(in_bounds, *way) for name, way in SHED.items()},
    **{f"Nexmark: {query}": partial(of_nexmark, query) for query in BEHIND},
}


def let_others_look() -> None:
    """Where only a parent may trace a process, a profiler that is started beside it may as well."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(*ANY_PTRACER, 0, 0, 0)


def wait_for_a_line(told: Event) -> None:
    sys.stdin.readline()
    told.set()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=WORKLOADS)
    parser.add_argument("folder", type=Path)
    asked = parser.parse_args()
    let_others_look()
    run, told = WORKLOADS[asked.name](asked.folder), Event()
    run()
    print("ready", flush=True)
    Thread(target=wait_for_a_line, args=(told,), daemon=True).start()
    while not told.is_set():
        run()
    print(json.dumps(compiled_code()), flush=True)


if __name__ == "__main__":
    main()
