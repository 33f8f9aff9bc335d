"""The papers' join algorithms on one core: arrivals a second, and comparisons a second where loops are long.

Two streams with about one match per row for each way to invalidate, then the four streams of GO03's Table 5. Seconds
are those inside the algorithms; gathering the result columns comes on top, as for every other join.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from benchmarks.harness import Figure, figure, report
from watersmeet.model.catalog import Catalog, Stream
from watersmeet.operators.contract import Rows
from watersmeet.operators.time_order import InTimeOrder
from watersmeet.papers.joins.classic_join import ClassicJoin
from watersmeet.runtime.build import build
from watersmeet.sql import bind

BATCH = 16_384
SCHEMA = pa.schema([("k", pa.int64()), ("ts", pa.timestamp("us"))])
WINDOW = 100_000  # rows, one a microsecond and stream
TWO = {
    f"hash, {how}": (f"join = 'hash', buckets = 131072, invalidate = '{how}'", 40) for how in ("probe", "probe_insert")
} | {
    "hash, passes": ("join = 'hash', buckets = 131072, expire = '50 ms'", 40),
    "hash, lazy": ("join = 'hash', buckets = 131072, refresh = '10 ms'", 40),
    "hash, 128 buckets": ("join = 'hash', buckets = 128", 1),
    "nested loops": ("join = 'nested_loop'", 1),
}
# λ, T in units of time, v
TABLE_5 = {"s1": (10, 100, 500), "s2": (1, 100, 50), "s3": (1, 200, 40), "s4": (3, 100, 5)}
FOUR = {
    "eager loops": "join = 'nested_loop', order = 's1, s2, s3, s4'",
    "eager hash": "join = 'hash', buckets = 5, order = 's1, s2, s3, s4'",
    "lazy loops": "join = 'nested_loop', order = 's1, s2, s3, s4', refresh = '75 us'",
    "lazy hash": "join = 'hash', buckets = 5, order = 's1, s2, s3, s4', refresh = '75 us'",
    "naive": "join = 'naive', order = 's1, s2, s3, s4'",
}


def classic(sql: str, streams: int, first: int = 0) -> ClassicJoin:
    catalog = Catalog()
    for i in range(first, first + streams):
        catalog.add(Stream(f"s{i}", SCHEMA, "ts"))
    operator = build(bind(sql, catalog))
    assert isinstance(operator, InTimeOrder)
    assert isinstance(operator.inner, ClassicJoin)
    return operator.inner


def rows(times: np.ndarray, keys: np.ndarray) -> Rows:
    columns = [pa.array(keys), pa.array(times, pa.timestamp("us"))]
    return Rows(pa.RecordBatch.from_arrays(columns, schema=SCHEMA), times)


def two_streams(options: str, count: int) -> tuple[float, float]:
    """Arrivals and attribute comparisons a second, once the windows are full."""
    sql = f"SELECT s0.k FROM s0 [RANGE {WINDOW} US], s1 [RANGE {WINDOW} US] WHERE s0.k = s1.k OPTIONS ({options})"
    join = classic(sql, 2)
    rng = np.random.default_rng(1)
    full = -(-WINDOW // BATCH) + 1
    before = (0.0, 0)
    for i in range(full + count):
        times = np.arange(i * BATCH, (i + 1) * BATCH, dtype=np.int64)
        for _ in join.push_together({f"s{s}": rows(times, rng.integers(0, WINDOW, BATCH)) for s in (0, 1)}):
            pass
        if i == full - 1:
            before = (join.counters.kernel_seconds, join.counters.work["attribute_comparisons"])
    seconds = join.counters.kernel_seconds - before[0]
    return count * 2 * BATCH / seconds, (join.counters.work["attribute_comparisons"] - before[1]) / seconds


def four_streams(options: str, units: int = 1000) -> tuple[float, float]:
    """GO03's generator: one row per iteration, from a stream chosen by its rate; a unit of time is 15 iterations."""
    total = sum(rate for rate, _, _ in TABLE_5.values())
    windows = ", ".join(f"{name} [RANGE {length * total} US]" for name, (_, length, _) in TABLE_5.items())
    equal = "s1.k = s2.k AND s2.k = s3.k AND s3.k = s4.k"
    join = classic(f"SELECT s1.k FROM {windows} WHERE {equal} OPTIONS ({options})", 4, first=1)
    rng = np.random.default_rng(5)
    names = list(TABLE_5)
    chosen = rng.choice(4, units * total, p=[TABLE_5[name][0] / total for name in names])
    times = np.arange(chosen.size, dtype=np.int64)
    batch = {
        name: rows(times[chosen == i], rng.integers(1, TABLE_5[name][2] + 1, int((chosen == i).sum())))
        for i, name in enumerate(names)
    }
    for _ in join.push_together(batch):
        pass
    seconds = join.counters.kernel_seconds
    return chosen.size / seconds, join.counters.work["attribute_comparisons"] / seconds


def measured(name: str, samples: list[tuple[float, float]]) -> Figure:
    arrivals = [one for one, _ in samples]
    comparisons = sorted(two for _, two in samples)[len(samples) // 2]
    return figure(name, "arrivals/s", arrivals, comparisons_per_second=f"{comparisons:.3g}")


def main() -> None:
    figures = []
    for name, (options, count) in TWO.items():
        figures.append(measured(f"two streams, {name}", [two_streams(options, count) for _ in range(3)]))
    for name, options in FOUR.items():
        figures.append(measured(f"Table 5, {name}", [four_streams(options) for _ in range(3)]))
    report("algorithms", figures)


if __name__ == "__main__":
    main()
