"""A clock on the wall that stands still until it is moved."""

from __future__ import annotations

from queue import SimpleQueue
from typing import Any

SECOND_US = 1_000_000


class HandClock:
    """What a run goes by to tell silence and the future."""

    def __init__(self, today_us: int) -> None:
        self._passed_us, self._began_us = 0, today_us

    def now_s(self) -> float:
        return self._passed_us / SECOND_US

    def today_us(self) -> int:
        return self._began_us + self._passed_us

    def move(self, us: int) -> None:
        self._passed_us += us

    def wait(self, events: SimpleQueue[Any], seconds: float | None) -> None:
        raise AssertionError("nobody waits by a clock that is moved by hand")
