"""The first rows of groups in a window whose rows leave in the order in which they came: of each group only those are
held that may yet be among the first, in memory that does not grow with the window."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from watersmeet.operators.continuous.aggregates.contract import frozen
from watersmeet.operators.continuous.delta import Delta, Int64s, no_changes
from watersmeet.operators.continuous.expiry import FIRST_ROOM, KnownDeaths
from watersmeet.operators.continuous.first_rows import NOWHERE, Changed, FirstRows, as_changed
from watersmeet.operators.continuous.from_one import FromOne
from watersmeet.operators.continuous.node import Node
from watersmeet.operators.continuous.row_ids import each_once
from watersmeet.operators.few_rows import fresh
from watersmeet.operators.kernels import first_rows as kernel
from watersmeet.operators.payload import payload_column, picked
from watersmeet.plan.nodes import SortKey

GroupsOf = Callable[[pa.RecordBatch, int], Int64s]


def rows_in_turn(node: Node) -> FromOne | None:
    """A node whose rows leave in the order in which they came, and are held by it."""
    if isinstance(node, FromOne) and node.in_turn and isinstance(node.expiry, KnownDeaths):
        return node
    return None


class FirstInTurn(FirstRows):
    """Rows are numbered as they come; all from `_tail` to `_head` that are not gone are held. When there is no room for
    more they are numbered anew."""

    in_turn = True

    def __init__(
        self, child: FromOne, groups_of: GroupsOf, keys: Sequence[SortKey], stop: int, *, start: int = 0,
        by: Sequence[str] = (),
    ) -> None:  # fmt: skip
        """groups_of: the number of each row's group, of so many rows."""
        super().__init__(keys, stop, start=start, by=by)
        self._child, self._groups_of = child, groups_of
        self._room, self._tail, self._head = FIRST_ROOM, 0, 0
        self._orders: Int64s = np.empty(self._room, np.int64)
        self._group: Int64s = np.empty(self._room, np.int64)
        self._payload = [payload_column(field.type, self._room) for field in child.schema]
        self._make_room(self._room, 0)

    @property
    def nbytes(self) -> int:
        return super().nbytes + 2 * self._orders.nbytes + sum(column.nbytes for column in self._payload)

    def take(self, until: int, *, by_place: bool = False) -> tuple[Changed, Int64s]:
        """What changes before an instant among the first of groups, and which groups have lost their last row."""
        child = self._child
        if child.gives_held:
            child.take(until)
            return self.enter_again(until - 1, by_place=by_place)
        entered = child.enter(until)
        return self._changes(entered, child.expiry.leave(child.complete), by_place=by_place)

    def enter_again(self, at: int, *, by_place: bool = False) -> tuple[Changed, Int64s]:
        """The rows that the child holds come at an instant, as nothing else is known of them."""
        held = self._child.expiry
        assert isinstance(held, KnownDeaths)
        return self._changes(held.entering_again(at), no_changes(self._child.schema), by_place=by_place)

    def rows(self, numbers: Int64s) -> pa.RecordBatch:
        columns = [column.gather(numbers) for column in self._payload]
        return pa.RecordBatch.from_arrays(columns, schema=self._child.schema)

    def orders(self, numbers: Int64s) -> Int64s:
        """The numbers that rows have as the child gives them."""
        return self._orders[numbers]

    def _changes(self, entered: Delta, left: Delta, *, by_place: bool) -> tuple[Changed, Int64s]:
        first = self._enter(entered)
        n = len(entered) + len(left)
        out, ends, instants = fresh(6, n), fresh(n), fresh(n)
        n, cells, self._tail = kernel.changes_in_turn(
            frozen(entered.instants), frozen(left.instants), frozen(left.order), self._orders, self._group, self._known,
            self._tail, first, out, ends, instants,
        )  # fmt: skip
        gone = fresh(self._head - self._tail + n)
        rows, groups, diffs = (frozen(one[:n]) for one in out[:3])
        given = (rows, groups, diffs, frozen(ends[:cells]))
        told, count = self._told(given, gone, by_place)
        gone = gone[:count]
        self.forget(gone)
        return as_changed(told, instants[:cells], None), self._emptied(self._group[gone])

    def _emptied(self, groups: Int64s) -> Int64s:
        empty: Int64s = groups[(self._groups[groups, kernel.SIZE] == 0) & (self._groups[groups, kernel.REST] == 0)]
        return empty[each_once(empty, len(self._groups))] if empty.size else empty

    # ---- where rows lie -----------------------------------------------------------------------------------

    def _enter(self, entered: Delta) -> int:
        """The number of the first of the rows that come."""
        count, groups = len(entered), self._groups_of(entered.data, len(entered))
        if self._head + count > self._room:
            self._number_anew(count)
        first, last = self._head, self._head + count
        self._orders[first:last], self._group[first:last] = entered.order, groups
        for column, values in zip(self._payload, entered.data.columns, strict=True):
            column.append(values, first)
        self._head = last
        self._know_groups(groups)
        self.know(np.arange(first, last), groups, entered.data, self.rows)
        return first

    def _there(self) -> Int64s:
        return self._tail + np.flatnonzero(self._known[self._tail : self._head, kernel.COPIES] != kernel.GONE)

    def _number_anew(self, count: int) -> None:
        """Room for so many more behind those that are not gone."""
        kept = self._there()
        room = max(self._room, 2 * (kept.size + count))
        new = np.full(self._head, NOWHERE, np.int64)
        new[kept] = np.arange(kept.size)
        known = np.zeros((room, self._known.shape[1]), np.int64)
        kernel.renumber(self._groups, self._heads, self._known, kept, new, known)
        self._known = known
        self._orders, self._group = picked(self._orders, kept, room), picked(self._group, kept, room)
        classes = self._class[kept]
        self._class = np.full(room, NOWHERE, np.int64)
        self._class[: kept.size] = classes
        self._marks = np.zeros(room, np.int64)
        for column in self._payload:
            column.keep(kept, room)
        self._room, self._tail, self._head = room, 0, int(kept.size)
