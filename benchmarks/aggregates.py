"""Aggregates of a sliding window on one core: one aggregate, 1,000 groups, a window of 100,000 rows.

A row is two changes, one when it comes and one when it leaves. Changes are sorted by (instant, group) as the operator
gives them. Seconds are those of the processor, inside `apply` only. Rows "together" share an instant.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from benchmarks.harness import Figure, figure, report
from watersmeet.operators.continuous.aggregates import Cells, make_aggregator
from watersmeet.operators.continuous.aggregates.contract import Int64s
from watersmeet.operators.continuous.top_k import TopKWindow
from watersmeet.plan.expressions import Aggregate, Column, Literal
from watersmeet.plan.functions import aggregate_type

GROUPS, WINDOW, CHANGES = 1_000, 100_000, 65_536
WARM, TIMED, RUNS = 4, 8, 5
Batch = tuple[Cells, Int64s]  # the changes, and per change its row


def batches(together: int, groups: int, fifo: bool) -> list[Batch]:
    """Steady state: every instant `together` rows come and as many leave; the first batch fills the window."""
    rng = np.random.default_rng(1)
    steps = CHANGES // 2 // together * together
    rows = WINDOW + (WARM + TIMED) * steps
    group = rng.integers(0, groups, rows)
    made = [cells_of(np.arange(WINDOW), np.ones(WINDOW, np.int64), np.zeros(WINDOW, np.int64), group)]
    leaving = np.arange(rows) if fifo else swapped(rng, rows)
    for start in range(0, (WARM + TIMED) * steps, steps):
        instants = np.tile(np.arange(start, start + steps) // together, 2)
        changed = np.concatenate([np.arange(start, start + steps) + WINDOW, leaving[start : start + steps]])
        made.append(cells_of(changed, np.repeat([1, -1], steps), instants, group))
    return made


def swapped(rng: np.random.Generator, rows: int) -> Int64s:
    """An order of leaving in which rows near each other change places."""
    return np.argsort(np.arange(rows) + rng.integers(0, WINDOW // 2, rows), kind="stable")


def cells_of(rows: Int64s, diffs: Int64s, instants: Int64s, group: Int64s) -> Batch:
    groups = group[rows]
    order = np.lexsort((groups, instants))
    rows, diffs, instants, groups = rows[order], diffs[order], instants[order], groups[order]
    new = (np.diff(instants) != 0) | (np.diff(groups) != 0)
    return Cells(groups, diffs, np.append(np.flatnonzero(new) + 1, rows.size)), rows


def rates(aggregate: Aggregate, feed: list[Batch], column: pa.Array | None, fifo: bool, groups: int) -> list[float]:
    """M rows/s of each run."""
    values = [None if column is None else column.take(pa.array(rows)) for _, rows in feed]
    measured = []
    for run in range(RUNS + 1):
        aggregator = make_aggregator(aggregate, fifo=fifo)
        aggregator.grow(groups)
        changes, spent = 0, 0.0
        for i, ((cells, rows), batch) in enumerate(zip(feed, values, strict=True)):
            started = time.process_time()
            aggregator.apply(cells, batch, rows)
            if i > WARM:
                spent += time.process_time() - started
                changes += rows.size
        if run:
            measured.append(changes / 2 / spent / 1e6)
    return measured


@dataclass(frozen=True)
class Case:
    """An aggregate of a column, and how its rows come and go."""

    function: str
    column: str
    goal: str = ""
    fifo: bool = True
    together: int = 1
    groups: int = GROUPS
    distinct: bool = False
    share: float | None = None

    def measure(self) -> Figure:
        feed = batches(self.together, self.groups, self.fifo)
        rows = 1 + max(int(part.max()) for _, part in feed)
        column = COLUMNS[self.column](np.random.default_rng(2), rows)
        return figure(
            self.name, "M rows/s", rates(self.aggregate(column.type), feed, column, self.fifo, self.groups), self.goal
        )

    def aggregate(self, data_type: pa.DataType) -> Aggregate:
        args: tuple[Column | Literal, ...] = (Column("s", "x", data_type),)
        if self.share is not None:
            args += (Literal(self.share, pa.float64()),)
        return Aggregate(self.function, args, aggregate_type(self.function, [a.type for a in args]), self.distinct)

    @property
    def name(self) -> str:
        told = {
            "distinct values": self.distinct,
            "leaving in any order": not self.fifo,
            f"{self.together:,} rows together": self.together > 1,
            "one group": self.groups == 1,
            f"share {self.share}": self.share is not None,
        }
        return ", ".join(
            [f"{self.function.upper()} of {self.column}", *(text for text, holds in told.items() if holds)]
        )


COLUMNS: dict[str, Callable[[np.random.Generator, int], pa.Array]] = {
    "int64": lambda rng, rows: pa.array(rng.integers(0, 10**9, rows)),
    "double": lambda rng, rows: pa.array(rng.normal(100, 30, rows)),
    "wide double": lambda rng, rows: pa.array(np.ldexp(rng.normal(size=rows), rng.integers(-1000, 1000, rows))),
    "decimal": lambda rng, rows: pa.array(rng.integers(0, 10**9, rows)).cast(pa.decimal128(38, 2), safe=False),
    "text": lambda rng, rows: pa.array(rng.integers(0, 10**5, rows)).cast(pa.string()),
}


CASES = [
    Case("count", "int64", ">= 5"),
    Case("sum", "int64", ">= 5"),
    Case("sum", "double", "near 5"),
    Case("sum", "wide double"),
    Case("sum", "decimal"),
    Case("avg", "int64"),
    Case("avg", "double"),
    Case("stddev", "double"),
    Case("min", "int64", ">= 2"),
    Case("max", "double", ">= 2"),
    Case("max", "text"),
    Case("max", "int64", fifo=False),
    Case("last", "int64"),
    Case("first", "int64"),
    Case("median", "double", ">= 0.5"),
    Case("median", "double", ">= 0.5", groups=1),
    Case("percentile", "int64", share=0.95),
    Case("count", "int64", distinct=True),
    Case("count", "text", distinct=True),
]


def first_rows() -> Figure:
    """The 10 first of 100,000 rows."""
    feed = batches(1, 1, True)
    rows = 1 + max(int(part.max()) for _, part in feed)
    ranks = np.random.default_rng(3).permutation(rows)
    measured = []
    for run in range(RUNS + 1):
        window, changes, spent = TopKWindow(10), 0, 0.0
        for i, (cells, part) in enumerate(feed):
            started = time.process_time()
            window.apply(part, ranks[part], cells.diffs, cells.ends)
            if i > WARM:
                spent += time.process_time() - started
                changes += part.size
        if run:
            measured.append(changes / 2 / spent / 1e6)
    return figure("first 10 rows", "M rows/s", measured)


def figures() -> Iterator[Figure]:
    yield from (case.measure() for case in CASES)
    for function in ("sum", "max", "median"):
        yield from (Case(function, "double", together=n).measure() for n in (10, 100, 1_000, 10_000))
    yield first_rows()


if __name__ == "__main__":
    report("aggregates", figures())
