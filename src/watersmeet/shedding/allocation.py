"""Who must give up memory: each stream within its own share, or all streams in one pool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from watersmeet.plan.memory import Memory
from watersmeet.shedding.kernels.queue import SIZE
from watersmeet.shedding.store import SheddingStore

Stores = Mapping[str, SheddingStore]

# Rows that have just come and wait for the other streams may take this much of the memory beside the bound.
FRESH_SHARE = 1 / 16


class Allocation:
    """`fixed` gives every stream an equal share, `variable` one pool to all of them."""

    def __init__(self, memory: Memory, kind: str, streams: Sequence[str], beside: float = 0.0) -> None:
        """beside: bytes that are taken for each row, outside its store."""
        self.memory = memory
        self.own: Mapping[str, Memory] = {}  # what single streams may keep, where that is not the same for all
        self.beside = beside
        self.fixed = kind == "fixed"
        self.streams = tuple(streams)

    def rows_of(self, stores: Stores, stream: str) -> int:
        """How many rows a stream may keep, if it were alone in its share or in the pool."""
        own = self.own.get(stream, self.memory)
        share = 1 / len(self.streams) if self.fixed and stream not in self.own else 1.0
        if own.size is not None:
            each = stores[stream].bytes_per_row + self.beside
            return max(1, int(own.size * share / (1 + FRESH_SHARE) / each))
        assert own.rows is not None
        if share == 1.0:
            return own.rows
        each, left = divmod(own.rows, len(self.streams))
        return each + (self.streams.index(stream) < left)

    def fresh_rows(self, stores: Stores, stream: str) -> int:
        """How many rows of a stream may be fresh at a time."""
        share = 1 if self.fixed else len(self.streams)
        return max(1, int(self.rows_of(stores, stream) * FRESH_SHARE) // share)

    def victims(self, stores: Stores) -> dict[str, int]:
        """How many rows of each stream must go now."""
        if self.fixed:
            over = {stream: stores[stream].queued - self.rows_of(stores, stream) for stream in self.streams}
            return {stream: count for stream, count in over.items() if count > 0}
        return self._from_one_pool(stores)

    def _from_one_pool(self, stores: Stores) -> dict[str, int]:
        """The lowest of all streams. Where streams tie, each gives in proportion to what it has there."""
        each = [1.0 / self.rows_of(stores, stream) for stream in self.streams]
        queued = np.array([stores[stream].queued for stream in self.streams], np.float64)
        over = float(queued @ each) - 1.0
        if over <= 1e-9:
            return {}
        sizes = np.stack([stores[stream].lists[:, SIZE] for stream in self.streams]).astype(np.float64)
        taken = np.cumsum(each @ sizes)
        level = int(np.searchsorted(taken, over))
        below = sizes[:, :level].sum(axis=1)
        before = float(taken[level - 1]) if level else 0.0
        share = min(1.0, (over - before) / max(float(each @ sizes[:, level]), 1e-300))
        counts = below + np.ceil(sizes[:, level] * share - 1e-9)
        return {stream: int(count) for stream, count in zip(self.streams, counts, strict=True) if count > 0}
