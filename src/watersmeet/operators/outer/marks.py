"""Which of the rows that still matter have been seen to match."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from watersmeet.operators.contract import Positions

FIRST_ROOM = 1024
MATCHED, FORGOTTEN = 1, 2


class Marks:
    """Rows are numbered as they come; what is known of each is kept until it is forgotten."""

    STATE = ("_first", "_size", "_marks", "_forgotten")

    def __init__(self) -> None:
        self._first = 0  # the number of the oldest row that is kept
        self._size = 0
        self._marks: npt.NDArray[np.uint8] = np.zeros(FIRST_ROOM, np.uint8)
        self._forgotten = 0

    def add(self, count: int) -> Positions:
        """The numbers of so many new rows."""
        if self._size + count > self._marks.size:
            self._make_room(count)
        numbers = np.arange(self._first + self._size, self._first + self._size + count)
        self._size += count
        return numbers

    def match(self, numbers: Positions) -> None:
        self._set(numbers, MATCHED)

    def are_matched(self, numbers: Positions) -> npt.NDArray[np.bool_]:
        return self._marks[numbers - self._first] & MATCHED > 0

    def forget(self, numbers: Positions) -> None:
        """Nothing more will be asked of these."""
        self._set(numbers, FORGOTTEN)
        self._forgotten += numbers.size

    def take_over(self, count: int, kept: Positions, matched: npt.NDArray[np.bool_]) -> None:
        """So many rows, of which these still matter."""
        self.add(count)
        self.match(kept[matched])
        gone = np.ones(count, np.bool_)
        gone[kept] = False
        self.forget(np.flatnonzero(gone))

    @property
    def nbytes(self) -> int:
        return self._marks.nbytes

    def _set(self, numbers: Positions, bit: int) -> None:
        self._marks[numbers - self._first] |= np.uint8(bit)

    def _make_room(self, count: int) -> None:
        """Rows go about in the order they came, so what is forgotten is mostly at the front."""
        alive = np.flatnonzero(self._marks[: self._size] & FORGOTTEN == 0)
        start = int(alive[0]) if alive.size else self._size
        kept = self._marks[start : self._size]
        self._marks = np.zeros(max(FIRST_ROOM, 2 * (kept.size + count)), np.uint8)
        self._marks[: kept.size] = kept
        self._first, self._size = self._first + start, int(kept.size)
