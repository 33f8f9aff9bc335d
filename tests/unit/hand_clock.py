"""A clock on the wall that is moved by hand."""

from __future__ import annotations

from datetime import datetime
from queue import SimpleQueue
from typing import Any

EPOCH = datetime(1970, 1, 1)


class HandClock:
    """Whoever waits is woken when the clock is moved, and sees whether it has waited long enough."""

    def __init__(self, today: datetime = datetime(2026, 1, 1)) -> None:
        self._now_us = 1_000_000_000
        self._today_us = int((today - EPOCH).total_seconds() * 1_000_000)
        self._waiting: list[SimpleQueue[Any]] = []

    def now_us(self) -> int:
        return self._now_us

    def real_us(self) -> int:
        return self._now_us

    def today_us(self) -> int:
        return self._today_us

    def move(self, seconds: float) -> None:
        self._now_us += int(seconds * 1_000_000)
        self._today_us += int(seconds * 1_000_000)
        for queue in list(self._waiting):
            queue.put(None)

    def wait(self, events: SimpleQueue[Any], seconds: float | None) -> None:
        if seconds is not None and seconds <= 0:
            return
        if events not in self._waiting:
            self._waiting.append(events)
        events.get()
