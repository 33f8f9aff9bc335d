"""Small numbers for things that come and go, used again."""

from __future__ import annotations

import numpy as np

from watersmeet.operators.contract import Positions as Int64s


class Slots:
    STATE = ("room", "_free")

    def __init__(self) -> None:
        self.room = 0  # all numbers are below this
        self._free: Int64s = np.empty(0, np.int64)

    @property
    def used(self) -> int:
        return self.room - int(self._free.size)

    @property
    def nbytes(self) -> int:
        return self._free.nbytes

    def take(self, count: int) -> Int64s:
        if self._free.size < count:
            fresh = max(count - int(self._free.size), self.room, 1024)
            # The lowest are taken first, from the end.
            self._free = np.concatenate([np.arange(self.room + fresh - 1, self.room - 1, -1), self._free])
            self.room += fresh
        cut = self._free.size - count
        taken = self._free[cut:].copy()
        self._free = self._free[:cut]
        return taken

    def give_back(self, numbers: Int64s) -> None:
        self._free = np.concatenate([self._free, numbers])
