"""Who must give up memory: each stream within its own share, or all streams in one pool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil

import numpy as np

from watersmeet.errors import OptionError
from watersmeet.operators.contract import Rows
from watersmeet.operators.keeping.store import SheddingStore, row_bytes_of
from watersmeet.plan.memory import Memory

Stores = Mapping[str, SheddingStore]
# Rows by stream, each counted as many times as it is larger than those that are there.
Rooms = Mapping[str, float]

# There are never more rows than the bound says. Rows that come together are ranked among the others, of which as many
# go as there is no room for. Before a few come others go in numbers, so that the cost of finding them is spread over as
# many that come: this share of the bound, or one. So many may be fresh, too, and take room from rows worth more.
AT_ONCE = 1 / 64
# What is pushed at a time is best so large a share of the bound.
PIECE = 1 / 32
# Of rows in hand so many come in a turn (see turns).
TURN = 1 / 128
ROUNDING = 1e-9  # what parts of a pool may be off by


class Allocation:
    """`fixed` gives every stream an equal share, `variable` one pool to all of them."""

    def __init__(self, memory: Memory, kind: str, streams: Sequence[str], beside: float = 0.0) -> None:
        """beside: bytes that are taken for each row, outside its store."""
        self.beside = beside
        self.fixed = kind == "fixed"
        self.streams = tuple(streams)
        self.bound_by(memory)

    def bound_by(self, memory: Memory, own: Mapping[str, Memory] | None = None) -> None:
        """From now on, keep to another bound; `own` is what single streams may keep, where that is not the same for
        all."""
        self.memory, self.own = memory, own or {}
        self._rows = {stream: self._share_of(i, stream) for i, stream in enumerate(self.streams)}

    def _share_of(self, number: int, stream: str) -> int:
        """A bound in rows, for one stream."""
        if stream in self.own:
            return self.own[stream].rows or 0
        rows = self.memory.rows or 0
        if not self.fixed:
            return rows
        each, left = divmod(rows, len(self.streams))
        return each + (number < left)

    def rows_of(self, stores: Stores, stream: str) -> int:
        """How many rows a stream may keep, if it were alone in its share or in the pool."""
        own = self.own.get(stream, self.memory)
        if own.size is None:
            return self._rows[stream]
        share = 1 / len(self.streams) if self.fixed and stream not in self.own else 1.0
        each = stores[stream].bytes_per_row + self.beside
        return max(1, int(own.size * share / each))

    def sized(self, store: SheddingStore, rows: float) -> float:
        """What so many rows of a store take by which none is lost, in rows or in bytes as the bound is."""
        return rows / (1 - 2 * PIECE) * (1.0 if self.memory.size is None else store.bytes_per_row + self.beside)

    def room_for(self, stores: Stores, stream: str, rows: Rows) -> float:
        """As how many rows of the size of those that are there new ones count, which may be larger."""
        if self.own.get(stream, self.memory).size is None:
            return len(rows)
        store = stores[stream]
        larger = (row_bytes_of(store, rows.data) + self.beside) / (store.bytes_per_row + self.beside)
        return len(rows) * max(larger, 1.0)

    def fresh_rows(self, stores: Stores, stream: str) -> int:
        """How many rows of a stream may be fresh at a time, and how many may have memory before they are ranked."""
        return self._of_each(AT_ONCE, stores, stream)

    def piece_rows(self, stores: Stores, stream: str) -> int:
        """How many rows of a stream are best taken at a time."""
        return self._of_each(PIECE, stores, stream)

    def turn_rows(self, stores: Stores, stream: str) -> int:
        """How many rows of a stream come in a turn."""
        return self._of_each(TURN, stores, stream)

    def _of_each(self, share: float, stores: Stores, stream: str) -> int:
        # One pool must have room for what comes of all streams.
        return max(1, int(self.rows_of(stores, stream) * share) // (1 if self.fixed else len(self.streams)))

    def fits(self, stores: Stores, coming: Rooms) -> bool:
        """Whether there is room for so many more rows of each stream."""
        claimed = {stream: stores[stream].claimed + coming.get(stream, 0) for stream in self.streams}
        if self.fixed:
            return all(claimed[stream] <= self.rows_of(stores, stream) for stream in claimed)
        return self._part(stores, claimed) <= 1.0 + ROUNDING

    def victims(self, stores: Stores, coming: Rooms) -> dict[str, int]:
        """How many rows of each stream go, where there is no room for so many more; if none come, no more than must."""
        spare = AT_ONCE if coming else 0.0
        if not self.fixed:
            return self._from_one_pool(stores, min(1.0 - spare, 1.0 - self._part(stores, coming)))
        found = {}
        for stream in self.streams:
            rows = self.rows_of(stores, stream)
            rest = rows - coming.get(stream, 0)
            if stores[stream].claimed > rest:
                found[stream] = stores[stream].claimed - max(0, int(min(rows - int(rows * spare), rest)))
        return found

    def _part(self, stores: Stores, rows: Rooms) -> float:
        """How much of the pool so many rows of each stream take."""
        return sum(count / self.rows_of(stores, stream) for stream, count in rows.items())

    def _from_one_pool(self, stores: Stores, allowed: float) -> dict[str, int]:
        """The lowest of all streams. Where streams tie, each gives in proportion to what it has there."""
        each = np.array([1.0 / self.rows_of(stores, stream) for stream in self.streams])
        over = self._part(stores, {stream: stores[stream].claimed for stream in self.streams}) - allowed
        if over <= ROUNDING:
            return {}
        sizes = np.stack([stores[stream].sizes for stream in self.streams]).astype(np.float64)
        # How much of the pool the rows of all streams up to each level take.
        taken = np.cumsum(each @ sizes)
        level = min(int(np.searchsorted(taken, over)), taken.size - 1)
        below = sizes[:, :level].sum(axis=1)
        before = float(taken[level - 1]) if level else 0.0
        wanted = sizes[:, level] * min(1.0, (over - before) / max(float(each @ sizes[:, level]), 1e-300))
        counts = np.floor(wanted + ROUNDING)
        for i in np.argsort(counts - wanted, kind="stable"):  # what rounding cut off most, first
            if before + each @ counts >= over - ROUNDING:
                break
            counts[i] = min(counts[i] + 1, sizes[i, level])
        counts += below
        return {stream: int(count) for stream, count in zip(self.streams, counts, strict=True) if count > 0}


def enough_for(rows: int, streams: int) -> int:
    """The rows of a bound by which windows that hold so many lose none: beside them there is room for the pieces that
    come before others have left."""
    return max(rows + streams, ceil(rows / (1 - 2 * PIECE)))


def least_size(stores: Stores) -> int:
    """The bytes that two rows of each stream take: one that is kept, and one that comes."""
    return 2 * sum(int(store.bytes_per_row) + 1 for store in stores.values())


def check_size(memory: Memory, stores: Stores) -> None:
    """How large rows are only the stores know."""
    least = least_size(stores)
    if memory.size is not None and memory.size < least:
        whole = memory.whole
        told = f"option memory = {memory.text!r}" if whole is None else f"{memory.text}, its part of {whole.text!r},"
        raise OptionError(
            f"{told} is too little: a row of each stream that is kept, and one that comes, take {least} bytes",
            hint=f"write memory = '{least} bytes' or more" if whole is None else "SET more memory for the script",
            option="memory",
        )
