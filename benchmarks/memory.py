"""A long replay through a window of 100,000 rows: resident memory must stay flat; and the bytes a stored row costs."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

import watersmeet as wm
from benchmarks.harness import Figure, figure, report
from benchmarks.joins import SCHEMA, batches, make_join

TOTAL = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000_000
WINDOW, KEYS, BATCH = 100_000, 100_000, 50_000


def endless(total: int, seed: int) -> Iterator[pa.RecordBatch]:
    rng = np.random.default_rng(seed)
    for start in range(0, total, BATCH):
        times = pa.array(np.arange(start, start + BATCH), pa.timestamp("us"))
        columns = [pa.array(rng.integers(0, KEYS, BATCH)), pa.array(rng.integers(0, 10**9, BATCH)), times]
        yield pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def replay() -> None:
    session = wm.Session()
    session.stream("a", endless(TOTAL // 2, 1), time="ts")
    session.stream("b", endless(TOTAL // 2, 2), time="ts")
    query = session.sql(f"SELECT a.k, a.x, b.x FROM a, b WHERE a.k = b.k WINDOW = {WINDOW} US")
    samples: list[float] = []
    results = 0
    started = time.perf_counter()
    for batch in query.batches():
        results += batch.num_rows
        samples.append(resident_mb())
    took = time.perf_counter() - started
    steady = samples[len(samples) // 5 :]
    report(
        "memory",
        [
            figure("replay, resident memory after the first fifth", "MB", steady, "flat", rows=TOTAL, results=results),
            figure("replay, growth from the second fifth to the last", "MB", [_growth(steady)], "about 0"),
            figure("replay, rows read, joined and gathered", "M rows/s", [TOTAL / took / 1e6]),
            *overhead(),
        ],
    )


def _growth(samples: list[float]) -> float:
    part = max(1, len(samples) // 4)
    return float(np.median(samples[-part:]) - np.median(samples[:part]))


def overhead() -> list[Figure]:
    """Bytes a store spends on a live row beyond the row's own Arrow bytes, in the steady state."""
    join = make_join(f"SELECT s0.k, s0.x, s1.x, s1.ts FROM s0, s1 WHERE s0.k = s1.k WINDOW = {WINDOW} US", 2)
    feeds = [batches(60, 16_384, KEYS, seed) for seed in (1, 2)]
    samples = []
    for i in range(60):
        for alias, feed in zip(("s0", "s1"), feeds, strict=True):
            list(join.push(alias, feed[i]))
        list(join.advance({alias: int(feed[i].times[-1]) for alias, feed in zip(("s0", "s1"), feeds, strict=True)}))
        if i > 20:
            row_bytes = 24  # k, x and ts as Arrow holds them
            samples.append(join.state_bytes / join.kept_rows - row_bytes)
    times = [(one + row_bytes) / row_bytes for one in samples]
    return [
        figure("store overhead per live row, slack included", "bytes", samples, "<= 24"),
        figure("bytes of a live row, to its Arrow bytes", "x", times),
    ]


if __name__ == "__main__":
    replay()
