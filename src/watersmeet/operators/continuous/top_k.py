"""ORDER BY … LIMIT k OFFSET n over windows: so many rows of an order, as rows come and go."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from watersmeet.model.time import BEGINNING_US
from watersmeet.operators.continuous.aggregates.contract import frozen
from watersmeet.operators.continuous.aggregates.labels import LIMIT, even_labels, labels_between
from watersmeet.operators.continuous.aggregates.ordered_rows import Tree
from watersmeet.operators.continuous.copies import Copies
from watersmeet.operators.continuous.delta import Delta, Int64s, empty_batch, no_changes
from watersmeet.operators.continuous.first_in_turn import FirstInTurn, rows_in_turn
from watersmeet.operators.continuous.first_rows import Changed, FirstRows
from watersmeet.operators.continuous.multiset import zeros_after
from watersmeet.operators.continuous.net import net
from watersmeet.operators.continuous.node import Node, Unary
from watersmeet.operators.continuous.row_ids import RowIds, each_once
from watersmeet.operators.continuous.row_table import RowTable
from watersmeet.operators.continuous.value_order import answer_order
from watersmeet.operators.few_rows import rows_taken
from watersmeet.operators.kernels.cells import additions_first
from watersmeet.operators.kernels.ordered import rows_between
from watersmeet.physical.over import MOST_FOLLOWED
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


class Ranks:
    """A rank for every row, where so many are asked for that all are kept in order."""

    STATE = ("ranks", "window")

    def __init__(self, keys: Sequence[SortKey], limit: int | None, offset: int) -> None:
        self.keys = list(keys)
        self.ranks: Int64s = np.zeros(0, np.int64)
        self.window = TopKWindow(limit, offset)

    @property
    def nbytes(self) -> int:
        return self.window.nbytes + self.ranks.nbytes

    def apply(self, ids: Int64s, delta: Delta) -> tuple[Int64s, Int64s, Int64s, Int64s | None]:
        """Which rows come and go, by how many, and the instants, as those of the first rows are told."""
        starts = np.flatnonzero(np.concatenate([[True], delta.instants[1:] != delta.instants[:-1]]))
        ends = np.append(starts[1:], len(delta))
        which, changed, by = self.window.apply(ids, self.ranks[ids], delta.diffs, ends)
        noticed = None if delta.noticed is None else np.maximum.reduceat(delta.noticed, starts)[which]
        return changed, by, delta.instants[starts][which], noticed

    def know(self, known: Int64s, new: Int64s, room: int, values: Callable[[Int64s], pa.RecordBatch]) -> None:
        """Give new rows ranks between those of their neighbours, or all rows new ranks where there is no room."""
        if room > self.ranks.size:
            self.ranks = zeros_after(self.ranks, room)
        everyone = np.concatenate([known, new])
        order = everyone[answer_order(values(everyone), self.keys)]
        is_new = np.zeros(room, np.bool_)
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


class TopKOperator(Unary):
    """Rows that the order does not tell apart stand in the order of their values, so the answer depends on the
    rows alone."""

    STATE = ("child", "ids", "rows", "counts", "copies", "_many")

    netted = True

    def __init__(self, child: Node, keys: Sequence[SortKey], limit: int | None, offset: int) -> None:
        super().__init__(child, child.schema)
        self.ids = RowIds()
        self.rows = RowTable(self.schema)
        self.counts = np.zeros(self.ids.room, np.int64)
        self.copies = Copies()
        stop = _ALL if limit is None else offset + limit
        self._many = None if stop <= MOST_FOLLOWED else Ranks(keys, limit, offset)
        self._first = FirstRows(keys, min(stop, MOST_FOLLOWED), start=offset)
        # Then only rows of the answer have ids.
        self._in_turn = self._first_in_turn()

    def _first_in_turn(self) -> FirstInTurn | None:
        child, first = rows_in_turn(self.child), self._first
        if child is None or self._many is not None:
            return None
        return FirstInTurn(child, _one_group, first.keys, first.stop, start=first.start)

    @property
    def held_rows(self) -> int:
        return self.ids.live

    @property
    def nbytes(self) -> int:
        order = self._many or self._in_turn or self._first
        return self.ids.nbytes + self.rows.nbytes + self.copies.nbytes + self.counts.nbytes + order.nbytes

    def loaded(self) -> None:
        """The first rows follow from those that are held."""
        if self._in_turn is not None:
            self._in_turn = self._first_in_turn()
            assert self._in_turn is not None
            changed, _ = self._in_turn.enter_again(BEGINNING_US)
            self._keep_only(changed)
        elif self._many is None:
            self._first = FirstRows(self._first.keys, self._first.stop, start=self._first.start)
            ids = np.flatnonzero(self.counts > 0)
            self._first.know(ids, 0 * ids, self._rows_of(ids), self._rows_of)
            copies = np.repeat(ids, self.counts[ids])
            ones = np.ones(copies.size, np.int64)
            self._first.apply(copies, 0 * ones, Delta(empty_batch(self.schema), 0 * ones, ones, ones))

    def take(self, until: int) -> Delta:
        if self._in_turn is not None:
            changed, _ = self._in_turn.take(until)
            return self._told_in_turn(changed, self._in_turn.rows(changed.rows))
        delta = self.child.take(until)
        if len(delta) == 0:
            return no_changes(self.schema)
        ids = self._number(delta)
        answer = self._answer(*self._changes(ids, delta))
        # Rows lose their numbers only now, as the answer may take them out.
        self._first.forget(self._count(ids, delta.diffs))
        return answer

    def _count(self, ids: Int64s, diffs: Int64s) -> Int64s:
        """Rows come and go; those of which no copy is left lose their numbers."""
        np.add.at(self.counts, ids, diffs)
        empty: Int64s = ids[self.counts[ids] == 0]
        empty = empty[each_once(empty, self.ids.room)]
        self.rows.drop(empty)
        self.ids.forget(empty)
        return empty

    # ---- rows that leave in turn --------------------------------------------------------------------------

    def _told_in_turn(self, changed: Changed, data: pa.RecordBatch) -> Delta:
        """A row may be replaced by an equal one, which changes nothing."""
        if not changed.rows.size:
            return no_changes(self.schema)
        told = net(Delta(data, changed.instants, changed.diffs, changed.rows))
        ids = self._ids_of(told.data)
        index, diffs, numbers = self.copies.change(ids, told.diffs)
        self._count(ids, told.diffs)
        return Delta(rows_taken(told.data, index), told.instants[index], diffs, numbers)

    def _keep_only(self, changed: Changed) -> None:
        """Rows that are in the answer have ids, and no others: there may be such, saved when all rows had."""
        assert self._in_turn is not None
        known = np.flatnonzero(self.counts > 0)
        self.rows.drop(known)
        ids = self._ids_of(self._in_turn.rows(changed.rows))
        self.counts[:] = 0
        np.add.at(self.counts, ids, changed.diffs)
        self.ids.forget(known[self.counts[known] == 0])

    def _ids_of(self, data: pa.RecordBatch) -> Int64s:
        ids = self.ids.of(data.columns, data.num_rows)
        if self.ids.room > self.counts.size:
            self.counts = zeros_after(self.counts, self.ids.room)
        return ids

    # ---- rows that leave at any time ----------------------------------------------------------------------

    def _changes(self, ids: Int64s, delta: Delta) -> tuple[Int64s, Int64s, Int64s, Int64s | None]:
        if self._many is not None:
            return self._many.apply(ids, delta)
        changed = self._first.apply(ids, 0 * ids, delta)
        return changed.rows, changed.diffs, changed.instants, changed.noticed

    def _answer(self, ids: Int64s, by: Int64s, instants: Int64s, noticed: Int64s | None) -> Delta:
        index, diffs, numbers = self.copies.change(ids, by)
        data = self._rows_of(ids[index])
        return Delta(data, instants[index], diffs, numbers, None if noticed is None else noticed[index])

    def _number(self, delta: Delta) -> Int64s:
        # Before numbers are given: these are known already.
        known = None if self._many is None else np.flatnonzero(self.counts > 0)
        ids = self._ids_of(delta.data)
        new = np.flatnonzero(~self.rows.holds(ids))
        new = new[each_once(ids[new], self.ids.room)]
        if new.size:
            data = rows_taken(delta.data, new)
            self.rows.put(ids[new], data.columns)
            if self._many is not None and known is not None:
                self._many.know(known, ids[new], self.ids.room, self._rows_of)
            else:
                self._first.know(ids[new], 0 * new, data, self._rows_of)
        return ids

    def _rows_of(self, ids: Int64s) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(self.rows.get(ids), schema=self.schema)


def _one_group(data: pa.RecordBatch, count: int) -> Int64s:
    return np.zeros(count, np.int64)
