"""ORDER BY … LIMIT k OFFSET n over windows: so many rows of an order, as rows come and go."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from watersmeet.operators.continuous.aggregates.contract import frozen
from watersmeet.operators.continuous.aggregates.labels import LIMIT, even_labels, labels_between
from watersmeet.operators.continuous.aggregates.ordered_rows import Tree
from watersmeet.operators.continuous.copies import Copies
from watersmeet.operators.continuous.delta import Delta, Int64s, no_changes
from watersmeet.operators.continuous.multiset import zeros_after
from watersmeet.operators.continuous.node import Node, Unary
from watersmeet.operators.continuous.row_ids import RowIds
from watersmeet.operators.continuous.row_table import RowTable
from watersmeet.operators.continuous.value_order import answer_order
from watersmeet.operators.kernels.cells import additions_first
from watersmeet.operators.kernels.ordered import rows_between
from watersmeet.plan.nodes import SortKey

Changes = tuple[Int64s, Int64s, Int64s]
_ALL = 2**62  # more rows than there can be


class TopKWindow:
    """A multiset of rows in the order of their ranks, and what changes among the `limit` behind the first `offset`.

    Rows are known by ids; different ids have different ranks. All rows are kept, as the first may leave.
    """

    STATE = ("_tree",)

    def __init__(self, limit: int | None, offset: int = 0) -> None:
        self._offset = offset
        self._end = _ALL if limit is None else offset + limit
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
        changes = (frozen(ids), frozen(ranks), frozen(diffs), ends)
        self._tree.run(rows_between, (*changes, self._offset, self._end), (found, raw))
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


class TopKOperator(Unary):
    """Rows that the order does not tell apart stand in the order of their values, so the answer depends on the
    rows alone."""

    STATE = ("child", "ids", "rows", "counts", "ranks", "window", "copies")

    netted = True

    def __init__(self, child: Node, keys: Sequence[SortKey], limit: int | None, offset: int) -> None:
        super().__init__(child, child.schema)
        self.keys = list(keys)
        self.ids = RowIds()
        self.rows = RowTable(self.schema)
        self.counts = np.zeros(self.ids.room, np.int64)
        self.ranks = np.zeros(self.ids.room, np.int64)
        self.window = TopKWindow(limit, offset)
        self.copies = Copies()

    @property
    def held_rows(self) -> int:
        return self.ids.live

    @property
    def nbytes(self) -> int:
        return self.ids.nbytes + self.rows.nbytes + self.window.nbytes + self.copies.nbytes + 2 * self.ranks.nbytes

    def take(self, until: int) -> Delta:
        delta = self.child.take(until)
        if len(delta) == 0:
            return no_changes(self.schema)
        ids = self._number(delta)
        starts = np.flatnonzero(np.concatenate([[True], delta.instants[1:] != delta.instants[:-1]]))
        ends = np.append(starts[1:], len(delta))
        which, changed, by = self.window.apply(ids, self.ranks[ids], delta.diffs, ends)
        noticed = None if delta.noticed is None else np.maximum.reduceat(delta.noticed, starts)
        answer = self._answer(changed, by, delta.instants[starts][which], None if noticed is None else noticed[which])
        # Rows lose their numbers only now, as the answer may take them out.
        np.add.at(self.counts, ids, delta.diffs)
        empty = np.unique(ids[self.counts[ids] == 0])
        self.rows.drop(empty)
        self.ids.forget(empty)
        return answer

    def _answer(self, ids: Int64s, by: Int64s, instants: Int64s, noticed: Int64s | None) -> Delta:
        index, diffs, numbers = self.copies.change(ids, by)
        data = pa.RecordBatch.from_arrays(self.rows.get(ids[index]), schema=self.schema)
        return Delta(data, instants[index], diffs, numbers, None if noticed is None else noticed[index])

    def _number(self, delta: Delta) -> Int64s:
        columns = delta.data.columns
        # Before numbers are given: these have ranks already.
        known = np.flatnonzero(self.counts > 0)
        ids = self.ids.of(columns, len(delta))
        if self.ids.room > self.counts.size:
            self.counts, self.ranks = zeros_after(self.counts, self.ids.room), zeros_after(self.ranks, self.ids.room)
        new = np.flatnonzero(~self.rows.holds(ids))
        _, first = np.unique(ids[new], return_index=True)
        new = new[first]
        if new.size:
            self.rows.put(ids[new], [column.take(pa.array(new)) for column in columns])
            self._rank(known, ids[new])
        return ids

    def _rank(self, known: Int64s, new: Int64s) -> None:
        """Give new rows ranks between those of their neighbours, or all rows new ranks where there is no room."""
        everyone = np.concatenate([known, new])
        order = everyone[self._sorted(everyone)]
        is_new = np.zeros(self.ids.room, np.bool_)
        is_new[new] = True
        fresh = np.flatnonzero(is_new[order])
        bounds = np.concatenate([[-LIMIT], self.ranks[order[~is_new[order]]], [LIMIT]])
        before = fresh - np.arange(fresh.size)  # how many known rows stand before each new one
        labels = labels_between(bounds[before], bounds[before + 1])
        if labels is not None:
            self.ranks[order[fresh]] = labels
            return
        self.ranks[order] = even_labels(order.size)
        self.window.rerank(known, self.ranks[known])

    def _sorted(self, ids: Int64s) -> Int64s:
        """Positions in the order asked for; then by all columns."""
        data = pa.RecordBatch.from_arrays(self.rows.get(ids), schema=self.schema)
        return answer_order(data, self.keys)
