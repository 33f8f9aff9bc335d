"""Who must give up memory: each stream within its own share, or all streams in one pool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from watersmeet.errors import OptionError
from watersmeet.operators.keeping.store import SheddingStore
from watersmeet.plan.memory import Memory

Stores = Mapping[str, SheddingStore]

# Rows go in numbers, when there is no more room for the next to come: so many that this share of the bound can come
# again. Half of those are above the bound and half below, so that there are as many as it says on average.
AT_ONCE = 1 / 16
# From so many rows of a stream on, twice as many may come at once, as a push has its price.
MANY = 8192
# By how much the bound may be exceeded, at most.
SLACK = AT_ONCE
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
        # A bound in bytes holds at every moment, also when rows are above their number; one in rows holds on average.
        return max(1, int(own.size * share / (1 + SLACK) / each))

    def fresh_rows(self, stores: Stores, stream: str) -> int:
        """How many rows of a stream may be fresh at a time, and how many may come at once."""
        rows = self.rows_of(stores, stream)
        # One pool must have room for what is fresh of all streams.
        share = 1 if self.fixed else len(self.streams)
        return max(1, int(rows * AT_ONCE * (2 if rows >= MANY else 1)) // share)

    def at_first(self, stores: Stores, stream: str) -> int:
        """How many rows of a stream should come at once as long as none had to go: no more than there is room for above
        the bound, so that windows which are just as large as the memory lose nothing."""
        return max(1, self.fresh_rows(stores, stream) - self._spared(stores, stream))

    def fits(self, stores: Stores, coming: Mapping[str, int]) -> bool:
        """Whether there is room for so many more rows of each stream."""
        kept = {stream: stores[stream].kept + coming.get(stream, 0) for stream in self.streams}
        if self.fixed:
            return all(kept[stream] <= self._low(stores, stream) + self.fresh_rows(stores, stream) for stream in kept)
        return self._part(stores, kept) <= self._low_part(stores) + self._part(
            stores, {stream: self.fresh_rows(stores, stream) for stream in kept}
        )

    def is_exceeded(self, stores: Stores) -> bool:
        """Whether there are more rows than the bound says, fresh ones included."""
        kept = {stream: stores[stream].kept for stream in self.streams}
        if self.fixed:
            return any(kept[stream] > self.rows_of(stores, stream) for stream in kept)
        return self._part(stores, kept) > 1.0 + ROUNDING

    def victims(self, stores: Stores, *, make_room: bool = True) -> dict[str, int]:
        """How many rows of each stream must go to make room for others, or else to be no more than the bound says."""
        if not self.fixed:
            return self._from_one_pool(stores, self._low_part(stores) if make_room else 1.0)
        allowed = {stream: (self._low if make_room else self.rows_of)(stores, stream) for stream in self.streams}
        over = {stream: stores[stream].kept - allowed[stream] for stream in self.streams}
        return {stream: count for stream, count in over.items() if count > 0}

    def _low(self, stores: Stores, stream: str) -> int:
        """How many rows of a stream are left when some had to go."""
        return self.rows_of(stores, stream) - self._spared(stores, stream)

    def _spared(self, stores: Stores, stream: str) -> int:
        """How many rows fewer than the bound says that is."""
        return self.fresh_rows(stores, stream) // 2

    def _part(self, stores: Stores, rows: Mapping[str, int]) -> float:
        """How much of the pool so many rows of each stream take."""
        return sum(count / self.rows_of(stores, stream) for stream, count in rows.items())

    def _low_part(self, stores: Stores) -> float:
        return 1.0 - self._part(stores, {stream: self._spared(stores, stream) for stream in self.streams})

    def _from_one_pool(self, stores: Stores, allowed: float) -> dict[str, int]:
        """The lowest of all streams. Where streams tie, each gives in proportion to what it has there."""
        each = np.array([1.0 / self.rows_of(stores, stream) for stream in self.streams])
        over = self._part(stores, {stream: stores[stream].kept for stream in self.streams}) - allowed
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


def least_size(stores: Stores) -> int:
    """The bytes that two rows of each stream take: one that is kept, and one that comes."""
    return 2 * sum(int(store.bytes_per_row) + 1 for store in stores.values())


def check_size(memory: Memory, stores: Stores) -> None:
    """How large rows are only the stores know."""
    least = least_size(stores)
    if memory.size is not None and memory.size < least:
        raise OptionError(
            f"option memory = {memory.written or str(memory)!r} is too little: a row of each stream that is "
            f"kept, and one that comes, take {least} bytes",
            hint=f"write memory = '{least} bytes' or more",
            option="memory",
        )
