"""The first rows of an order, kept while rows come and go."""

from __future__ import annotations

import numpy as np

from watersmeet.operators.continuous.aggregates.contract import Int64s, frozen
from watersmeet.operators.continuous.aggregates.ordered_rows import Tree
from watersmeet.operators.kernels.cells import additions_first
from watersmeet.operators.kernels.ordered import first_rows

Changes = tuple[Int64s, Int64s, Int64s]


class TopKWindow:
    """A multiset of rows in the order of their ranks, and what changes among its first `limit`.

    Rows are known by ids; different ids have different ranks. All rows are kept, as the first may leave.
    """

    STATE = ("_tree",)

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._tree = Tree()

    def apply(self, ids: Int64s, ranks: Int64s, diffs: Int64s, ends: Int64s) -> Changes:
        """Take changes sorted into instants (`ends`: one past the last change of each); say what comes and goes.

        The result is arrays of instants (counted from 0), ids and diffs: per instant and id one net change, removals
        first, by id.
        """
        ends = frozen(ends)
        order = additions_first(frozen(diffs), ends)
        if order.size:
            ids, ranks, diffs = ids[order], ranks[order], diffs[order]
        raw = np.empty((2 * ids.size, 3), np.int64)
        found = np.zeros(1, np.int64)
        self._tree.run(first_rows, (frozen(ids), frozen(ranks), frozen(diffs), ends, self._limit), (found, raw))
        return net_changes(raw[: found[0]])

    def rerank(self, ids: Int64s, ranks: Int64s) -> None:
        """Give rows other ranks in the same order; ids that are not named keep theirs, ids without rows are ignored."""
        rows = self._tree.entries()
        by_id = np.argsort(ids, kind="stable")
        known = ids[by_id]
        places = np.searchsorted(known, rows[:, 3])
        named = places < known.size
        named[named] = known[places[named]] == rows[named, 3]
        rows[named, 1] = ranks[by_id][places[named]]
        self._tree = self._tree.rebuilt(rows)

    @property
    def nbytes(self) -> int:
        return self._tree.nodes.nbytes


def net_changes(raw: Int64s) -> Changes:
    """What is left of (instant, id, diff) rows when those of one instant and id are added up."""
    order = np.lexsort((raw[:, 1], raw[:, 0]))
    sorted_rows = raw[order]
    fresh = np.ones(len(order), np.bool_)
    fresh[1:] = (sorted_rows[1:, :2] != sorted_rows[:-1, :2]).any(axis=1)
    starts = np.flatnonzero(fresh)
    if not starts.size:
        return raw[:, 0], raw[:, 1], raw[:, 2]
    diffs = np.add.reduceat(sorted_rows[:, 2], starts)
    instants, ids = sorted_rows[starts, 0], sorted_rows[starts, 1]
    kept = np.flatnonzero(diffs)
    kept = kept[np.lexsort((ids[kept], diffs[kept] > 0, instants[kept]))]
    return instants[kept], ids[kept], diffs[kept]
