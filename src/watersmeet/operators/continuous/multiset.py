"""Rows by value, counted: how often each is on the left and on the right of a set operation."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from watersmeet.operators.continuous.copies import Copies
from watersmeet.operators.continuous.delta import Bools, Delta, Int64s, latest_noticed
from watersmeet.operators.continuous.row_ids import RowIds
from watersmeet.operators.continuous.row_table import RowTable
from watersmeet.operators.few_rows import fresh
from watersmeet.operators.kernels import changes as kernel


class Multiset:
    """Rows by value, how often each is on the left and on the right, and the copies in the answer."""

    STATE = ("ids", "rows", "left", "right", "copies", "_scratch")

    def __init__(self, schema: pa.Schema, kind: int) -> None:
        self.schema = schema
        self.kind = kind
        self.ids = RowIds()
        self.rows = RowTable(schema)
        self.left = np.zeros(self.ids.room, np.int64)
        self.right = np.zeros(self.ids.room, np.int64)
        self.copies = Copies()
        self._scratch = np.full(self.ids.room, -1, np.int64)

    @property
    def nbytes(self) -> int:
        return self.ids.nbytes + self.rows.nbytes + self.left.nbytes + self.right.nbytes + self.copies.nbytes

    def apply(self, delta: Delta, is_right: Bools) -> Delta:
        """The changes of the answer that changes of the sides bring about."""
        ids, order, starts, which, by = self._count(delta, is_right)
        noticed = latest_noticed(delta, order, starts)
        first = order[starts[which]]
        answer = self._answer(ids[first], by, delta.instants[first], None if noticed is None else noticed[which])
        # After the answer, which shows rows that are on neither side any more.
        self._forget(ids[order[starts]])
        return answer

    def _count(self, delta: Delta, is_right: Bools) -> tuple[Int64s, Int64s, Int64s, Int64s, Int64s]:
        """The rows of changes, their order in cells and where these start, which of them change the answer, and by how
        much."""
        n = len(delta)
        ids = self._number(delta)
        order, ends = fresh(n), fresh(n)
        cells = int(kernel.sort_into_cells(delta.instants, ids, order, ends))
        which, by = fresh(cells), fresh(cells)
        sides = (self.left, self.right)
        found = kernel.change_multiplicities(
            self.kind, order, ends, cells, ids, delta.diffs, is_right, *sides, which, by
        )
        return ids, order, np.concatenate([[0], ends[: cells - 1]]), which[:found], by[:found]

    def _number(self, delta: Delta) -> Int64s:
        columns = delta.data.columns
        ids, new = self.ids.with_new(columns, len(delta))
        self.make_room()
        self.rows.put(ids[new], [column.take(pa.array(new)) for column in columns])
        return ids

    def make_room(self) -> None:
        """For all numbers of rows."""
        if self.ids.room > self.left.size:
            self.left = zeros_after(self.left, self.ids.room)
            self.right = zeros_after(self.right, self.ids.room)
            self._scratch = np.full(self.ids.room, -1, np.int64)

    def _answer(self, ids: Int64s, by: Int64s, instants: Int64s, noticed: Int64s | None) -> Delta:
        index, diffs, numbers = self.copies.change(ids, by)
        by_instant = np.lexsort((diffs, instants[index]))
        index, diffs, numbers = index[by_instant], diffs[by_instant], numbers[by_instant]
        data = pa.RecordBatch.from_arrays(self.rows.get(ids[index]), schema=self.schema)
        return Delta(data, instants[index], diffs, numbers, None if noticed is None else noticed[index])

    def _forget(self, touched: Int64s) -> None:
        """Rows that are on neither side any more lose their number."""
        empty = touched[(self.left[touched] == 0) & (self.right[touched] == 0)]
        last = np.empty(empty.size, np.int64)
        empty = empty[last[: kernel.last_cells(empty, self._scratch, last)]]  # each once
        self.rows.drop(empty)
        self.ids.forget(empty)


def zeros_after(array: Int64s, room: int) -> Int64s:
    grown = np.zeros(room, np.int64)
    grown[: array.size] = array
    return grown
