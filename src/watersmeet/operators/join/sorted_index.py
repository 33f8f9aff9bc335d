"""A sorted index for band and interval predicates: a few sorted runs, merged as they grow.

New rows form a run of their own; runs of similar size are merged, so there are about log2(window / batch) of
them and every row is sorted that often in its life. Expired rows are dropped when a run is merged or whole.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from watersmeet.dataclass import dataclass
from watersmeet.operators.join.positions import check_positions


@dataclass
class IndexRun:
    """Values in ascending order with the store positions they are at; `newest` is the last position among them."""

    STATE: ClassVar = ("values", "rows", "newest")

    values: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int32]
    newest: int

    def since(self, tail: int) -> IndexRun:
        """Without the rows that have expired."""
        live = self.rows >= tail
        return self if bool(live.all()) else IndexRun(self.values[live], self.rows[live], self.newest)


class SortedIndex:
    """Runs over one code column of a store."""

    STATE = ("runs",)
    ITEMS: ClassVar = {"runs": IndexRun}

    def __init__(self, column: int) -> None:
        self.column = column
        self.runs: list[IndexRun] = []

    @property
    def nbytes(self) -> int:
        return sum(run.values.nbytes + run.rows.nbytes for run in self.runs)

    def add(self, codes: npt.NDArray[np.int64], first: int, last: int, tail: int) -> None:
        if last > first:
            check_positions(last)
            rows = np.arange(first, last, dtype=np.int32)
            self.runs.append(_sorted_run(codes[self.column, first:last], rows, last - 1))
        while len(self.runs) > 1 and self.runs[-2].rows.size <= 2 * self.runs[-1].rows.size:
            newer, older = self.runs.pop().since(tail), self.runs.pop().since(tail)
            merged = np.concatenate([older.values, newer.values])
            self.runs.append(_sorted_run(merged, np.concatenate([older.rows, newer.rows]), newer.newest))

    def expire(self, tail: int) -> None:
        """Forget runs that hold only expired rows."""
        self.runs = [run for run in self.runs if run.newest >= tail]

    def relocate(self, by: int) -> None:
        live = [run.since(by) for run in self.runs if run.newest >= by]
        self.runs = [IndexRun(run.values, run.rows - np.int32(by), run.newest - by) for run in live]

    def rebuild(self, codes: npt.NDArray[np.int64], first: int, last: int) -> None:
        self.runs = []
        self.add(codes, first, last, first)


def _sorted_run(values: npt.NDArray[np.int64], rows: npt.NDArray[np.int32], newest: int) -> IndexRun:
    # NumPy's stable sort of int64 is a timsort, which merges two sorted runs in linear time.
    order = np.argsort(values, kind="stable")
    return IndexRun(values[order], rows[order], newest)
