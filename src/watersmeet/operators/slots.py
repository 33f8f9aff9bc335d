"""Small numbers for things that come and go, used again."""

from __future__ import annotations

import numpy as np

from watersmeet.operators.contract import Positions

FIRST_ROOM = 1024


class Slots:
    """Those that are free lie on a stack."""

    STATE = ("room", "_free", "_count")

    def __init__(self) -> None:
        self.room = 0  # all numbers are below this
        self._free: Positions = np.empty(0, np.int64)
        self._count = 0

    @property
    def used(self) -> int:
        return self.room - self._count

    @property
    def nbytes(self) -> int:
        return self._free.nbytes

    def take(self, count: int) -> Positions:
        if self._count < count:
            self._make_room(count)
        self._count -= count
        return self._free[self._count : self._count + count].copy()

    def give_back(self, numbers: Positions) -> None:
        self._free[self._count : self._count + numbers.size] = numbers
        self._count += int(numbers.size)

    def _make_room(self, count: int) -> None:
        fresh = max(count - self._count, self.room, FIRST_ROOM)
        free = np.zeros(self.room + fresh, np.int64)
        # Those that were free already are taken first, so that all stay small.
        free[:fresh] = np.arange(self.room + fresh - 1, self.room - 1, -1)
        free[fresh : fresh + self._count] = self._free[: self._count]
        self._free, self._count, self.room = free, self._count + fresh, self.room + fresh
