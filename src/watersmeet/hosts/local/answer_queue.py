"""Answers that wait in memory until somebody takes them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from watersmeet.hosts.local.news import News
from watersmeet.operators.answers import Answer


class AnswerQueue:
    """Who puts answers in holds `changed`, which is told of all that comes and goes."""

    def __init__(self, most_rows: int, changed: News | None = None) -> None:
        """most_rows: from so many rows on it is full. changed: where others wait for more than answers, theirs."""
        self.changed = News() if changed is None else changed
        self.most_rows = most_rows
        self.rows = 0
        self.has_ended = False  # no more answers come
        self.on_ready: Callable[[], None] | None = None  # is called whenever there may be something to take
        self._ready: deque[tuple[int, Answer]] = deque()  # with the numbers of their batches

    # ---- in -------------------------------------------------------------------------------------------------------

    def put(self, answers: Iterable[Answer], number: int = 0) -> None:
        for one in answers:
            self._ready.append((number, one))
            self.rows += one.num_rows
        self.changed.tell()
        if self.on_ready is not None:
            self.on_ready()

    def end(self) -> None:
        self.has_ended = True
        self.changed.tell()
        if self.on_ready is not None:
            self.on_ready()

    # ---- out ------------------------------------------------------------------------------------------------------

    def take(self, timeout: float) -> list[Answer]:
        """All that is here; waits so long, at most, for something."""
        with self.changed:
            if timeout > 0:
                self.changed.wait_for(self._has_news, timeout)
            found = [one for _, one in self._ready]
            self._ready.clear()
            self.rows = 0
            self.changed.tell()
        return found

    def next(self, *, wait: bool = True) -> Answer | None:
        """The next answers; None at the end, or without `wait` if there are none now."""
        with self.changed:
            if wait:
                self.changed.wait_for(self._has_news)
            if not self._ready:
                return None
            _, first = self._ready.popleft()
            self.rows -= first.num_rows
            self.changed.tell()
        return first

    def _has_news(self) -> bool:
        return bool(self._ready) or self.has_ended
