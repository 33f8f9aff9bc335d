"""Gives rows in time order where that costs no time, and otherwise as they come."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from watersmeet.model.time import BEGINNING_US, FOREVER_US
from watersmeet.operators.contract import End, Rows
from watersmeet.operators.time_order import Counting, InTimeOrder


class Unordered(Counting):
    """An operator that answers rows in any order, and must be told what may still come."""

    @abstractmethod
    def expect(self, from_us: int) -> None:
        """From here on no row before this time comes; others in any order."""


class AsTheyCome(InTimeOrder):
    """Wraps an operator that needs no order, but has less to do where there is one.

    Rows that the watermark has passed go on in time order. All others wait only while more is at hand: when a host has
    nothing more (`settle`), and at the end of a batch, they go on as well. So a stream that is silent delays nothing.
    """

    inner: Unordered

    def __init__(self, inner: Unordered, aliases: Sequence[str]) -> None:
        super().__init__(inner, aliases)
        # Nothing is proven yet. Nor is it after a load, until time goes on: then a little more is kept than must be.
        self._watermark_us = BEGINNING_US

    @property
    def wake_us(self) -> int | None:
        """Nothing waits for an instant."""
        return None

    def advance(self, watermarks: Mapping[str, int]) -> Iterator[pa.RecordBatch]:
        self._watermark_us = min(watermarks.values())
        self.inner.expect(self._watermark_us)
        yield from super().advance(watermarks)

    def settle(self) -> Iterator[pa.RecordBatch]:
        self.inner.expect(self._watermark_us)
        yield from self.inner.push_together(self._released(FOREVER_US))

    def take(self, batch: Mapping[str, Rows], watermarks: Mapping[str, int]) -> Iterator[pa.RecordBatch]:
        yield from super().take(batch, watermarks)
        yield from self.settle()

    def finish(self, newest_us: int) -> Generator[pa.RecordBatch, None, End]:
        yield from self.settle()
        return End(BEGINNING_US)

    def restore(self, log: Mapping[str, Rows], complete_until: int, ends: Sequence[End] = ()) -> None:
        # A log is of whole batches, after each of which nothing waits. None of it goes before all are back.
        self._watermark_us = complete_until
        self.inner.expect(BEGINNING_US)
        for alias, rows in log.items():
            self.waiting[alias].replace(rows)
        self.inner.restore(self._released(FOREVER_US), complete_until)


class StreamManager(AsTheyCome):
    """Whole rounds go on at once, a row of every stream in each; rows that would make a round without some stream wait
    for its row as long as more is at hand."""

    def advance(self, watermarks: Mapping[str, int]) -> Iterator[pa.RecordBatch]:
        self._watermark_us = min(watermarks.values())
        # A stream that has ended and has nothing left is asked no more.
        asked = [alias for alias, rows in self.waiting.items() if len(rows) or watermarks[alias] < FOREVER_US]
        yield from self._rounds(min((len(self.waiting[alias]) for alias in asked), default=0))
        if self._watermark_us >= FOREVER_US:
            yield from self.settle()
        yield from self.inner.advance(dict.fromkeys(watermarks, self._oldest_to_come_us))

    def settle(self) -> Iterator[pa.RecordBatch]:
        yield from self._rounds(max(map(len, self.waiting.values())))

    @property
    def _oldest_to_come_us(self) -> int:
        """Rows that wait for their turn have not come yet, as far as the join knows."""
        times = [rows.oldest_us for rows in self.waiting.values()]
        return min([self._watermark_us, *(time for time in times if time is not None)])

    def _rounds(self, count: int) -> Iterator[pa.RecordBatch]:
        if count:
            self.inner.expect(self._oldest_to_come_us)
            yield from self.inner.push_together(self._first(count))

    def _first(self, count: int) -> dict[str, Rows]:
        return {alias: rows.first(min(count, len(rows))) for alias, rows in self.waiting.items() if len(rows)}


class StreamsInOrder(StreamManager):
    """The same for an operator that needs each stream in the order of its times, whatever others have come to."""

    def push(self, alias: str, rows: Rows) -> Iterator[pa.RecordBatch]:
        yield from super().push(alias, _in_order(rows))

    def take(self, batch: Mapping[str, Rows], watermarks: Mapping[str, int]) -> Iterator[pa.RecordBatch]:
        yield from super().take({alias: _in_order(rows) for alias, rows in batch.items()}, watermarks)

    @property
    def is_kept_whole(self) -> bool:
        """How far each stream was taken is in no bounded time of rows."""
        return True

    def restore(self, log: Mapping[str, Rows], complete_until: int, ends: Sequence[End] = ()) -> None:
        raise AssertionError("what each stream has come to is kept whole")


def _in_order(rows: Rows) -> Rows:
    return rows.take(np.argsort(rows.times, kind="stable")) if np.any(np.diff(rows.times) < 0) else rows
