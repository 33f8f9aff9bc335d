"""The rows of all groups in order, to be found by their place in their group."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from watersmeet.operators.continuous.aggregates.columns import grown
from watersmeet.operators.continuous.aggregates.contract import Cells, Int64s
from watersmeet.operators.continuous.aggregates.ordered_rows import Tree, in_turn
from watersmeet.operators.kernels.ordered import quantiles


class RankedRows:
    """Rows by (group, code), how many each group has, and a Fenwick tree over that."""

    STATE = ("_tree", "_counts", "_sums")

    def __init__(self) -> None:
        self._tree = Tree()
        self._counts: Int64s = np.zeros(0, np.int64)
        self._sums = fenwick(self._counts)

    def around(self, changes: Cells, lives: Int64s, codes: Int64s, share: float) -> tuple[Int64s, Int64s, Int64s]:
        """The codes of the rows on both sides of a quantile, and the number of rows, after each cell."""
        low, high, sizes = (np.zeros(len(changes), np.int64) for _ in range(3))
        groups, lives, codes = in_turn(changes, lives, changes.groups, lives, codes)
        before = groups, lives, changes.ends, codes, share, self._counts, self._sums
        self._tree.run(quantiles, before, (low, high, sizes))
        return low, high, sizes

    def rename(self, code: Callable[[Int64s], Int64s]) -> None:
        """Change all codes; their order stays."""
        self._tree = self._tree.renamed(code, lambda codes: codes)

    def grow(self, groups: int) -> None:
        if groups > self._counts.size:
            self._counts = grown(self._counts, groups)
            self._sums = fenwick(self._counts)

    @property
    def nbytes(self) -> int:
        return self._tree.nodes.nbytes + self._counts.nbytes + self._sums.nbytes


def fenwick(counts: Int64s) -> Int64s:
    """Entry i is the sum of the `i & -i` counts before count i.

    >>> fenwick(np.array([1, 2, 3, 4])).tolist()
    [0, 1, 3, 3, 10]
    """
    totals: Int64s = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    places = np.arange(totals.size)
    sums: Int64s = totals - totals[places - (places & -places)]
    return sums
