"""The rows in the frames of all partitions, each a queue that new rows enter and old ones leave in turn."""

from __future__ import annotations

import numpy as np

from watersmeet.dataclass import dataclass
from watersmeet.operators.continuous.aggregates.columns import grown
from watersmeet.operators.continuous.delta import Int64s
from watersmeet.operators.continuous.over.arranged import Arranged
from watersmeet.operators.kernels import frames as kernel
from watersmeet.operators.slots import Slots


@dataclass(frozen=True)
class Moved:
    """What a frame went through: at each step, a row or a cell, slots that entered (+1) and left (-1) up to `ends`, and
    afterwards the first slot in it and how many are."""

    slots: Int64s  # of the new rows
    changed: Int64s
    signs: Int64s
    ends: Int64s
    firsts: Int64s
    held: Int64s
    left: Int64s

    @property
    def steps_of_changes(self) -> Int64s:
        return np.repeat(np.arange(self.ends.size), np.diff(self.ends, prepend=0))


class Queues:
    """`keys` of rows are what a RANGE is measured by, or whatever is to be known of a row that leaves."""

    STATE = ("slots", "_heads", "_tails", "_sizes", "_following", "keys")

    def __init__(self) -> None:
        self.slots = Slots()
        self._heads: Int64s = np.zeros(0, np.int64)
        self._tails: Int64s = np.zeros(0, np.int64)
        self._sizes: Int64s = np.zeros(0, np.int64)
        self._following: Int64s = np.zeros(0, np.int64)
        self.keys: Int64s = np.zeros(0, np.int64)

    @property
    def nbytes(self) -> int:
        arrays = (self._heads, self._tails, self._sizes, self._following, self.keys)
        return self.slots.nbytes + sum(array.nbytes for array in arrays)

    @property
    def partitions(self) -> int:
        """All partitions that have rows have numbers below this."""
        return int(self._sizes.size)

    def move(self, rows: Arranged, keys: Int64s, room: int, *, by_rows: bool, reach: int) -> Moved:
        """room: all partitions have numbers below this."""
        self._heads, self._tails, self._sizes = (grown(a, room) for a in (self._heads, self._tails, self._sizes))
        slots = self.slots.take(len(rows))
        self._following, self.keys = (grown(array, self.slots.room) for array in (self._following, self.keys))
        n = len(rows)
        most = n + int(kernel.held_by(rows.partitions, rows.begins, self._sizes))
        changed, signs, left = np.empty(n + most, np.int64), np.empty(n + most, np.int64), np.empty(most, np.int64)
        ends, firsts, held = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
        changes, steps, gone = kernel.move_frames(
            rows.partitions, keys, rows.cells, slots, by_rows, reach, self._heads, self._tails, self._sizes,
            self._following, self.keys, changed, signs, ends, firsts, held, left,
        )  # fmt: skip
        parts = (changed[:changes], signs[:changes], ends[:steps], firsts[:steps], held[:steps], left[:gone])
        return Moved(slots, *parts)

    def empty(self, partitions: Int64s) -> tuple[Int64s, Int64s, Int64s]:
        """Take out all rows of partitions: the slots, where those of each end, and which partitions had any."""
        return self._listed(partitions, self._sizes)

    def held(self, partitions: Int64s) -> tuple[Int64s, Int64s, Int64s]:
        """The same of rows that stay."""
        return self._listed(partitions, self._sizes.copy())

    def _listed(self, partitions: Int64s, sizes: Int64s) -> tuple[Int64s, Int64s, Int64s]:
        partitions = partitions[partitions < sizes.size]
        partitions = partitions[sizes[partitions] > 0]
        changed, ends = np.empty(int(sizes[partitions].sum()), np.int64), np.empty(partitions.size, np.int64)
        kernel.empty_frames(partitions, self._heads, sizes, self._following, changed, ends)
        return changed, ends, partitions
