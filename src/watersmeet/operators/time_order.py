"""Holds rows back until the watermark has passed them, then lets them through in time order."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Iterator, Mapping, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from watersmeet.model.windows import RowsWindow
from watersmeet.operators.codes import Mask
from watersmeet.operators.contract import End, Operator, Rows, WaitingRows, Wrapper
from watersmeet.operators.keyed_state import KeyedState
from watersmeet.operators.partition_key import PartitionKey, keys_in
from watersmeet.operators.row_windows import RowWindow
from watersmeet.operators.waiting import Waiting, waiting_rows_of


class Counting(Operator):
    """An operator that wants the rows of all its inputs in time order and complete, as ROWS windows do."""

    row_windows: dict[str, RowWindow]

    @abstractmethod
    def push_together(self, batch: Mapping[str, Rows], *, quietly: bool = False) -> Iterator[pa.RecordBatch]: ...

    def moments(self, batch: Mapping[str, Rows]) -> Sequence[int]:
        """Instants up to which it should be given the rows of a batch, one after the other, before the rest."""
        return ()


class InTimeOrder(Wrapper):
    """Wraps an operator with ROWS windows: which rows are the latest N at T is known when none up to T is missing.

    Rows wait until the smallest watermark is beyond their time; rows of equal time keep their arrival order.
    """

    STATE = ("inner", "waiting")
    inner: Counting

    def __init__(self, inner: Counting, aliases: Sequence[str]) -> None:
        self.inner = inner
        self.waiting = {alias: Waiting() for alias in aliases}

    @property
    def piece_rows(self) -> int | None:
        """How many rows are pushed at a time is no matter: they wait here, and go on as time does."""
        return None

    @property
    def wake_us(self) -> int | None:
        """The time of the first row that waits, or None."""
        times = [waiting.oldest_us for waiting in self.waiting.values()]
        return min((time for time in times if time is not None), default=None)

    @property
    def kept_rows(self) -> int:
        return self.inner.kept_rows + sum(len(waiting) for waiting in self.waiting.values())

    @property
    def state_bytes(self) -> int:
        return self.inner.state_bytes + sum(waiting.nbytes for waiting in self.waiting.values())

    def waiting_rows(self) -> dict[str, WaitingRows]:
        return waiting_rows_of(self.waiting)

    def push(self, alias: str, rows: Rows) -> Iterator[pa.RecordBatch]:
        self.waiting[alias].add(rows)
        yield from ()

    def advance(self, watermarks: Mapping[str, int]) -> Iterator[pa.RecordBatch]:
        complete_until = min(watermarks.values())
        yield from self.inner.push_together(self._released(complete_until))
        # Later rows still wait here, of streams that are further too.
        yield from self.inner.advance(dict.fromkeys(watermarks, complete_until))

    def take(self, batch: Mapping[str, Rows], watermarks: Mapping[str, int]) -> Iterator[pa.RecordBatch]:
        """Rows go on as time does, in the steps that suit the operator inside."""
        for alias, rows in batch.items():
            self.waiting[alias].add(rows)
        for until_us in self.inner.moments(batch):
            yield from self.advance({alias: min(until_us, mark) for alias, mark in watermarks.items()})
        yield from self.advance(watermarks)

    def finish(self, newest_us: int) -> Generator[pa.RecordBatch, None, End]:
        yield from self.take({}, dict.fromkeys(self.waiting, newest_us + 1))
        return End(newest_us)

    def restore(self, log: Mapping[str, Rows], complete_until: int, ends: Sequence[End] = ()) -> None:
        # The whole log waits again, and what time has passed goes on at once.
        for alias, rows in log.items():
            self.waiting[alias].replace(rows)
        for _ in self.inner.push_together(self._released(complete_until), quietly=True):
            raise AssertionError("a restore gives no results")
        self.inner.restore({}, complete_until)

    def still_needed(self, alias: str, rows: Rows, complete_until: int) -> Mask:
        """Rows that wait, and of those that counted, the ones still in their ROWS window."""
        if alias in self.inner.row_windows:
            needed = in_row_window(self.inner.row_windows[alias].window, rows, complete_until, self.lag_us)
        else:
            needed = self.inner.still_needed(alias, rows, complete_until)
        return needed | (rows.times >= complete_until)

    def undivided(self, key: PartitionKey) -> str | None:
        return self.inner.undivided(key)

    def key_columns(self, key: PartitionKey) -> frozenset[str]:
        return self.inner.key_columns(key)

    def divided(self, key: PartitionKey) -> KeyedState:
        state = KeyedState()
        state.put("inner", self.inner.divided(key))
        for alias, waiting in self.waiting.items():
            # Of a stream that is spread or copied, any part may have them.
            keys_of = partial(key.codes_of, alias) if alias in key.codes else keys_in(None)
            state.put(f"waiting.{alias}", waiting.divided(keys_of))
        return state

    def take_rows_over(self, state: KeyedState) -> None:
        self.inner.take_rows_over(state.inside("inner"))
        for alias, waiting in self.waiting.items():
            waiting.take_rows_over(state.inside(f"waiting.{alias}"))

    def _released(self, complete_until: int) -> dict[str, Rows]:
        ready = {alias: waiting.release(complete_until) for alias, waiting in self.waiting.items()}
        return {alias: rows for alias, rows in ready.items() if rows is not None}


def in_row_window(window: RowsWindow, rows: Rows, complete_until: int, lag_us: int = 0) -> Mask:
    """Which of all the rows before an instant are in the window then, or were so recently."""
    inside = np.zeros(len(rows), np.bool_)
    counted = np.flatnonzero(rows.times < complete_until)
    order = counted[np.argsort(rows.times[counted], kind="stable")]
    # Only earlier rows count, so a death is before the instant or never. Who died within the lag may still be joined.
    inside[order] = RowWindow(window).add(rows.take(order)).times >= complete_until - lag_us
    return inside
