"""The clock on the wall: for how long a stream has been silent, and which rows lie in the future."""

from __future__ import annotations

import time
from queue import Empty, SimpleQueue
from typing import Any, Protocol


class WallClock(Protocol):
    """Tests move one by hand."""

    def now_us(self) -> int:
        """Microseconds since some moment; they never go back."""
        ...

    def real_us(self) -> int:
        """The same for people: also where `now_us` stands still, so that what is decided by it can be repeated."""
        ...

    def today_us(self) -> int:
        """Microseconds since 1970 in UTC."""
        ...

    def wait(self, events: SimpleQueue[Any], seconds: float | None) -> None:
        """Wait until something is in the queue, which takes it out, or so long; None: as long as it takes."""
        ...


class SystemClock:
    def now_us(self) -> int:
        return time.monotonic_ns() // 1_000

    def real_us(self) -> int:
        return self.now_us()

    def today_us(self) -> int:
        return time.time_ns() // 1_000

    def wait(self, events: SimpleQueue[Any], seconds: float | None) -> None:
        try:
            events.get(timeout=seconds)
        except Empty:
            return
