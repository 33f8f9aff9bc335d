"""Rows kept under small numbers: written in bulk, read in bulk, replaced at will."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from watersmeet.operators.continuous.delta import Bools, Int64s
from watersmeet.operators.few_rows import picked_from
from watersmeet.operators.payload import PayloadColumn, payload_column

FIRST_ROOM = 1024


class RowTable:
    """Row i is at `_where[i]` of columns that are only appended to; what was replaced is squeezed out when it is
    more than half."""

    STATE = ("_room", "_columns", "_where", "_head", "_held")

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._room = FIRST_ROOM
        self._columns = [payload_column(field.type, self._room) for field in schema]
        self._where: Int64s = np.full(FIRST_ROOM, -1, np.int64)
        self._head = 0
        self._held = 0

    @property
    def nbytes(self) -> int:
        return self._where.nbytes + sum(column.nbytes for column in self._columns)

    def put(self, ids: Int64s, rows: list[pa.Array]) -> None:
        """Keep rows under these numbers, each number once."""
        if ids.size == 0:
            return
        self.number_up_to(int(ids.max()))
        self.make_room(ids.size)
        for column, values in zip(self._columns, rows, strict=True):
            column.append(values, self._head)
        self._held += int(np.count_nonzero(self._where[ids] < 0))
        self._where[ids] = np.arange(self._head, self._head + ids.size)
        self._head += ids.size

    def get(self, ids: Int64s, columns: Sequence[int] | None = None) -> list[pa.Array]:
        """The rows under these numbers, which must all be there; all of their columns, or some."""
        positions = picked_from(self._where, ids)
        wanted = self._columns if columns is None else [self._columns[place] for place in columns]
        return [column.gather(positions) for column in wanted]

    def holds(self, ids: Int64s) -> Bools:
        if ids.size and int(ids.max()) >= self._where.size:
            self.number_up_to(int(ids.max()))
        return self._where[ids] >= 0

    def drop(self, ids: Int64s) -> None:
        """Those that are there."""
        there = ids[self.holds(ids)]
        self._held -= there.size
        self._where[there] = -1

    def number_up_to(self, largest: int) -> None:
        """Make room for numbers."""
        if largest >= self._where.size:
            grown = np.full(max(largest + 1, 2 * self._where.size), -1, np.int64)
            grown[: self._where.size] = self._where
            self._where = grown

    @property
    def where(self) -> Int64s:
        """Of every number where its row lies among the values of the columns; -1 if there is none."""
        return self._where

    @property
    def columns(self) -> Sequence[PayloadColumn]:
        return self._columns

    @property
    def end(self) -> int:
        """Where the next row will lie."""
        return self._head

    def put_and_dropped(self, end: int, dropped: int) -> None:
        """Rows were written up to this place, under numbers that had none, and numbers have lost theirs."""
        self._held += end - self._head - dropped
        self._head = end

    def make_room(self, count: int) -> None:
        if self._head + count <= self._room:
            return
        if self._head > 2 * self._held:
            self._squeeze(count)
        if self._head + count > self._room:
            self._room = 2 * (self._head + count)
            for column in self._columns:
                column.relocate(0, self._head, self._room)

    def _squeeze(self, count: int) -> None:
        live = np.flatnonzero(self._where >= 0)
        # In the order they lie in, so that they are read from front to back.
        live = live[np.argsort(self._where[live])]
        room = max(FIRST_ROOM, 2 * (live.size + count))
        for column in self._columns:
            column.keep(self._where[live], room)
        self._where[live] = np.arange(live.size)
        self._head, self._room = int(live.size), room
