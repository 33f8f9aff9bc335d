"""Join orders that follow the rates: two of three streams change places, from 100 to 1 to 1 to 100, half way.

Every fixed set of orders runs over the same batches; so does the join that measures and decides by itself. A batch is
a second of event time, and so are the windows, so that three batches after the change nothing of the old is left.
"""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from benchmarks.harness import Figure, figure, report
from watersmeet.model.catalog import Catalog, Stream
from watersmeet.operators.contract import Rows
from watersmeet.operators.join.window_join import WindowJoin
from watersmeet.runtime.build import build
from watersmeet.sql import bind

FAST, SLOW, STEADY = 200_000, 2_000, 20_000
SECONDS = 10  # of each phase
SETTLING = 3  # batches after which a phase is measured
VALUES = 2000
SCHEMA = pa.schema([("k", pa.int64()), ("x", pa.int64()), ("y", pa.int64()), ("ts", pa.timestamp("us"))])
SQL = """
    SELECT a.k, b.x, c.y FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND], c [RANGE 1 SECOND]
    WHERE a.k = b.k AND b.x = c.x AND c.y = a.y
"""
ORDERS = {"a": ("a,b,c", "a,c,b"), "b": ("b,a,c", "b,c,a"), "c": ("c,a,b", "c,b,a")}


@dataclass
class Outcome:
    """Seconds of each batch, the checksum of all results, and how often the orders changed."""

    seconds: np.ndarray
    results: tuple[int, int]
    switches: int


def batches() -> list[dict[str, Rows]]:
    rng = np.random.default_rng(1)
    made = []
    for second in range(2 * SECONDS):
        fast, slow = ("a", "c") if second < SECONDS else ("c", "a")
        made.append({name: drawn(rng, second, rate) for name, rate in ((fast, FAST), (slow, SLOW), ("b", STEADY))})
    return made


def drawn(rng: np.random.Generator, second: int, count: int) -> Rows:
    times = np.sort(rng.integers(second * 1_000_000, (second + 1) * 1_000_000, count))
    keys = [pa.array(rng.integers(0, VALUES, count)) for _ in range(3)]
    return Rows(pa.RecordBatch.from_arrays([*keys, pa.array(times, pa.timestamp("us"))], schema=SCHEMA), times)


def run(rows: list[dict[str, Rows]], order: str | None) -> Outcome:
    catalog = Catalog()
    for name in ORDERS:
        catalog.add(Stream(name, SCHEMA, "ts"))
    join = build(bind(SQL + (f" OPTIONS (order = '{order}')" if order else ""), catalog))
    assert isinstance(join, WindowJoin)
    spent, count, total = [], 0, 0
    for second, batch in enumerate(rows):
        started = time.perf_counter()
        results = [found for name in sorted(batch) for found in join.push(name, batch[name])]
        results += join.advance(dict.fromkeys(ORDERS, (second + 1) * 1_000_000))
        spent.append(time.perf_counter() - started)
        count += sum(found.num_rows for found in results)
        total += sum(int(column.to_numpy().sum()) for found in results for column in found.columns)
    return Outcome(np.array(spent), (count, total), len(join.counters.switches))


def main(runs: int = 5) -> None:
    rows = batches()
    fixed = [
        "; ".join(f"{o}: {way}" for o, way in zip(ORDERS, ways, strict=True))
        for ways in itertools.product(*ORDERS.values())
    ]
    contenders: list[str | None] = [None, *fixed]
    outcomes = {one: [run(rows, one)] for one in contenders}  # to warm up
    for _ in range(runs):
        for one in contenders:
            outcomes[one].append(run(rows, one))
    expected = outcomes[None][0].results
    assert all(outcome.results == expected for many in outcomes.values() for outcome in many)
    report("adaptive", figures({one: many[1:] for one, many in outcomes.items()}, fixed, expected[0]))


def figures(outcomes: dict[str | None, list[Outcome]], fixed: list[str], results: int) -> list[Figure]:
    found = []
    for name, part in {"first": slice(SETTLING, SECONDS), "second": slice(SECONDS + SETTLING, None)}.items():
        medians = {one: np.median([o.seconds[part].sum() for o in outcomes[one]]) for one in fixed}
        best = min(medians, key=medians.__getitem__)
        ratios = ratio(outcomes, best, part)
        found.append(
            figure(
                f"{name} phase, after {SETTLING} batches: throughput of the best fixed",
                "times",
                ratios,
                "0.9",
                best=best,
            )
        )
    totals = {one: np.median([o.seconds.sum() for o in outcomes[one]]) for one in fixed}
    best, worst = min(totals, key=totals.__getitem__), max(totals, key=totals.__getitem__)
    everything = slice(None)
    found.append(
        figure(
            "both phases: throughput of the best fixed",
            "times",
            ratio(outcomes, best, everything),
            "above 1",
            best=best,
        )
    )
    found.append(figure("both phases: throughput of the worst fixed", "times", ratio(outcomes, worst, everything)))
    own = [o.seconds.sum() for o in outcomes[None]]
    found.append(figure("both phases", "s", own, results=results, switches=outcomes[None][0].switches))
    return found


def ratio(outcomes: dict[str | None, list[Outcome]], fixed: str, part: slice) -> list[float]:
    """How many times as fast, run by run."""
    pairs = zip(outcomes[fixed], outcomes[None], strict=True)
    return [float(theirs.seconds[part].sum() / ours.seconds[part].sum()) for theirs, ours in pairs]


if __name__ == "__main__":
    main()
