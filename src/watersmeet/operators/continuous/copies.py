"""Gives every copy of a row in an answer the number it enters and leaves with."""

from __future__ import annotations

import numpy as np

from watersmeet.operators.continuous.delta import Int64s
from watersmeet.operators.kernels.multiset import expand

FIRST_ROOM = 1024


class Copies:
    """Rows are known by small numbers (ids); an answer may hold several copies of each."""

    STATE = ("_tops", "_numbers", "_below", "_free", "_free_count", "_next")

    def __init__(self) -> None:
        self._tops = np.full(FIRST_ROOM, -1, np.int64)
        self._numbers = np.empty(FIRST_ROOM, np.int64)
        self._below = np.empty(FIRST_ROOM, np.int64)
        self._free = np.arange(FIRST_ROOM - 1, -1, -1, dtype=np.int64)
        self._free_count = FIRST_ROOM
        self._next = 0

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in (self._tops, self._numbers, self._below, self._free))

    def change(self, ids: Int64s, diffs: Int64s) -> tuple[Int64s, Int64s, Int64s]:
        """Changes of multiplicity as single copies: which change each is of, +1 or -1, and the copy's number."""
        self._make_room(ids, int(np.maximum(diffs, 0).sum()))
        total = int(np.abs(diffs).sum())
        index, diff, number = (np.empty(total, np.int64) for _ in range(3))
        places = (self._tops, self._numbers, self._below, self._free)
        self._free_count, self._next = expand(ids, diffs, *places, self._free_count, self._next, index, diff, number)
        return index, diff, number

    def _make_room(self, ids: Int64s, entering: int) -> None:
        if ids.size and int(ids.max()) >= self._tops.size:
            grown = np.full(max(int(ids.max()) + 1, 2 * self._tops.size), -1, np.int64)
            grown[: self._tops.size] = self._tops
            self._tops = grown
        if self._free_count < entering:
            old = self._numbers.size
            room = max(2 * old, old + entering)
            # np.resize repeats what there is, which is never read.
            self._numbers, self._below = np.resize(self._numbers, room), np.resize(self._below, room)
            free = np.empty(room, np.int64)
            free[: self._free_count] = self._free[: self._free_count]
            free[self._free_count : self._free_count + room - old] = np.arange(room - 1, old - 1, -1)
            self._free, self._free_count = free, self._free_count + room - old
