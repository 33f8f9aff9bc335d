"""What was lost, when no record of the rows that went is kept: counts by key and pane of time.

For a join of two streams on keys within time windows. A window covers whole panes, whose rows count fully, and at its
edge a part of one, whose rows may or may not match: so the losses are known within bounds. The bounds hold if rows
come in the order of their times, and up to equal hashes of different keys.
"""

from __future__ import annotations

import numpy as np

from watersmeet.dataclass import dataclass
from watersmeet.errors import OptionError
from watersmeet.model.time import FOREVER_US, Times
from watersmeet.operators.codes import Codes
from watersmeet.operators.contract import Positions
from watersmeet.operators.join.program import CodePositions
from watersmeet.operators.join.window_store import WindowStore
from watersmeet.operators.keeping.kernels import panes as kernel
from watersmeet.operators.keeping.online_statistics import shared_keys
from watersmeet.physical.strategy import JoinStrategy

PANES = 16  # in the longest time that a row is kept
ENTRIES_PER_ROW = 0.5
MIN_BITS, MAX_BITS = 12, 18


@dataclass(frozen=True)
class Losses:
    """At least, at most, and about how many results were lost."""

    low: int = 0
    high: int = 0
    about: int = 0


class PaneCounts:
    """The rows that went from one stream, as the other meets them."""

    STATE = ("keys", "seen", "counts", "others", "state", "found")

    def __init__(
        self, own: tuple[int, ...], theirs: tuple[int, ...], life_us: int, reach_us: tuple[int, int], rows: int
    ) -> None:
        """own, theirs: the columns of codes that make the key in this stream and the other. reach_us: how much earlier
        and later than a row of the other stream one of this may be. rows: how many rows of this stream have memory;
        there is room for about as many keys."""
        self.own, self.theirs = np.array(own, np.int64), np.array(theirs, np.int64)
        self.reach_us = reach_us
        self.pane_us = max(1, -(-life_us // PANES))
        size = 1 << int(np.clip(int(ENTRIES_PER_ROW * rows).bit_length(), MIN_BITS, MAX_BITS))
        self.keys = np.zeros(size, np.int64)
        self.seen = np.full(size, kernel.NEVER, np.int64)
        self.counts = np.zeros((size, PANES + 2), np.uint32)
        self.others = np.zeros(PANES + 2, np.int64)
        self.state = np.full(1, kernel.NEVER, np.int64)
        self.found = np.zeros(3)

    @property
    def nbytes(self) -> int:
        return int(self.keys.nbytes + self.seen.nbytes + self.counts.nbytes)

    @staticmethod
    def bytes_per_row() -> float:
        """What the counts take for each row of the stream that has memory."""
        # Sizes are powers of two, so a table is one and a half times as large as asked for, on average.
        return 1.5 * ENTRIES_PER_ROW * (8 + 8 + 4 * (PANES + 2))

    @property
    def losses(self) -> Losses:
        """Rows of keys that found no entry are in the upper bound only: they may match anything."""
        low, high, about = self.found
        return Losses(int(low), int(high), round(float(about)))

    def add(self, store: WindowStore, positions: Positions) -> None:
        """Rows of the stream have gone."""
        kernel.add_rows(store.codes, self.own, store.times, positions, self.pane_us, *self._table)

    def meet(self, codes: Codes, times: Times) -> None:
        """New rows of the other stream have come."""
        kernel.matches(codes, self.theirs, times, *self.reach_us, self.pane_us, *self._table, self.found)

    @property
    def _table(self) -> tuple[np.ndarray, ...]:
        return self.keys, self.seen, self.counts, self.others, self.state


def pane_counts(strategy: JoinStrategy, positions: CodePositions, rows: int) -> dict[str, PaneCounts]:
    """The counts for both streams of a join, if they can tell its losses."""
    join = strategy.join
    streams = [one.alias for one in join.streams]
    pairs = shared_keys(streams, strategy.equalities, positions)
    plain = len(join.inputs) == 2 and len(streams) == 2 and pairs
    timed = all(join.retention_us(alias) < FOREVER_US for alias in streams)
    if not (plain and timed) or strategy.comparisons or strategy.residuals or len(join.windows.alternatives) > 1:
        raise OptionError(
            "option recall = 'panes' counts losses by key and time, which tells them for two streams joined on keys "
            "within time windows, and this join is not of that kind",
            hint="write recall = 'exact', which keeps the time and keys of every row, or recall = 'none'",
            option="recall",
        )
    windows = join.windows
    index = {alias: windows.streams.index(alias) for alias in streams}
    made = {}
    for u, v in pairs:
        reach = windows.limits[index[u]][index[v]], windows.limits[index[v]][index[u]]
        own, theirs = pairs[u, v]
        made[u] = PaneCounts(own, theirs, join.retention_us(u) + 1, reach, rows)
    return made
