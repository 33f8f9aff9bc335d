"""The clock on the wall as of the batch in hand, so that a batch that is repeated sees the same moment."""

from __future__ import annotations

import time

from watersmeet.runtime.wall_clock import SystemClock


class BatchClock(SystemClock):
    """Stands still between batches. Its seconds go on where they were before a restart: while nothing ran, nobody was
    silent."""

    STATE = ("now", "today")

    def __init__(self) -> None:
        self.now = 0.0
        self.today = 0
        self._before = 0.0
        self._started = time.monotonic()

    def go_on(self) -> None:
        """A new batch begins."""
        self.now = max(self.now, self._before + time.monotonic() - self._started)
        self.today = max(self.today, time.time_ns() // 1_000)

    def put(self, now: float, today: int) -> None:
        """A batch is repeated."""
        self.now, self.today = now, today

    def loaded(self) -> None:
        self.restarted()

    def restarted(self) -> None:
        self._before, self._started = self.now, time.monotonic()

    @property
    def real_s(self) -> float:
        """What time it is by now."""
        return self._before + time.monotonic() - self._started

    def now_us(self) -> int:
        return round(self.now * 1_000_000)

    def real_us(self) -> int:
        return round(self.real_s * 1_000_000)

    def today_us(self) -> int:
        return self.today
