"""The join kernels on one core: 2-way hash by window size, theta scans, and 3 to 6 streams against their binary probes.

Kernel time is what the operator spends in probing, inserting and indexing; "whole operator" adds computing the
codes and gathering the result columns.
"""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa

from benchmarks.harness import Figure, alternate, figure, report
from watersmeet.model.catalog import Catalog, Stream
from watersmeet.operators.contract import Rows
from watersmeet.operators.join.window_join import WindowJoin
from watersmeet.runtime.build import build
from watersmeet.sql import bind

BATCH = 16_384
SCHEMA = pa.schema([("k", pa.int64()), ("x", pa.int64()), ("ts", pa.timestamp("us"))])


def catalog(streams: int) -> Catalog:
    made = Catalog()
    for i in range(streams):
        made.add(Stream(f"s{i}", SCHEMA, "ts"))
    return made


def batches(count: int, rows: int, keys: int, seed: int, start_us: int = 0, spacing_us: int = 1) -> list[Rows]:
    """Batches in time order, one row every `spacing_us`."""
    rng = np.random.default_rng(seed)
    made = []
    for i in range(count):
        times = start_us + spacing_us * np.arange(i * rows, (i + 1) * rows, dtype=np.int64)
        columns = [
            rng.integers(0, keys, rows),
            rng.integers(0, 1_000_000_000, rows),
            pa.array(times, pa.timestamp("us")),
        ]
        made.append(Rows(pa.RecordBatch.from_arrays([pa.array(c) for c in columns], schema=SCHEMA), times))
    return made


def drive(join: WindowJoin, feeds: list[list[Rows]], full_after: int) -> tuple[int, int, float, float]:
    """Push batches round robin; rows, results, kernel and whole seconds from the moment the windows are full."""
    aliases = list(join.windows.streams)
    rows = results = 0
    kernel = whole = 0.0
    for i in range(len(feeds[0])):
        timed = i >= full_after
        before = join.counters.kernel_seconds
        started = time.perf_counter()
        for alias, feed in zip(aliases, feeds, strict=True):
            found = sum(batch.num_rows for batch in join.push(alias, feed[i]))
            if timed:
                rows, results = rows + len(feed[i]), results + found
        list(join.advance({alias: int(feed[i].times[-1]) for alias, feed in zip(aliases, feeds, strict=True)}))
        if timed:
            whole += time.perf_counter() - started
            kernel += join.counters.kernel_seconds - before
    return rows, results, kernel, whole


def make_join(sql: str, streams: int) -> WindowJoin:
    operator = build(bind(sql, catalog(streams)))
    assert isinstance(operator, WindowJoin)
    return operator


def hash_by_window() -> list[Figure]:
    figures = []
    goals = {100_000: ">= 15 M rows/s", 1_000_000: ">= 8 M rows/s"}
    for window in (10_000, 30_000, 100_000, 300_000, 1_000_000):
        fill = -(-window // BATCH) + 1
        count = fill + max(40, fill)
        feeds = [batches(count, BATCH, window, seed) for seed in (1, 2)]
        sql = f"SELECT s0.k, s0.x, s1.x FROM s0 [RANGE {window} US], s1 [RANGE {window} US] WHERE s0.k = s1.k"
        kernel, whole, matches = [], [], 0.0
        for run in range(6):
            rows, results, kernel_s, whole_s = drive(make_join(sql, 2), feeds, fill)
            matches = results / rows
            if run:
                kernel.append(rows / kernel_s / 1e6)
                whole.append(rows / whole_s / 1e6)
        goal = goals.get(window, "")
        name = f"2-way hash, window {window:,} rows"
        figures.append(figure(f"{name}, kernel", "M rows/s", kernel, goal, matches_per_row=round(matches, 2)))
        figures.append(figure(f"{name}, whole operator", "M rows/s", whole))
    return figures


def theta() -> list[Figure]:
    window, rows = 100_000, 2_000
    old = batches(1, window, 10, 3)[0]
    new = batches(1, rows, 10, 4, start_us=window)[0]
    sql = f"SELECT s0.x FROM s0 [RANGE {2 * window} US], s1 [RANGE {2 * window} US] WHERE s1.x > s0.x + 999000000"
    rates, results = [], 0
    for run in range(6):
        join = make_join(sql, 2)
        list(join.push("s0", old))
        before = join.counters.kernel_seconds
        results = sum(batch.num_rows for batch in join.push("s1", new))
        if run:
            rates.append(window * rows / (join.counters.kernel_seconds - before) / 1e9)
    return [figure("theta scan, window 100,000 rows", "G comparisons/s", rates, ">= 2", results=results)]


def n_way() -> list[Figure]:
    """An n-way probe against the sum of its n - 1 binary probes, all on the same stores and new rows."""
    window, figures = 100_000, []
    for streams in (3, 4, 5, 6):
        old = [batches(1, window, window, 10 + i)[0] for i in range(streams)]
        new = batches(1, BATCH, window, 99, start_us=window)[0]
        names = [f"s{i}" for i in range(streams)]
        whole = f"SELECT s0.x FROM {', '.join(names)} WHERE {' AND '.join(f's0.k = {n}.k' for n in names[1:])}"
        whole += " WINDOW = 1 SECOND"

        def probe(sql: str, aliases: list[str], old=old, new=new, streams=streams) -> float:
            join = make_join(sql, streams)
            for alias in aliases:
                list(join.push(alias, old[int(alias[1:])]))
            rows = new
            before = join.counters.kernel_seconds
            list(join.push("s0", rows))
            return join.counters.kernel_seconds - before

        pairs = {n: f"SELECT s0.x FROM s0, {n} WHERE s0.k = {n}.k WINDOW = 1 SECOND" for n in names[1:]}
        samples = alternate(
            {
                "n-way": lambda whole=whole, names=names, probe=probe: probe(whole, names[1:]),
                "binary": lambda pairs=pairs, probe=probe: sum(probe(sql, [n]) for n, sql in pairs.items()),
            },
            runs=7,
        )
        ratios = [a / b for a, b in zip(samples["n-way"], samples["binary"], strict=True)]
        per_row = round(min(samples["n-way"]) / BATCH * 1e9, 1)
        figures.append(figure(f"{streams}-way probe / its binary probes", "x", ratios, "<= 2", ns_per_row=per_row))
    return figures


if __name__ == "__main__":
    report("joins", [*hash_by_window(), *theta(), *n_way()])
