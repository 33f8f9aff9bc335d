"""Whether processing keeps up with the clock, and for how many rows there is time.

Event time is taken to go as fast as the clock on the wall. The lag is how much longer the wall clock has run since the
first row than event time has: a replay that is faster than the clock is never behind.

The share of rows to let in looks some time ahead, d: until then there come as many rows as of late, beside those in
hand, and there is time d, and what the lag is below its aim. So all streams and all pieces are treated alike, whichever
comes first. Whatever that share is, no more rows are let in than end within the lag allowed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from math import exp
from statistics import median

from watersmeet.model.time import BEGINNING_US
from watersmeet.operators.contract import Rows

# A row costs what it did in the median of so many pieces: one that waits for a compiler or a disk does not count.
PIECES = 15
# The part of the lag allowed that is aimed at when there are too many rows; the rest is for pieces of uneven cost.
AIM = 0.75
# How far to look ahead: some part of the lag allowed, further if time comes in large steps.
LEAST_AHEAD, STEPS_AHEAD = 1 / 8, 8
SECOND_US = 1_000_000


class Pace:
    """Times of the wall clock are in seconds."""

    STATE = ("began", "newest_us", "in_hand", "rows", "span_us", "steps", "first_cost", "costs")

    def __init__(self, max_lag_us: int) -> None:
        self.max_lag_us = max_lag_us
        self.began: tuple[float, int] | None = None
        self.newest_us = BEGINNING_US
        self.in_hand = 0
        self.rows = 0.0  # that came of late,
        self.span_us = 0.0  # in so much event time,
        self.steps = 0.0  # and in so many steps
        self.first_cost: float | None = None
        self.costs: deque[float] = deque(maxlen=PIECES)

    def expect(self, now: float, batch: Iterable[Rows]) -> None:
        """These rows have come, and will be worked on in pieces. They cannot be answered before they are here, so
        event time is where the newest of them is."""
        times = [rows.times for rows in batch if len(rows)]
        if not times:
            return
        if self.began is None:
            self.newest_us = min(int(some.min()) for some in times)
            self.began = now, self.newest_us
        newest_us = max(self.newest_us, *(int(some.max()) for some in times))
        self.in_hand = sum(some.size for some in times)
        # What came of late fades over as much time as is looked ahead.
        kept = exp((self.newest_us - newest_us) / self.ahead_us)
        self.steps = kept * self.steps + 1
        self.rows = kept * self.rows + self.in_hand
        self.span_us = kept * self.span_us + newest_us - self.newest_us
        self.newest_us = newest_us

    def lag_us(self, now: float) -> float:
        if self.began is None:
            return 0.0
        wall, event_us = self.began
        return (now - wall) * SECOND_US - (self.newest_us - event_us)

    @property
    def ahead_us(self) -> float:
        step_us = self.span_us / self.steps if self.steps else 0.0
        return min(max(LEAST_AHEAD * self.max_lag_us, STEPS_AHEAD * step_us), self.max_lag_us)

    @property
    def cost_us(self) -> float | None:
        """What a row takes, or None while nothing is known of it."""
        return median(self.costs) * SECOND_US if self.costs else None

    def share(self, now: float, rows: int) -> float:
        """The share to let in of a piece of so many rows."""
        lag_us, cost_us = self.lag_us(now), self.cost_us
        left_us = self.max_lag_us - lag_us
        if left_us <= 0:
            return 0.0
        if cost_us is None:
            likely_us = (self.first_cost or 0.0) * SECOND_US * rows
            return min(1.0, left_us / likely_us) if likely_us else 1.0
        if not cost_us or not self.in_hand:
            return 1.0
        ahead_us = self.ahead_us if self.span_us else 0.0
        to_come = ahead_us * self.rows / self.span_us if self.span_us else 0.0
        lasting = (AIM * self.max_lag_us - lag_us + ahead_us) / (cost_us * (self.in_hand + to_come))
        return max(0.0, min(1.0, lasting, left_us / (cost_us * self.in_hand)))

    def worked(self, seconds: float, rows: int, share: float) -> None:
        """A piece of so many rows is done, of which a share was let in. The very first may have waited for the
        compiler: what it took counts for the next one only."""
        self.in_hand = max(self.in_hand - rows, 0)
        if share > 0 and rows:
            cost = seconds / (rows * share)
            if self.first_cost is None:
                self.first_cost = cost
            else:
                self.costs.append(cost)
