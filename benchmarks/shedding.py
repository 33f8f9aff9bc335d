"""Joins in bounded memory against the same join that keeps everything, and what bounded memory really takes.

Throughput is that of whole queries, from Parquet files to results, and that of the bare operator, window full, by the
time of one core, both joins given the same batches. Resident memory is measured in a process of its own, whose window
would need ten times the bound; it is what the process takes above what it took before the join was made, with its
batches made one at a time.

Figures are printed when they are measured. `python -m benchmarks.shedding operator/100000/` measures the parts alone
whose names begin so (see PARTS).
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import watersmeet as wm
from benchmarks.harness import Figure, alternate, figure, report
from watersmeet.model.catalog import Catalog, Stream
from watersmeet.operators.contract import Rows
from watersmeet.operators.join.window_join import WindowJoin
from watersmeet.runtime.build import build
from watersmeet.sql import bind

BATCH = 16_384
RUNS = 3
WAYS = (("rand", "exact"), ("prob", "exact"), ("prob", "none"), ("prob", "panes"), ("drift", "exact"))
SCHEMA = pa.schema([("k", pa.int64()), ("x", pa.int64()), ("note", pa.string()), ("ts", pa.timestamp("us"))])
NOTES = pa.array(["n" * length for length in range(64)])


def plain(window: int, columns: str = "s0.k, s0.x, s1.x") -> str:
    return f"SELECT {columns} FROM s0 [RANGE {window} US], s1 [RANGE {window} US] WHERE s0.k = s1.k"


def bounded(window: int, policy: str, recall: str, columns: str = "s0.k, s0.x, s1.x") -> str:
    """Memory for half of the rows in the two windows."""
    return f"{plain(window, columns)} OPTIONS (memory = '{window} rows', shed = '{policy}', recall = '{recall}')"


def batch(number: int, rng: np.random.Generator, keys: int, size: int = BATCH) -> Rows:
    times = np.arange(number * size, (number + 1) * size, dtype=np.int64)
    columns = [
        pa.array(rng.integers(0, keys, size)),
        pa.array(rng.integers(0, 10**9, size)),
        NOTES.take(pa.array(rng.integers(0, 64, size))),
        pa.array(times, pa.timestamp("us")),
    ]
    return Rows(pa.RecordBatch.from_arrays(columns, schema=SCHEMA), times)


def make(sql: str) -> WindowJoin:
    catalog = Catalog()
    for name in ("s0", "s1"):
        catalog.add(Stream(name, SCHEMA, "ts"))
    operator = build(bind(sql, catalog))
    assert isinstance(operator, WindowJoin)
    return operator


def pushed(join: WindowJoin, pair: tuple[Rows, Rows]) -> int:
    """Push a batch of each stream; how many results came."""
    found = sum(b.num_rows for alias, rows in zip(("s0", "s1"), pair, strict=True) for b in join.push(alias, rows))
    now = int(pair[0].times[-1])
    return found + sum(b.num_rows for b in join.advance({"s0": now, "s1": now}))


def ratios(name: str, rows: int, samples: dict[str, list[float]]) -> list[Figure]:
    """How fast each way is against keeping everything, run by run."""
    off = samples["off"]
    figures = [figure(f"{name}, everything kept", "M rows/s", [rows / s / 1e6 for s in off])]
    for way, taken in samples.items():
        if way != "off":
            each = [a / b for a, b in zip(off, taken, strict=True)]
            rate = round(rows / min(taken) / 1e6, 2)
            figures.append(figure(f"{name}, half of it kept, {way}", "x", each, ">= 0.8", m_rows_per_s=rate))
    return figures


# ---- whole queries --------------------------------------------------------------------------------------------------


def whole_queries(window: int, rows: int) -> list[Figure]:
    """From Parquet files to results in Arrow, a string among their columns."""
    columns = "s0.k, s0.x, s0.note, s1.x AS y"
    with tempfile.TemporaryDirectory() as folder:
        session = wm.Session()
        for seed, name in enumerate(("s0", "s1")):
            made = batch(0, np.random.default_rng(seed), window, rows).data
            pq.write_table(pa.Table.from_batches([made]), f"{folder}/{name}.parquet", row_group_size=1 << 17)
            session.stream(name, f"{folder}/{name}.parquet", time="ts")
        found: dict[str, int] = {}

        def run(way: str, sql: str) -> float:
            query, started = session.sql(sql), time.perf_counter()
            found[way] = sum(b.num_rows for b in query.batches())
            taken = time.perf_counter() - started
            told = query.metrics()
            assert way == "off" or told["exact_results"] in (None, found["off"]) or "panes" in way
            return taken

        ways = {"off": plain(window, columns)}
        ways |= {f"{p}, recall {r}": bounded(window, p, r, columns) for p, r in WAYS}
        samples = alternate({way: lambda way=way, sql=sql: run(way, sql) for way, sql in ways.items()}, RUNS)
    return ratios(f"whole query, windows of {window:,} rows", 2 * rows, samples)


# ---- the bare operator ----------------------------------------------------------------------------------------------


def pairs_of(window: int, matches: int, size: int, count: int) -> tuple[list[tuple[Rows, Rows]], int]:
    """So many batches of both streams after those that fill the windows, and the number of these."""
    rng = np.random.default_rng(1)
    fill = -(-window // size) + 1
    keys = window // matches
    return [(batch(i, rng, keys, size), batch(i, rng, keys, size)) for i in range(fill + count)], fill


def operators(window: int, matches: int, size: int, count: int) -> list[Figure]:
    pairs, fill = pairs_of(window, matches, size, count)

    def run(sql: str) -> float:
        join = make(sql)
        for pair in pairs[:fill]:
            pushed(join, pair)
        started = time.thread_time()
        for pair in pairs[fill:]:
            pushed(join, pair)
        return time.thread_time() - started

    ways = {"off": plain(window), **{f"{p}, recall {r}": bounded(window, p, r) for p, r in WAYS}}
    samples = alternate({way: lambda sql=sql: run(sql) for way, sql in ways.items()}, RUNS)
    return ratios(f"operator, windows of {window:,} rows, {matches} matches a row", 2 * count * size, samples)


# ---- resident memory ------------------------------------------------------------------------------------------------


def resident_mb() -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 1e6


def resident(recall: str, bound_mb: int, window: int) -> dict[str, float]:
    """The highest resident memory above the start, over twice the window, and what the window would take."""
    sql = f"SELECT s0.k, s0.x, s0.note, s1.note FROM s0 [RANGE {window} US], s1 [RANGE {window} US] WHERE s0.k = s1.k"
    rng = np.random.default_rng(2)
    warm = make(f"{sql} OPTIONS (memory = '{bound_mb} MB', recall = '{recall}')")
    pushed(warm, (batch(0, rng, window), batch(0, rng, window)))
    del warm
    start, highest = resident_mb(), 0.0
    join = make(f"{sql} OPTIONS (memory = '{bound_mb} MB', recall = '{recall}')")
    for i in batches_in(2 * window):
        pushed(join, (batch(i, rng, window), batch(i, rng, window)))
        highest = max(highest, resident_mb() - start)
    stores = list(join.keeping.shed.values())  # type: ignore[attr-defined]
    each = sum(store.bytes_per_row for store in stores) / len(stores)
    return {
        "resident_mb": highest,
        "window_mb": 2 * window * each / 1e6,
        "kept_rows": join.kept_rows,
        "record_bytes": stores[0].record_bytes,
        "row_bytes": each,
    }


def batches_in(rows: int) -> Iterator[int]:
    return iter(range(1, rows // BATCH))


def memory() -> Iterator[Figure]:
    bound_mb, window = 64, 1_600_000
    for recall, goal in (("none", "<= bound + 100 MB"), ("panes", "<= bound + 100 MB"), ("exact", "")):
        asked = json.dumps([recall, bound_mb, window])
        code = (
            f"import json; from benchmarks.shedding import resident as r; print(json.dumps(r(*json.loads('{asked}'))))"
        )
        told = json.loads(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout)
        notes = {name: round(value, 1) for name, value in told.items() if name != "resident_mb"}
        name = f"resident memory, bound {bound_mb} MB, recall {recall}"
        yield figure(name, "MB", [told["resident_mb"]], goal, **notes)


PARTS = {
    "operator/100000/1/": lambda: operators(100_000, 1, BATCH, 24),
    "operator/100000/10/": lambda: operators(100_000, 10, BATCH, 24),
    "whole/100000/": lambda: whole_queries(100_000, 2_000_000),
    "operator/1000000/1/": lambda: operators(1_000_000, 1, 4 * BATCH, 12),
    "operator/1000000/10/": lambda: operators(1_000_000, 10, 4 * BATCH, 12),
    "whole/1000000/": lambda: whole_queries(1_000_000, 4_000_000),
    "memory": memory,
}


def main(begins: str = "") -> None:
    asked = (measured for name, measured in PARTS.items() if name.startswith(begins))
    report("shedding", (one for measured in asked for one in measured()), beside=bool(begins))


if __name__ == "__main__":
    main(*sys.argv[1:])
