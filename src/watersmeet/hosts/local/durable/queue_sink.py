"""Answers that wait in memory until somebody takes them. They count as given once they are taken: until then no state
is saved behind them, so a later life answers them again. What was taken by the end of a run is noted there."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from watersmeet.hosts.local.answer_queue import AnswerQueue
from watersmeet.io.connectors.contract import NumberedSink


class NotTaken(Exception):  # noqa: N818 (nothing is wrong)
    """A run ended while answers waited."""


class QueueSink(AnswerQueue, NumberedSink):
    """Also the numbered sink of its run, which has what was taken."""

    def __init__(self, most_rows: int) -> None:
        super().__init__(most_rows)
        self._bounded = False
        self._let_go = False
        self._last = -1  # the last batch that gave answers

    @property
    def taken_number(self) -> int:
        """Up to this batch all answers were taken."""
        with self.changed:
            return self._ready[0][0] - 1 if self._ready else self._last

    def bound(self) -> None:
        """From now on so many wait at most: what a restart repeats comes before anybody can take it."""
        self._bounded = True

    def let_go(self) -> None:
        """Nobody waits any more until answers are taken; what is here can still be."""
        with self.changed:
            self._let_go = True
            self.changed.tell()

    def ended(self) -> None:
        """No more answers come."""
        with self.changed:
            self.end()

    def add(self, number: int, batches: Sequence[pa.RecordBatch]) -> None:
        """Take the answers of a batch; waits while as many as may wait do."""
        with self.changed:
            while self._bounded and self.rows >= self.most_rows and not self._let_go:
                self.changed.wait()
            found = [batch for batch in batches if batch.num_rows]
            if found:
                self._last = number
                self.put(found, number)

    def committed(self) -> int:
        return -1

    def commit(self, number: int, rows: Sequence[pa.RecordBatch]) -> None:
        """Return when all up to a batch was taken."""
        with self.changed:
            while self._ready and self._ready[0][0] <= number:
                if self._let_go:
                    raise NotTaken
                self.changed.wait()
