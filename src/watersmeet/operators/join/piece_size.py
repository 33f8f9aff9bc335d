"""How many rows of a stream are best joined at a time, where streams are read one after the other.

While one stream is read, the others lie ahead of it by up to a piece. A walk along a chain of equal keys, from new to
old, passes over what is ahead: so in windows that are short against a piece it is the piece that a walk costs, not the
window. Shorter pieces cost more calls. If a share f of all rows has the key of a chain, a piece of P rows costs each
row P f for what is passed over and 1 / P for the calls, which is least where P goes by 1 / sqrt(f). Pieces need not be
shorter than some windows, as walks are then about as long as they must be.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, sqrt

import numpy as np

from watersmeet.model.time import FOREVER_US
from watersmeet.operators.join.window_store import WindowStore

AT_FIRST = 4096
# As measured: a call takes as long as it takes to pass over some 100,000 rows.
ROWS_FOR_ONE_KEY = 500
WINDOWS = 4
SAMPLED = 512
LEAST_SAMPLED = 64
LOOKED_AT_EVERY = 16  # pieces
LONGEST = 1 << 16  # hosts do not read more at once


class PieceSize:
    """Goes by the rows that the stores hold, so the same rows give the same pieces."""

    def __init__(self, stores: Mapping[str, WindowStore], kept_us: Mapping[str, int]) -> None:
        """kept_us: how long rows of each stream matter."""
        self.stores, self.kept_us = stores, kept_us
        self._rows: int | None = AT_FIRST
        self._asked = 0

    def rows(self) -> int | None:
        """None: any number."""
        if self._asked % LOOKED_AT_EVERY == 0 or self._rows == AT_FIRST:
            self._rows = self._best()
        self._asked += 1
        return self._rows

    def _best(self) -> int | None:
        chained = {alias: store for alias, store in self.stores.items() if store.hash_indexes and alias in self.kept_us}
        if not chained:
            return None
        sizes = [self._best_for(store, self.kept_us[alias]) for alias, store in chained.items() if len(store)]
        best = min(sizes, default=AT_FIRST)
        return None if best >= LONGEST else best

    def _best_for(self, store: WindowStore, kept_us: int) -> int:
        if len(store) < LEAST_SAMPLED:
            return AT_FIRST
        times = store.live_times
        span_us = max(int(times[-1]) - int(times[0]), 1)
        in_window = len(store) * min(1.0, kept_us / span_us) if kept_us < FOREVER_US else len(store)
        alike = max(_share_alike(store, key) for key in store.hash_indexes)
        by_keys = ROWS_FOR_ONE_KEY / sqrt(alike) if alike else LONGEST
        return ceil(min(max(by_keys, WINDOWS * in_window), LONGEST))


def _share_alike(store: WindowStore, key: tuple[int, ...]) -> float:
    """How likely two rows of a store have the same key, from some at equal distances."""
    count = min(len(store), SAMPLED)
    positions = np.linspace(store.tail, store.head - 1, count).astype(np.int64)
    codes = store.codes[key[0], positions] if len(key) == 1 else store.codes[list(key)][:, positions]
    _, often = np.unique(codes, axis=-1, return_counts=True)
    return float((often * (often - 1)).sum()) / (count * (count - 1))
