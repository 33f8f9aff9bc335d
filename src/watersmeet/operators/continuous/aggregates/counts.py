"""COUNT(*) and COUNT(x)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from watersmeet.operators.continuous.aggregates.columns import grown, live
from watersmeet.operators.continuous.aggregates.contract import Bools, BySlots, Cells, Int64s, OfWords, Shares, frozen
from watersmeet.operators.few_rows import fresh, words_as
from watersmeet.operators.kernels.sums import count_changes


class Count(BySlots, OfWords):
    """How many rows there are, or with an argument how many of its values are not NULL."""

    STATE = ("_counts",)

    def __init__(self) -> None:
        self._counts: Int64s = np.zeros(0, np.int64)

    def apply(self, changes: Cells, values: pa.Array | None, order: Int64s) -> pa.Array:
        return self.counted(changes.groups, live(changes, values), changes.ends)

    def counted(self, groups: Int64s, lives: Int64s, ends: Int64s) -> pa.Array:
        """The count of each cell's group after it, of changes with diffs that are 0 where a value is NULL."""
        out = fresh(ends.size)
        count_changes(groups, frozen(lives), ends, self._counts, out)
        return words_as(out, pa.int64())

    def takes(self, kind: pa.DataType) -> bool:
        return True

    def add(self, groups: Int64s, lives: Int64s, words: Int64s, ends: Int64s, out: Int64s, valid: Bools) -> None:
        count_changes(groups, lives, ends, self._counts, out)

    def grow(self, groups: int) -> None:
        self._counts = grown(self._counts, groups)

    def shares(self, groups: Int64s) -> Shares:
        return Shares({"counts": self._counts[groups]}, {})

    def take_over(self, groups: Int64s, shares: Shares) -> None:
        self._counts[groups] = shares.numbers["counts"]

    @property
    def nbytes(self) -> int:
        return self._counts.nbytes
