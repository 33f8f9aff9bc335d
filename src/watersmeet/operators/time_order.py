"""Holds rows back until the watermark has passed them, then lets them through in time order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from watersmeet.model.windows import RowsWindow
from watersmeet.operators.codes import Mask
from watersmeet.operators.contract import Counters, Operator, Rows
from watersmeet.operators.row_windows import RowWindow
from watersmeet.operators.waiting import Waiting


class Counting(Operator, Protocol):
    """An operator that wants the rows of all its inputs in time order and complete, as ROWS windows do."""

    @property
    def row_windows(self) -> Mapping[str, RowWindow]: ...

    def push_together(self, batch: Mapping[str, Rows], *, quietly: bool = False) -> Iterator[pa.RecordBatch]: ...


class InTimeOrder:
    """Wraps an operator with ROWS windows: which rows are the latest N at T is known when none up to T is missing.

    Rows wait until the smallest watermark is beyond their time; rows of equal time keep their arrival order.
    """

    def __init__(self, inner: Counting, aliases: Sequence[str]) -> None:
        self.inner = inner
        self.waiting = {alias: Waiting() for alias in aliases}

    @property
    def counters(self) -> Counters:
        return self.inner.counters

    @property
    def window_rows(self) -> int:
        return self.inner.window_rows + sum(len(waiting) for waiting in self.waiting.values())

    @property
    def state_bytes(self) -> int:
        return self.inner.state_bytes + sum(waiting.nbytes for waiting in self.waiting.values())

    @property
    def oldest_waiting_us(self) -> int | None:
        """The time of the first row that waits, or None."""
        times = [waiting.oldest_us for waiting in self.waiting.values()]
        return min((time for time in times if time is not None), default=None)

    def push(self, alias: str, rows: Rows) -> Iterator[pa.RecordBatch]:
        self.waiting[alias].add(rows)
        yield from ()

    def advance(self, watermarks: Mapping[str, int]) -> Iterator[pa.RecordBatch]:
        complete_until = min(watermarks.values())
        yield from self.inner.push_together(self._released(complete_until))
        yield from self.inner.advance(dict.fromkeys(watermarks, complete_until))

    def restore(self, log: Mapping[str, Rows], complete_until: int) -> None:
        for alias, rows in log.items():
            self.waiting[alias].replace(rows)
        for _ in self.inner.push_together(self._released(complete_until), quietly=True):
            raise AssertionError("a restore gives no results")
        self.inner.restore({}, complete_until)

    def still_needed(self, alias: str, rows: Rows, complete_until: int) -> Mask:
        """Rows that wait, and of those that counted, the ones still in their ROWS window."""
        if alias in self.inner.row_windows:
            lag_us = int(getattr(self.inner, "lag_us", 0))
            needed = in_row_window(self.inner.row_windows[alias].window, rows, complete_until, lag_us)
        else:
            needed = self.inner.still_needed(alias, rows, complete_until)
        return needed | (rows.times >= complete_until)

    def _released(self, complete_until: int) -> dict[str, Rows]:
        ready = {alias: waiting.release(complete_until) for alias, waiting in self.waiting.items()}
        return {alias: rows for alias, rows in ready.items() if rows is not None}


def in_row_window(window: RowsWindow, rows: Rows, complete_until: int, lag_us: int = 0) -> Mask:
    """Which of all the rows before an instant are in the window then, or were so recently."""
    inside = np.zeros(len(rows), np.bool_)
    counted = np.flatnonzero(rows.times < complete_until)
    order = counted[np.argsort(rows.times[counted], kind="stable")]
    inside[order] = RowWindow(window).add(rows.take(order)).times >= complete_until - lag_us
    return inside
