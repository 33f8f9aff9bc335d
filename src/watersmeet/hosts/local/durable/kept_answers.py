"""Answers that wait in memory until somebody takes them. They count as given once they are taken: until then no state
is saved behind them, so a later life answers them again. What was taken by the end of a run is noted there."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from threading import Condition
from time import monotonic

import pyarrow as pa

from watersmeet.io.connectors.contract import NumberedSink

LOOK_S = 0.1  # how often it is asked whether a run has ended meanwhile


class NotTaken(Exception):  # noqa: N818 (nothing is wrong)
    """A run ended while answers waited."""


class KeptAnswers(NumberedSink):
    """Also the numbered sink of its run, which has what was taken."""

    def __init__(self, max_waiting: int) -> None:
        self._max_waiting = max_waiting
        self._changed = Condition()
        self._ready: deque[tuple[int, pa.RecordBatch]] = deque()
        self.rows = 0
        self._bounded = False
        self._ending = False
        self._last = -1  # the last batch that gave answers

    @property
    def taken_number(self) -> int:
        """Up to this batch all answers were taken."""
        with self._changed:
            return self._ready[0][0] - 1 if self._ready else self._last

    def bound(self) -> None:
        """From now on so many wait at most: what a restart repeats comes before anybody can take it."""
        self._bounded = True

    def end(self) -> None:
        """Nobody waits here any more; what is here can still be taken."""
        with self._changed:
            self._ending = True
            self._changed.notify_all()

    # ---- from the run -----------------------------------------------------------------------------------------------

    def add(self, number: int, batches: Sequence[pa.RecordBatch]) -> None:
        """Take the answers of a batch; waits while as many as may wait do."""
        with self._changed:
            while self._bounded and self.rows >= self._max_waiting and not self._ending:
                self._changed.wait()
            for batch in batches:
                if batch.num_rows:
                    self._ready.append((number, batch))
                    self._last = number
                    self.rows += batch.num_rows
            self._changed.notify_all()

    def committed(self) -> int:
        return -1

    def commit(self, number: int, rows: Sequence[pa.RecordBatch]) -> None:
        """Return when all up to a batch was taken."""
        with self._changed:
            while self._ready and self._ready[0][0] <= number:
                if self._ending:
                    raise NotTaken
                self._changed.wait()

    # ---- to whoever takes -------------------------------------------------------------------------------------------

    def next(self, has_ended: Callable[[], bool]) -> pa.RecordBatch | None:
        """The next answers, waited for; None at the end."""
        with self._changed:
            self._wait(has_ended, None)
            return self._first() if self._ready else None

    def all(self, has_ended: Callable[[], bool], timeout: float) -> list[pa.RecordBatch]:
        """What is here; waits so long, at most, for something."""
        with self._changed:
            self._wait(has_ended, monotonic() + timeout)
            return [self._first() for _ in range(len(self._ready))]

    def _first(self) -> pa.RecordBatch:
        _, batch = self._ready.popleft()
        self.rows -= batch.num_rows
        self._changed.notify_all()
        return batch

    def _wait(self, has_ended: Callable[[], bool], until_s: float | None) -> None:
        while not self._ready and not has_ended():
            left_s = LOOK_S if until_s is None else min(until_s - monotonic(), LOOK_S)
            if left_s <= 0:
                return
            self._changed.wait(left_s)
