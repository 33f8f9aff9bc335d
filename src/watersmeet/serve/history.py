"""What the numbers of a query were in the last minutes, so that a page that is opened has something to draw."""

from __future__ import annotations

from collections import deque
from typing import Any

EVERY_S = 1.0
MOST = 900


class History:
    def __init__(self) -> None:
        self._samples: deque[dict[str, Any]] = deque(maxlen=MOST)

    def add(self, sample: dict[str, Any]) -> None:
        self._samples.append(sample)

    def since(self, time_s: float) -> list[dict[str, Any]]:
        """What was noted after a time."""
        return [one for one in list(self._samples) if one["time_s"] > time_s]
