"""COUNT(*) and COUNT(x)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from watersmeet.operators.continuous.aggregates.columns import grown, live
from watersmeet.operators.continuous.aggregates.contract import Cells, Int64s
from watersmeet.operators.kernels.sums import count_changes


class Count:
    """How many rows there are, or with an argument how many of its values are not NULL."""

    STATE = ("_counts",)

    def __init__(self) -> None:
        self._counts: Int64s = np.zeros(0, np.int64)

    def apply(self, changes: Cells, values: pa.Array | None, order: Int64s) -> pa.Array:
        out = np.empty(len(changes), np.int64)
        count_changes(changes.groups, live(changes, values), changes.ends, self._counts, out)
        return pa.array(out)

    def grow(self, groups: int) -> None:
        self._counts = grown(self._counts, groups)

    @property
    def nbytes(self) -> int:
        return self._counts.nbytes
