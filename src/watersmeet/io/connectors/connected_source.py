"""A stream whose rows lie where a connector finds them, as the engine sees them: declared columns, times that are read.

Who asks for all of it is given what is there now. Who goes on with it has a reader (see readers.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.errors import DataError
from watersmeet.io.bad_rows import OnBad, OnCounted, converted, without_bad_rows
from watersmeet.io.conform import conform
from watersmeet.io.connectors.contract import PartitionedSource, all_bad
from watersmeet.io.connectors.guarded import GuardedSource
from watersmeet.io.read_times import Place, doubt_unit, read_batch
from watersmeet.model.catalog import Stream
from watersmeet.model.time_reading import TimeReading


@dataclass(frozen=True)
class ConnectedSource:
    """`held`: the columns that are taken, as they come. `reading`: how event times are written among them."""

    name: str
    partitioned: GuardedSource
    held: pa.Schema
    reading: TimeReading | None = None
    bounded: bool = True
    at_hand: bool = True
    known_rows: int | None = None
    stream: Stream | None = None
    on_bad: OnBad | None = None
    on_handed_over: OnCounted | None = None

    def telling(self, stream: Stream, on_bad: OnBad | None, on_handed_over: OnCounted | None = None) -> ConnectedSource:
        """The same, whose records that cannot be read are handed over, or refused if nobody takes them. on_handed_over:
        hears of rows that lie on the other side of a handover."""
        return replace(self, stream=stream, on_bad=on_bad, on_handed_over=on_handed_over)

    def read_by(self, source: PartitionedSource) -> ConnectedSource:
        """The same, whose rows this gives."""
        return replace(self, partitioned=GuardedSource(self.partitioned.connector, source))

    @property
    def schema(self) -> pa.Schema:
        return self.held if self.reading is None else self.reading.shown(self.held)

    @property
    def description(self) -> str:
        return self.partitioned.description

    def made(self, rows: pa.RecordBatch, before: int | None = None) -> pa.RecordBatch:
        """Rows as they came, with the columns that are taken and their times read; so many came before them."""
        try:
            taken = conform(rows.select(self.held.names), self.held)
            return taken if self.reading is None else read_batch(taken, self.reading, Place(before))
        except DataError as error:
            raise DataError(f"stream {self.name!r}: {error.message}", hint=error.hint) from None

    def doubt(self, rows: pa.RecordBatch) -> None:
        """Say so if the first rows have times of another age than the unit that was said would give."""
        if self.reading is not None and rows.num_rows:
            doubt_unit(rows.column(self.reading.column), self.reading, self.name)

    def batches(self, max_rows: int) -> Iterator[pa.RecordBatch]:
        """What is there when it is asked for, partition after partition."""
        after = self.partitioned.begin()
        before = 0
        try:
            for split in self.partitioned.splits(after, self.partitioned.newest(after)):
                for batch in self.partitioned.read(split):
                    if batch.left_out and self.on_handed_over is not None:
                        self.on_handed_over(batch.left_out)
                    if batch.bad is not None and batch.bad.num_rows:
                        self._leave_out(batch.bad)
                    made, bad = self.readable(batch.rows, before)
                    if bad is not None:
                        self._leave_out(bad)
                    if not before:
                        self.doubt(made)
                    before += made.num_rows
                    for start in range(0, made.num_rows, max_rows):
                        yield made.slice(start, max_rows)
        finally:
            self.partitioned.close()

    def _leave_out(self, bad: pa.RecordBatch) -> None:
        if self.on_bad is None and self.stream is not None and self.stream.arrival.keeps_going:
            return  # nobody counts them: the rows are only looked at, as by `watersmeet check`
        if self.on_bad is None:
            first = bad.slice(0, 1).to_pylist()[0]
            raise DataError(f"{self.name!r} has a record that cannot be read: {first['reason']}: {first['detail']}")
        self.on_bad(bad)

    def readable(self, rows: pa.RecordBatch, before: int | None = None) -> tuple[pa.RecordBatch, pa.RecordBatch | None]:
        """`made`, without the rows whose event times cannot be read where the stream says what becomes of those."""
        if self.stream is None or not self.stream.arrival.keeps_going:
            return self.made(rows, before), None
        good, bad = converted(self.name, rows, lambda some: self.made(some), before or 0, self.description)
        made = good[0] if len(good) == 1 else pa.concat_batches(good) if good else self.made(rows.slice(0, 0))
        left, timeless = without_bad_rows(self.stream, made, before or 0, self.description)
        return left, all_bad(*bad, timeless)
