"""The chained hash index of a window store, sized to the rows it holds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from watersmeet.operators.join.positions import check_positions
from watersmeet.operators.kernels.chains import link, move

MIN_BITS = 6
EMPTY = np.int32(-1)


class HashIndex:
    """Chains over the codes in `columns` of its store; positions are the store's."""

    STATE = ("bits", "heads", "following")

    def __init__(self, columns: Sequence[int], capacity: int) -> None:
        self.columns = np.array(columns, np.int64)
        self.following = _chains(capacity)
        self._allocate_heads(MIN_BITS)

    def _allocate_heads(self, bits: int) -> None:
        self.bits = bits
        self.heads = np.full(1 << bits, EMPTY, np.int32)

    @property
    def shift(self) -> int:
        return 64 - self.bits

    @property
    def nbytes(self) -> int:
        return self.heads.nbytes + self.following.nbytes

    def add(self, codes: npt.NDArray[np.int64], first: int, last: int, tail: int) -> bool:
        """Index rows first..last-1; chains are kept about one row long by growing the heads. Whether they grew."""
        grows = last - tail > self.heads.size
        if grows:
            self.rebuild(codes, tail, last, self.following.size)
        else:
            self._link(codes, first, last)
        return grows

    def rebuild(self, codes: npt.NDArray[np.int64], first: int, last: int, capacity: int) -> None:
        self._allocate_heads(_bits_for(last - first))
        if self.following.size != capacity:
            self.following = _chains(capacity)
        self._link(codes, first, last)

    def relocate(self, codes: npt.NDArray[np.int64], by: int, count: int, capacity: int) -> None:
        """Follow the store, which moved its `count` live rows down by `by` positions."""
        # Chains are short with half or twice as many heads; only if there are far more or fewer are all rows linked
        # anew.
        if abs(_bits_for(count) - self.bits) > 1:
            self.rebuild(codes, 0, count, capacity)
            return
        if capacity == self.following.size:
            move(self.heads, self.following, self.following, count, by)
        else:
            grown = _chains(capacity)
            move(self.heads, self.following, grown, count, by)
            self.following = grown

    def _link(self, codes: npt.NDArray[np.int64], first: int, last: int) -> None:
        link(codes, self.columns, first, last, self.heads, np.uint64(self.shift), self.following)


def _chains(capacity: int) -> npt.NDArray[np.int32]:
    check_positions(capacity)
    return np.empty(capacity, np.int32)


def _bits_for(rows: int) -> int:
    return max(MIN_BITS, (max(rows, 1) - 1).bit_length())
