"""H02's stream manager: it buffers what the streams bring, and the join takes a row of each in turn (H02 section 4.1).

A stream that has nothing answers STREAM_NO_VALUE in the paper, of which StreamScan makes a NULL record; a join that
gets one goes on with its next input and does not block. Rows go through here many at a time, so a NULL is no record
but a turn that is passed over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa

from watersmeet.model.time import FOREVER_US
from watersmeet.operators.as_they_come import AsTheyCome
from watersmeet.operators.contract import Rows


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
