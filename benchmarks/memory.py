"""What rows in windows take of memory and disk, beside their Arrow bytes; and that a long replay stays flat.

    python -m benchmarks.memory [--rows 500000] [--only 'join of two, BIGINT;DISTINCT'] [--replay 20000000]

Every case is a process of its own: windows of so many rows of each stream are filled, and as many go through them once
more. Told are what the operators say that they hold, and by how much the process grew since a run of few rows of the
same query, which loads all code; peaks are those of whole processes. Arrow bytes are those of the columns that the
query names, times among them.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import watersmeet as wm
from benchmarks.harness import Figure, figure, report
from benchmarks.joins import SCHEMA

WINDOW, KEYS, BATCH = 100_000, 100_000, 50_000  # of the replay
PIECE = 20_000
NAMES = "abc"
TEXTS = pa.array([f"{number:040d}" for number in range(1_000)])
FLAT, SPARE = "flat", "<= 24"


@dataclass(frozen=True)
class Case:
    """`columns`: those that the query names. `sql` has {window}, in microseconds, of which each has a row a stream."""

    columns: tuple[str, ...]
    sql: str
    streams: int = 2
    groups: int = 0  # keys, where they are not as many as rows in a window
    bound_bytes: int = 0  # of a live row; those beyond it go to disk

    def text(self, rows: int) -> str:
        bound = f" OPTIONS (memory = '{self.bound_bytes * self.streams * rows} bytes', when_full = 'spill')"
        return self.sql.format(window=rows) + (bound if self.bound_bytes else "")


def join(columns: str, key: str = "k", streams: int = 2, **more: Any) -> Case:
    names = NAMES[:streams]
    made = ", ".join(f"{name}.{column} AS {name}_{column}" for name in names for column in columns.split())
    same = " AND ".join(f"a.{key} = {name}.{key}" for name in names[1:])
    sql = f"SELECT {made} FROM {', '.join(names)} WHERE {same} WINDOW = {{window}} US"
    return Case((key, *columns.split(), "ts"), sql, streams, **more)


RANGE = "a [RANGE {window} MICROSECONDS]"
CASES = {
    "join of two, BIGINT": join("x"),
    "join of two, text": join("s"),
    "join of two, text as key": join("x", key="s"),
    "join of two, six columns": join("x y z s n"),
    "join of three, BIGINT": join("x", streams=3),
    "GROUP BY, 1,000 groups": Case(
        ("k", "x", "ts"), f"SELECT k, COUNT(*) AS n, SUM(x) AS t FROM {RANGE} GROUP BY k", 1, groups=1_000
    ),
    "GROUP BY, as many groups as rows": Case(
        ("k", "x", "ts"), f"SELECT k, COUNT(*) AS n, SUM(x) AS t FROM {RANGE} GROUP BY k", 1
    ),
    "DISTINCT": Case(("k", "ts"), f"SELECT DISTINCT k FROM {RANGE}", 1),
    "join of two, three texts": join("s t u"),
    "join of two, three texts, spilling": join("s t u", bound_bytes=110),
}


# ---- one case, in a process of its own -------------------------------------------------------------------------------


def batches(case: Case, rows: int, seed: int) -> Iterator[pa.RecordBatch]:
    """A row every microsecond; each has about one partner in each other stream."""
    rng, start, keys = np.random.default_rng(seed), 0, case.groups or 2 * rows
    while True:
        numbers = rng.integers(0, keys, PIECE)
        texts = {name: TEXTS.take(pa.array(rng.integers(0, len(TEXTS), PIECE))) for name in "stu"}
        if case.columns[0] == "s":
            texts["s"] = pa.array(np.char.mod("%040d", numbers))
        columns = {
            "k": numbers,
            "x": np.arange(start, start + PIECE),
            "y": rng.random(PIECE),
            "z": rng.integers(0, 100, PIECE).astype(np.int32),
            "n": rng.integers(0, 2, PIECE).astype(bool),
            **texts,
            "ts": pa.array(np.arange(start, start + PIECE), pa.timestamp("us")),
        }
        yield pa.record_batch({name: columns[name] for name in case.columns})
        start += PIECE


class Feeding:
    """A run whose streams are pushed to in turn."""

    def __init__(self, case: Case, rows: int) -> None:
        self.feeds = {name: batches(case, rows, seed) for seed, name in enumerate(NAMES[: case.streams])}
        session = wm.Session()
        for name in self.feeds:
            session.stream(name, schema=next(batches(case, rows, 0)).schema, time="ts")
        self.run = session.sql(case.text(rows)).start()
        self.pushed_bytes = self.pushed_rows = 0

    def push(self) -> None:
        for name, feed in self.feeds.items():
            batch = next(feed)
            self.run.push(name, batch)
            self.pushed_bytes += batch.nbytes
            self.pushed_rows += batch.num_rows
        self.run.take()


def told(case: Case, rows: int) -> dict[str, Any]:
    few = Feeding(case, rows)
    few.push()
    few.run.stop()
    before, peak_before = _status("VmRSS"), _status("VmHWM")
    feeding = Feeding(case, rows)
    for _ in range(-(-rows // PIECE)):
        feeding.push()
    live, state, resident = case.streams * rows, [], []
    clock, worked = time.perf_counter(), time.process_time()
    through = feeding.pushed_rows
    for _ in range(-(-rows // PIECE)):
        feeding.push()
        state.append(feeding.run.metrics()["state_bytes"] / live)
        resident.append((_status("VmRSS") - before) / live)
    through = feeding.pushed_rows - through
    metrics = feeding.run.metrics()
    found = {
        "state": state,
        "arrow": feeding.pushed_bytes / feeding.pushed_rows,
        "resident": float(np.median(resident)),
        "peak_mb": _status("VmHWM") / 2**20,
        "grown_mb": (_status("VmHWM") - peak_before) / 2**20,
        "processor_ns": (time.process_time() - worked) * 1e9 / through,
        "clock_ns": (time.perf_counter() - clock) * 1e9 / through,
        "spilled": metrics.get("spilled_bytes", 0) / feeding.pushed_rows,
        "spilled_share": metrics.get("spilled_rows", 0) / feeding.pushed_rows,
    }
    feeding.run.stop()
    return found


def _status(name: str) -> int:
    """Of this process, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))


def measured(name: str, rows: int) -> list[Figure]:
    command = [sys.executable, "-m", "benchmarks.memory", "--rows", str(rows), "--case", name]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found = json.loads(done.stdout.splitlines()[-1])
    state = found.pop("state")
    notes = {one: round(value, 2) for one, value in found.items()}
    figures = [figure(name, "bytes a live row", state, live_rows=rows, **notes)]
    if name == next(iter(CASES)):
        spare = [one - found["arrow"] for one in state]
        figures.append(figure("store overhead per live row, slack included", "bytes", spare, SPARE))
    return figures


# ---- a long replay ---------------------------------------------------------------------------------------------------


def endless(total: int, seed: int) -> Iterator[pa.RecordBatch]:
    rng = np.random.default_rng(seed)
    for start in range(0, total, BATCH):
        times = pa.array(np.arange(start, start + BATCH), pa.timestamp("us"))
        columns = [pa.array(rng.integers(0, KEYS, BATCH)), pa.array(rng.integers(0, 10**9, BATCH)), times]
        yield pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def replay(total: int) -> Iterator[Figure]:
    session = wm.Session()
    session.stream("a", endless(total // 2, 1), time="ts")
    session.stream("b", endless(total // 2, 2), time="ts")
    query = session.sql(f"SELECT a.k, a.x, b.x FROM a, b WHERE a.k = b.k WINDOW = {WINDOW} US")
    samples: list[float] = []
    results = 0
    started = time.perf_counter()
    for batch in query.batches():
        results += batch.num_rows
        samples.append(resident_mb())
    took = time.perf_counter() - started
    steady = samples[len(samples) // 5 :]
    yield figure("replay, resident memory after the first fifth", "MB", steady, FLAT, rows=total, results=results)
    yield figure("replay, growth from the second fifth to the last", "MB", [_growth(steady)], "about 0")
    yield figure("replay, rows read, joined and gathered", "M rows/s", [total / took / 1e6])


def _growth(samples: list[float]) -> float:
    part = max(1, len(samples) // 4)
    return float(np.median(samples[-part:]) - np.median(samples[:part]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=500_000, help="in the window of each stream")
    parser.add_argument("--only", default=";".join(CASES), help="parted by semicolons")
    parser.add_argument("--replay", type=int, default=20_000_000, help="rows")
    parser.add_argument("--case", help="only this one, in this process")
    asked = parser.parse_args()
    if asked.case is not None:
        print(json.dumps(told(CASES[asked.case], asked.rows)))
        return
    names = asked.only.split(";")
    cases = (one for name in names for one in measured(name, asked.rows))
    report("memory", chain(cases, replay(asked.replay)), beside=set(names) != set(CASES))


if __name__ == "__main__":
    main()
