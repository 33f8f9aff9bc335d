"""Whether processing keeps up with the clock, and for how many rows there is time.

Event time is taken to go as fast as the clock on the wall. The lag is how much longer the wall clock has run since the
first row than event time has: a replay that is faster than the clock is never behind.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from statistics import median

from watersmeet.model.time import BEGINNING_US
from watersmeet.operators.contract import Rows

# A row costs what it did in the median of so many pieces: one that waits for a compiler or a disk does not count.
PIECES = 15
SECOND_US = 1_000_000


class Pace:
    """Times of the wall clock are in seconds."""

    def __init__(self, max_lag_us: int) -> None:
        self.max_lag_us = max_lag_us
        self.began: tuple[float, int] | None = None
        self.newest_us = BEGINNING_US
        self.in_hand = 0
        self.warm = False
        self.costs: deque[float] = deque(maxlen=PIECES)

    def expect(self, now: float, batch: Iterable[Rows]) -> None:
        """These rows have come, and will be worked on in pieces. They cannot be answered before they are here, so
        event time is where the newest of them is."""
        times = [rows.times for rows in batch if len(rows)]
        if not times:
            return
        if self.began is None:
            self.began = now, min(int(some.min()) for some in times)
        self.in_hand = sum(some.size for some in times)
        self.newest_us = max(self.newest_us, *(int(some.max()) for some in times))

    def lag_us(self, now: float) -> float:
        if self.began is None:
            return 0.0
        wall, event_us = self.began
        return (now - wall) * SECOND_US - (self.newest_us - event_us)

    @property
    def cost(self) -> float | None:
        """Seconds for a row, or None while nothing is known of it."""
        return median(self.costs) if self.costs else None

    def share(self, now: float) -> float:
        """The share of the rows in hand that there is time for."""
        left_us = self.max_lag_us - self.lag_us(now)
        if left_us <= 0:
            return 0.0
        if not self.cost:
            return 1.0
        return min(1.0, left_us / SECOND_US / (self.cost * max(self.in_hand, 1)))

    def worked(self, seconds: float, rows: int, share: float) -> None:
        """A piece of so many rows is done, of which a share was let in. The very first compiles and tells nothing."""
        self.in_hand = max(self.in_hand - rows, 0)
        if share > 0 and rows:
            if self.warm:
                self.costs.append(seconds / (rows * share))
            self.warm = True
