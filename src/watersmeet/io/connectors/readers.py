"""The reader of a stream, by what its rows come from."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.errors import SourceError, WatersmeetError
from watersmeet.io.bad_rows import without_bad_rows
from watersmeet.io.conform import enter
from watersmeet.io.connectors.connected_source import ConnectedSource
from watersmeet.io.connectors.contract import PartitionedSource, Position, Range, Reader, SourceBatch, all_bad
from watersmeet.io.connectors.history import HistoryThenLive
from watersmeet.io.connectors.identity import check_identity
from watersmeet.io.connectors.local_files import LocalFiles
from watersmeet.io.connectors.offset_reader import OffsetReader, reader_of_partitions
from watersmeet.io.connectors.shared_reader import SharedReader
from watersmeet.io.connectors.up_to import UpTo, lies_between
from watersmeet.io.connectors.wrapped_reader import WrappedReader
from watersmeet.io.files import FileSource
from watersmeet.io.sources import TableSource
from watersmeet.model.catalog import Stream


class TableReader(Reader):
    """Rows in memory, which are the same whenever they are made again; a range is from one row to another."""

    def __init__(self, source: TableSource, stream: Stream) -> None:
        self._source, self._stream = source, stream
        self._row = 0

    def poll(self, most_rows: int) -> SourceBatch | None:
        start, end = self._row, min(self._row + most_rows, self._source.table.num_rows)
        return None if start == end else self.again([start, end])

    def again(self, range: Range) -> SourceBatch:
        start, end = range
        some = TableSource(self._source.table.slice(start, end - start).combine_chunks(), self._source.schema)
        self._row = end
        rows, bad = without_bad_rows(
            self._stream, next(some.batches(end - start)), start, f"stream {self._stream.name}"
        )
        return SourceBatch(rows, bad, range=range)

    def position_after(self, range: Range) -> Position:
        return range[1]

    may_be_shared = True

    def place_after(self, position: Position | None, ranges: Sequence[Range]) -> Position:
        return ranges[-1][1]

    def where(self, position: Position | None) -> int:
        return position or 0

    def resume(self, position: Position) -> None:
        self._row = position


class EnteringReader(WrappedReader):
    """Another's rows as a query sees them: its columns, with event times that are read."""

    def __init__(self, reader: Reader, source: ConnectedSource, stream: Stream) -> None:
        super().__init__(reader)
        self._source, self._stream = source.telling(stream, None), stream
        connector = source.partitioned.connector
        kind = "files of an address" if connector == "files" else connector
        self.kind = f"a history, then {kind}" if isinstance(source.partitioned.inner, HistoryThenLive) else kind
        self._is_first = True
        self._pace = Pace(stream, reader)
        self._ready: deque[SourceBatch] = deque()

    @property
    def is_behind(self) -> bool | None:
        return True if self._ready else self._reader.is_behind

    def poll(self, most_rows: int) -> SourceBatch | None:
        if not self._ready:
            batches = self._reader.poll_together(most_rows)
            self._ready.extend(self._entered_together(batches) or [self._entered(one) for one in batches])
        if not self._ready:
            return None
        entered = self._ready.popleft()
        self._pace.came(entered)
        return entered

    def _entered_together(self, batches: Sequence[SourceBatch]) -> list[SourceBatch]:
        """The rows of several batches made at once; none if some of them are not as they should be."""
        if len(batches) < 2 or any(batch.bad is not None for batch in batches):
            return []
        given = pa.concat_batches([batch.rows for batch in batches])
        try:
            made, bad = self._source.readable(given)
            if bad is not None or made.num_rows != given.num_rows:
                return []
            rows = enter(made, self._stream.given_schema, self._stream)
        except WatersmeetError:
            return []  # one of them is to tell it
        self._doubt(made)
        ends = list(accumulate(batch.rows.num_rows for batch in batches))
        return [
            replace(batch, rows=rows.slice(begin, end - begin))
            for batch, (begin, end) in zip(batches, pairwise([0, *ends]), strict=True)
        ]

    def _doubt(self, made: pa.RecordBatch) -> None:
        if self._is_first and made.num_rows:
            self._is_first = False
            self._source.doubt(made)

    def again(self, range: Range) -> SourceBatch:
        self._ready.clear()
        return self._entered(self._reader.again(range))

    def resume(self, position: Position) -> None:
        self._ready.clear()
        self._reader.resume(position)

    def _entered(self, batch: SourceBatch) -> SourceBatch:
        made, bad = self._source.readable(batch.rows)
        self._doubt(made)
        rows = enter(made, self._stream.given_schema, self._stream)
        return replace(batch, rows=rows, bad=all_bad(batch.bad, bad))


def _connected(source: ConnectedSource, stream: Stream) -> Reader:
    in_step = stream.arrival.max_drift_us is not None
    return EnteringReader(reader_of_partitions(source.partitioned, in_step=in_step), source, stream)


def kind_of(reader: Reader) -> str | None:
    """The kind of what a reader reads, in words: places in one are none in another. None if it does not say."""
    if isinstance(reader, SharedReader):
        return kind_of(reader.own)
    if isinstance(reader, EnteringReader):
        return reader.kind
    kinds = {OffsetReader: "files of a path", TableReader: "rows at hand"}
    return next((words for kind, words in kinds.items() if isinstance(reader, kind)), None)


def reader_of(stream: Stream) -> Reader:
    source = stream.source
    if isinstance(source, ConnectedSource):
        return _connected(source, stream)
    if isinstance(source, FileSource):
        return OffsetReader(LocalFiles(source.name, source.where, source.format.kind, source.tolerant(stream)))
    if isinstance(source, TableSource):
        return TableReader(source, stream)
    if source is None:
        raise SourceError(
            f"stream {stream.name!r} has nothing to be read from",
            hint="add path = '…' to its WITH (…); rows can be pushed into it with watersmeet serve, or from Python",
        )
    raise SourceError(
        f"stream {stream.name!r} cannot be read again ({source.description}), so no run can go on with it after a stop",
        hint="give files, or push the rows: what was pushed is kept",
    )


TABLES_OF_LAKES = ("delta", "iceberg")  # of which a new run begins with what is in them now


def reader_up_to(stream: Stream, place: Mapping[str, Any], *, has_rows: bool) -> Reader:
    """Of what another has read of a stream, from its beginning. place: how far that came, as a reader of offsets says
    it. has_rows: whether it found any."""
    source = stream.source
    if isinstance(source, FileSource):
        files = LocalFiles(source.name, source.where, source.format.kind, source.tolerant(stream))
        return OffsetReader(_up_to(stream, files, place, has_rows=has_rows))
    if not isinstance(source, ConnectedSource):
        raise SourceError(f"what stream {stream.name!r} has brought cannot be read again from its beginning")
    if source.partitioned.connector in TABLES_OF_LAKES or isinstance(source.partitioned.inner, HistoryThenLive):
        what = "a history" if isinstance(source.partitioned.inner, HistoryThenLive) else "a table of a lake"
        raise SourceError(f"stream {stream.name!r} begins with {what}, which is not what it was when the run began")
    return EnteringReader(OffsetReader(_up_to(stream, source.partitioned, place, has_rows=has_rows)), source, stream)


def _up_to(stream: Stream, source: PartitionedSource, place: Mapping[str, Any], *, has_rows: bool) -> UpTo:
    check_identity(source, place.get("of"))
    made = UpTo(source, place)
    begin = source.begin()
    if has_rows and not lies_between(source, begin, made.last):
        raise SourceError(
            f"stream {stream.name!r} begins behind what was read of it, so that its history cannot be read again",
            hint="what can is read from where it began: of a topic, start = 'earliest' or a time",
        )
    return made


class Pace:
    """Tells a reader in which order to read partitions, where the stream says how far they may drift apart: then they
    are as close to each other as what is read at a time allows."""

    def __init__(self, stream: Stream, reader: Reader) -> None:
        self._reader = reader if stream.arrival.max_drift_us is not None and reader.keeps_step else None
        self._time = stream.time
        self._newest: dict[str, int] = {}
        if self._reader is not None:
            self._reader.keep_step(())

    def came(self, batch: SourceBatch) -> None:
        if self._reader is None or not batch.rows.num_rows:
            return
        newest = pc.max(batch.rows.column(self._time)).cast(pa.timestamp("us"), safe=False).value
        if newest is not None:
            self._newest[batch.partition] = max(self._newest.get(batch.partition, newest), newest)
            self._reader.keep_step(sorted(self._newest, key=self._newest.__getitem__))
