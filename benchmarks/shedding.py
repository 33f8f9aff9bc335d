"""Joins in bounded memory against the same join that keeps everything, and what bounded memory really takes.

Throughput is that of the whole operator, window full, one core; both joins get the same batches. Resident memory is
measured in a process of its own, whose window would need ten times the bound; it is what the process takes above what
it took before the join was made, with its batches made one at a time.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from benchmarks.harness import Figure, alternate, figure, report
from watersmeet.engine.build import build
from watersmeet.model.catalog import Catalog, Stream
from watersmeet.operators.contract import Rows
from watersmeet.operators.window_join import WindowJoin
from watersmeet.sql import bind

BATCH = 16_384
WINDOW = 100_000
SCHEMA = pa.schema([("k", pa.int64()), ("x", pa.int64()), ("note", pa.string()), ("ts", pa.timestamp("us"))])
PLAIN = f"SELECT s0.k, s0.x, s1.x FROM s0 [RANGE {WINDOW} US], s1 [RANGE {WINDOW} US] WHERE s0.k = s1.k"
NOTES = pa.array(["n" * length for length in range(64)])


def batch(number: int, rng: np.random.Generator, keys: int, skewed: bool) -> Rows:
    times = np.arange(number * BATCH, (number + 1) * BATCH, dtype=np.int64)
    drawn = (rng.pareto(1.0, BATCH) * 3).astype(np.int64) % keys if skewed else rng.integers(0, keys, BATCH)
    columns = [
        pa.array(drawn),
        pa.array(rng.integers(0, 10**9, BATCH)),
        NOTES.take(pa.array(rng.integers(0, 64, BATCH))),
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


def pushed(join: WindowJoin, number: int, pair: tuple[Rows, Rows]) -> int:
    """Push a batch of each stream; how many results came."""
    found = sum(b.num_rows for alias, rows in zip(("s0", "s1"), pair, strict=True) for b in join.push(alias, rows))
    now = (number + 1) * BATCH - 1
    return found + sum(b.num_rows for b in join.advance({"s0": now, "s1": now}))


def bounded(policy: str, recall: str) -> str:
    return f"{PLAIN} OPTIONS (memory = '{WINDOW} rows', shed = '{policy}', recall = '{recall}')"


def throughput() -> list[Figure]:
    figures = []
    fill, count = -(-WINDOW // BATCH) + 1, 24
    for name, keys, skewed in (("1 match a row", WINDOW, False), ("10 matches a row", WINDOW // 10, False)):
        rng = np.random.default_rng(1)
        pairs = [(batch(i, rng, keys, skewed), batch(i, rng, keys, skewed)) for i in range(fill + count)]

        def run(sql: str, pairs=pairs) -> float:
            join = make(sql)
            for i in range(fill):
                pushed(join, i, pairs[i])
            started = time.perf_counter()
            for i in range(fill, fill + count):
                pushed(join, i, pairs[i])
            return time.perf_counter() - started

        ways = {
            f"{policy}, recall {recall}": bounded(policy, recall)
            for policy, recall in (("rand", "exact"), ("prob", "exact"), ("prob", "panes"), ("drift", "exact"))
        }
        samples = alternate(
            {"off": lambda run=run: run(PLAIN), **{way: lambda run=run, sql=sql: run(sql) for way, sql in ways.items()}}
        )
        rows = 2 * count * BATCH
        off = samples["off"]
        figures.append(figure(f"{name}, everything kept", "M rows/s", [rows / s / 1e6 for s in off]))
        for way in ways:
            ratios = [a / b for a, b in zip(off, samples[way], strict=True)]
            rate = round(rows / min(samples[way]) / 1e6, 2)
            figures.append(figure(f"{name}, half the window kept, {way}", "x", ratios, ">= 0.8", m_rows_per_s=rate))
    return figures


# ---- resident memory ------------------------------------------------------------------------------------------------


def resident_mb() -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 1e6


def resident(recall: str, bound_mb: int, window: int) -> dict[str, float]:
    """The highest resident memory above the start, over twice the window, and what the window would take."""
    sql = f"SELECT s0.k, s0.x, s0.note, s1.note FROM s0 [RANGE {window} US], s1 [RANGE {window} US] WHERE s0.k = s1.k"
    rng = np.random.default_rng(2)
    warm = make(f"{sql} OPTIONS (memory = '{bound_mb} MB', recall = '{recall}')")
    pushed(warm, 0, (batch(0, rng, window, False), batch(0, rng, window, False)))
    del warm
    start, highest = resident_mb(), 0.0
    join = make(f"{sql} OPTIONS (memory = '{bound_mb} MB', recall = '{recall}')")
    for i in batches_in(2 * window):
        pushed(join, i, (batch(i, rng, window, False), batch(i, rng, window, False)))
        highest = max(highest, resident_mb() - start)
    stores = list(join.shed.values())  # type: ignore[attr-defined]
    each = sum(store.bytes_per_row for store in stores) / len(stores)
    return {
        "resident_mb": highest,
        "window_mb": 2 * window * each / 1e6,
        "kept_rows": join.window_rows,
        "record_bytes": stores[0].record_bytes,
        "row_bytes": each,
    }


def batches_in(rows: int) -> Iterator[int]:
    return iter(range(1, rows // BATCH))


def memory() -> list[Figure]:
    figures = []
    bound_mb, window = 64, 1_400_000
    for recall, goal in (("none", "<= bound + 100 MB"), ("panes", "<= bound + 100 MB"), ("exact", "")):
        asked = json.dumps([recall, bound_mb, window])
        code = (
            f"import json; from benchmarks.shedding import resident as r; print(json.dumps(r(*json.loads('{asked}'))))"
        )
        told = json.loads(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout)
        notes = {name: round(value, 1) for name, value in told.items() if name != "resident_mb"}
        name = f"resident memory, bound {bound_mb} MB, recall {recall}"
        figures.append(figure(name, "MB", [told["resident_mb"]], goal, **notes))
    return figures


if __name__ == "__main__":
    report("shedding", [*throughput(), *memory()])
