"""Holds rows back until the watermark has passed them, then lets them through in time order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from watersmeet.operators.codes import Mask
from watersmeet.operators.contract import Counters, Operator, Rows
from watersmeet.operators.row_windows import RowWindow


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
        self._waiting: dict[str, list[Rows]] = {alias: [] for alias in aliases}

    @property
    def counters(self) -> Counters:
        return self.inner.counters

    @property
    def window_rows(self) -> int:
        return self.inner.window_rows + sum(len(rows) for waiting in self._waiting.values() for rows in waiting)

    @property
    def state_bytes(self) -> int:
        waiting = sum(int(rows.data.nbytes) for parts in self._waiting.values() for rows in parts)
        return self.inner.state_bytes + waiting

    @property
    def oldest_waiting_us(self) -> int | None:
        """The time of the first row that waits, or None."""
        times = [int(rows.times.min()) for waiting in self._waiting.values() for rows in waiting if len(rows)]
        return min(times, default=None)

    def push(self, alias: str, rows: Rows) -> Iterator[pa.RecordBatch]:
        if len(rows):
            self._waiting[alias].append(rows)
        yield from ()

    def advance(self, watermarks: Mapping[str, int]) -> Iterator[pa.RecordBatch]:
        complete_until = min(watermarks.values())
        yield from self.inner.push_together(self._released(complete_until))
        yield from self.inner.advance(dict.fromkeys(watermarks, complete_until))

    def restore(self, log: Mapping[str, Rows], complete_until: int) -> None:
        for alias, rows in log.items():
            self._waiting[alias] = [rows] if len(rows) else []
        for _ in self.inner.push_together(self._released(complete_until), quietly=True):
            raise AssertionError("a restore gives no results")
        self.inner.restore({}, complete_until)

    def still_needed(self, alias: str, rows: Rows, complete_until: int) -> Mask:
        """Rows that wait, and of those that counted, the ones still in their ROWS window."""
        needed = self.inner.still_needed(alias, rows, complete_until)
        if alias in self.inner.row_windows:
            counted = np.flatnonzero(rows.times < complete_until)
            order = counted[np.argsort(rows.times[counted], kind="stable")]
            fresh = RowWindow(self.inner.row_windows[alias].window)
            lag_us = int(getattr(self.inner, "lag_us", 0))
            needed[order] = fresh.add(rows.take(order)).times >= complete_until - lag_us
        return needed | (rows.times >= complete_until)

    def _released(self, complete_until: int) -> dict[str, Rows]:
        ready = {alias: self._release(alias, complete_until) for alias in self._waiting}
        return {alias: rows for alias, rows in ready.items() if rows is not None}

    def _release(self, alias: str, complete_until: int) -> Rows | None:
        """The waiting rows before an instant, in time order; the others go on waiting."""
        waiting = self._waiting[alias]
        if not any(bool((rows.times < complete_until).any()) for rows in waiting):
            return None
        times = np.concatenate([rows.times for rows in waiting])
        data = pa.Table.from_batches([rows.data for rows in waiting]).combine_chunks().to_batches()[0]
        order = np.argsort(times, kind="stable")
        ready = int(np.searchsorted(times[order], complete_until))
        everything = Rows(data, times)
        later = np.sort(order[ready:])
        self._waiting[alias] = [everything.take(later)] if later.size else []
        return everything.take(order[:ready])
