"""What it costs on this engine to let the results of a join go: to hold them until they end, or to find them again.

H04's formulas (`h04.py`) count comparisons and have time probing search everything it holds. Here results are held in
the order of their ends, so nothing is searched, and the cost is that of holding; finding again costs a second walk for
every row that leaves. The weights were measured by `benchmarks/pipelines.py`; only the differences between the two ways
are in them, as what a join and the operators above it do for a new row is the same in both.
"""

from __future__ import annotations

from collections.abc import Sequence

from watersmeet.dataclass import dataclass

HELD_RESULT_NS = 80.0  # to hold a result by its end and take it out again, beyond what finding it again takes
LEAVING_ROW_NS = 60.0  # to take a row out of the join's window, and to begin a second walk with it
PASSED_ROW_NS = 4.5  # a row of the same key that came after those the walk is looking for
# What hosts hand over at once: chains run from new to old, so a walk for a row that leaves goes past what is new.
BATCH_ROWS = 1 << 16


@dataclass(frozen=True)
class Leaving:
    """One stream of a join: rows a second, rows in its window, and the results that a new row of it makes."""

    rate: float
    rows: float
    results: float


def holding_ns(streams: Sequence[Leaving]) -> float:
    """Nanoseconds a second to hold all results until they end (`tpa`).

    >>> holding_ns([Leaving(rate=100, rows=1000, results=2.0)])
    16000.0
    """
    return HELD_RESULT_NS * sum(one.rate * one.results for one in streams)


def finding_again_ns(streams: Sequence[Leaving], batch_rows: float = BATCH_ROWS) -> float:
    """Nanoseconds a second to join every row once more as it leaves (`nta`).

    >>> finding_again_ns([Leaving(rate=100, rows=1000, results=2.0)], batch_rows=1000)
    6900.0
    """
    return sum(one.rate * (LEAVING_ROW_NS + PASSED_ROW_NS * _passed(one, batch_rows)) for one in streams)


def _passed(one: Leaving, batch_rows: float) -> float:
    """The rows of its key that came in the same batch, beyond those it is joined with."""
    return one.results * batch_rows / max(one.rows, 1.0)
