"""What several threads wait for, which knows whether any does: to tell nobody would take four calls."""

from __future__ import annotations

from threading import Condition


class News(Condition):
    """Whoever calls these methods holds its lock."""

    waiting = 0  # how many threads

    def wait(self, timeout: float | None = None) -> bool:
        self.waiting += 1
        try:
            return super().wait(timeout)
        finally:
            self.waiting -= 1

    def tell(self) -> None:
        """All who wait look again."""
        if self.waiting:
            self.notify_all()
