"""Small numbers for rows: equal rows have one number. NULLs are equal here, and so are NaNs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.operators.codes import UInt64s, identities
from watersmeet.operators.continuous.delta import Int64s
from watersmeet.operators.few_rows import fresh
from watersmeet.operators.kernels.identity import forget_numbers, number_rows, rehash

T = TypeVar("T", bound=np.generic)
FIRST_ROOM = 1024


class RowIds:
    """Numbers rows from 0 and uses numbers again after `forget`."""

    STATE = ("_heads", "_following", "_first", "_second", "_free", "_free_count")

    def __init__(self) -> None:
        self._heads: Int64s = np.full(2 * FIRST_ROOM, -1, np.int64)
        self._following: Int64s = np.empty(FIRST_ROOM, np.int64)
        self._first: UInt64s = np.empty(FIRST_ROOM, np.uint64)
        self._second: UInt64s = np.empty(FIRST_ROOM, np.uint64)
        self._free: Int64s = np.arange(FIRST_ROOM - 1, -1, -1, dtype=np.int64)
        self._free_count = FIRST_ROOM

    @property
    def room(self) -> int:
        """All numbers are below this."""
        return int(self._following.size)

    @property
    def live(self) -> int:
        return self.room - self._free_count

    @property
    def nbytes(self) -> int:
        return sum(a.nbytes for a in (self._heads, self._following, self._first, self._second, self._free))

    @property
    def free(self) -> int:
        """So many numbers can be given before there has to be more room."""
        return self._free_count

    @property
    def tables(self) -> tuple[Int64s, Int64s, UInt64s, UInt64s, Int64s]:
        """Where kernels look up numbers, give and free them; who has them do so tells how many are free then."""
        return self._heads, self._following, self._first, self._second, self._free

    def make_room(self, count: int) -> None:
        """So that so many numbers are free."""
        while self._free_count < count:
            self._grow()

    def left_free(self, count: int) -> None:
        self._free_count = count

    def of(self, columns: Sequence[pa.Array], length: int) -> Int64s:
        """The number of every row; rows not seen before get one."""
        return self.with_new(columns, length)[0]

    def with_new(self, columns: Sequence[pa.Array], length: int) -> tuple[Int64s, Int64s]:
        """The number of every row, and at which places one was given for the first time."""
        return self.of_identities(*identities(columns, length))

    def of_identities(self, first: UInt64s, second: UInt64s) -> tuple[Int64s, Int64s]:
        """The same of rows whose identities are known."""
        length = first.size
        ids, new = fresh(length), fresh(length)
        done = found = 0
        while True:
            done, self._free_count, found = number_rows(
                first, second, done, *self.tables, self._free_count, ids, new, found
            )
            if done == length:
                return ids, new[:found]
            self._grow()

    def forget(self, ids: Int64s) -> None:
        """Free these numbers, each given once."""
        tables = (self._heads, self._following, self._first)
        self._free_count = int(forget_numbers(ids, *tables, self._free, self._free_count))

    def fresh(self, count: int) -> Int64s:
        """Numbers for rows that nobody will ask for again by their columns; they are given back, not forgotten."""
        given = []
        while True:
            before = self._free_count
            self._free_count -= min(count, before)
            given.append(self._free[self._free_count : before])
            count -= before - self._free_count
            if not count:
                return np.concatenate(given)
            self._grow()

    def give_back(self, ids: Int64s) -> None:
        """Free numbers that were `fresh`, each given once."""
        self._free[self._free_count : self._free_count + ids.size] = ids
        self._free_count += ids.size

    def _grow(self) -> None:
        """Make room for three times as many numbers as there are."""
        old, room = self.room, 4 * self.room
        live = np.zeros(room, np.bool_)
        live[:old] = True
        live[self._free[: self._free_count]] = False  # room may be made ahead of need
        self._following = _longer(self._following, room)
        self._first, self._second = _longer(self._first, room), _longer(self._second, room)
        free = np.empty(room, np.int64)
        free[: self._free_count] = self._free[: self._free_count]
        free[self._free_count : self._free_count + room - old] = np.arange(room - 1, old - 1, -1)
        self._free, self._free_count = free, self._free_count + room - old
        # At least two heads for each number, and a power of two for the mask.
        self._heads = np.empty(1 << (2 * room - 1).bit_length(), np.int64)
        rehash(self._heads, self._following, self._first, live)


def each_once(ids: Int64s, room: int) -> Int64s:
    """Where each of some numbers, which are all below `room`, is for the last time."""
    places, last = np.arange(ids.size), np.empty(room, np.int64)
    last[ids] = places
    return np.flatnonzero(last[ids] == places)


def _longer(array: npt.NDArray[T], room: int) -> npt.NDArray[T]:
    grown = np.empty(room, array.dtype)
    grown[: array.size] = array
    return grown
