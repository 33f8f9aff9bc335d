"""A stream's clock: its event times, its watermark, and which rows come too late."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from watersmeet.errors import DataError
from watersmeet.model.catalog import Stream
from watersmeet.model.time import BEGINNING_US, FOREVER_US, normalize_time_column, times_of
from watersmeet.operators.contract import Rows

# Times must leave room for windows to be added to them.
LATEST_US = FOREVER_US // 4


class StreamClock:
    """Follows one stream. The watermark is the largest event time seen minus the declared lateness; a row below
    the watermark that the rows before it set is late. That does not depend on how rows are cut into batches."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.newest_us = BEGINNING_US
        self.oldest_us = FOREVER_US
        self.rows_in = 0
        self.late_rows = 0
        self.ended = False

    @property
    def watermark_us(self) -> int:
        if self.ended:
            return FOREVER_US
        return BEGINNING_US if self.newest_us == BEGINNING_US else self.newest_us - self.stream.lateness_us

    def end(self) -> None:
        self.ended = True

    def admit(self, batch: pa.RecordBatch) -> Rows:
        """The rows of a batch that are in time."""
        self.rows_in += batch.num_rows
        rows = self._timed(batch)
        if len(rows) == 0:
            return rows
        newest = np.maximum(np.maximum.accumulate(rows.times), self.newest_us)
        before = np.concatenate([[self.newest_us], newest[:-1]])
        self.newest_us = int(newest[-1])
        self.oldest_us = min(self.oldest_us, int(rows.times.min()))
        in_time = (rows.times >= before - self.stream.lateness_us) | (before == BEGINNING_US)
        if bool(in_time.all()):
            return rows
        kept = np.flatnonzero(in_time)
        self.late_rows += len(rows) - kept.size
        return rows.take(kept)

    def _timed(self, batch: pa.RecordBatch) -> Rows:
        index = batch.schema.get_field_index(self.stream.time)
        column = batch.column(index)
        if column.null_count:
            raise DataError(
                f"stream {self.stream.name!r}: the event time {self.stream.time!r} is NULL in {column.null_count} "
                f"of {batch.num_rows} rows (among rows {self.rows_in - batch.num_rows + 1} to {self.rows_in})",
                hint="every row of a stream needs an event time; filter those rows out before they enter",
            )
        try:
            normalized = normalize_time_column(column)
        except DataError as error:
            raise DataError(f"stream {self.stream.name!r}: {error.message}") from None
        data = batch if normalized is column else batch.set_column(index, self.stream.schema.field(index), normalized)
        times = times_of(normalized)
        if times.size and max(int(times.max()), -int(times.min())) > LATEST_US:
            raise DataError(f"stream {self.stream.name!r}: an event time lies beyond the years this system can count")
        return Rows(data, times)
