"""The reader of a stream, by what its rows come from."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise

import pyarrow as pa

from watersmeet.errors import SourceError, WatersmeetError
from watersmeet.io.conform import enter
from watersmeet.io.connectors.connected_source import ConnectedSource
from watersmeet.io.connectors.contract import (
    PAUSE_S,
    Piece,
    Position,
    Range,
    Reader,
    as_piece,
    changed_files_of,
    lag_of,
    untold,
)
from watersmeet.io.connectors.folder_reader import FolderReader
from watersmeet.io.connectors.history import HistoryThenLive
from watersmeet.io.connectors.offset_reader import reader_of_lanes
from watersmeet.io.connectors.pace import Pace
from watersmeet.io.files import FileSource
from watersmeet.io.sources import TableSource
from watersmeet.model.catalog import Stream


class TableReader:
    """Rows in memory, which are the same whenever they are made again; a range is from one row to another."""

    def __init__(self, source: TableSource) -> None:
        self.tell: Callable[[Warning], None] = untold
        self._source = source
        self._row = 0

    def poll(self, most_rows: int) -> Piece | None:
        start, end = self._row, min(self._row + most_rows, self._source.table.num_rows)
        return None if start == end else Piece(self.again([start, end]), [start, end])

    def again(self, range: Range) -> pa.RecordBatch:
        start, end = range
        some = TableSource(self._source.table.slice(start, end - start).combine_chunks(), self._source.schema)
        self._row = end
        return next(some.batches(end - start))

    def position_after(self, range: Range) -> Position:
        return range[1]

    def resume(self, position: Position) -> None:
        self._row = position

    def close(self) -> None:
        pass


class EnteringReader:
    """Another's rows as a query sees them: its columns, with event times that are read."""

    def __init__(self, reader: Reader, source: ConnectedSource, stream: Stream) -> None:
        self._reader, self._source, self._stream = reader, source.telling(stream, None), stream
        kind = "files of an address" if source.laned.connector == "files" else source.laned.connector
        self.kind = f"a history, then {kind}" if isinstance(source.laned.inner, HistoryThenLive) else kind
        self._is_first = True
        self._pace = Pace(stream, reader)
        self._poll_together: Callable[[int], list[Piece]] | None = getattr(reader, "poll_together", None)
        self._ready: deque[Piece] = deque()

    @property
    def tell(self) -> Callable[[Warning], None]:
        return self._reader.tell

    @tell.setter
    def tell(self, tell: Callable[[Warning], None]) -> None:
        self._reader.tell = tell

    @property
    def pause_s(self) -> float:
        return float(getattr(self._reader, "pause_s", PAUSE_S))

    @property
    def is_behind(self) -> bool | None:
        return True if self._ready else getattr(self._reader, "is_behind", None)

    @property
    def changed_files(self) -> int:
        return changed_files_of(self._reader)

    def lag(self) -> dict[str, int]:
        return lag_of(self._reader)

    def first_position(self) -> Position | None:
        begins = getattr(self._reader, "first_position", None)
        return None if begins is None else begins()

    def poll(self, most_rows: int) -> Piece | None:
        if not self._ready:
            self._ready.extend(self._polled(most_rows))
        if not self._ready:
            return None
        entered = self._ready.popleft()
        self._pace.came(entered)
        return entered

    def _polled(self, most_rows: int) -> list[Piece]:
        if self._poll_together is None:
            piece = self._reader.poll(most_rows)
            return [] if piece is None else [self._entered(piece)]
        pieces = self._poll_together(most_rows)
        return self._entered_together(pieces) or [self._entered(piece) for piece in pieces]

    def _entered_together(self, pieces: Sequence[Piece]) -> list[Piece]:
        """The rows of several pieces made at once; none if some of them are not as they should be."""
        if len(pieces) < 2 or any(piece.bad is not None for piece in pieces):
            return []
        given = pa.concat_batches([piece.rows for piece in pieces])
        try:
            made, bad = self._source.readable(given)
            if bad is not None or made.num_rows != given.num_rows:
                return []
            rows = enter(made, self._stream.given_schema, self._stream)
        except WatersmeetError:
            return []  # one of them is to tell it
        self._doubt(made)
        ends = list(accumulate(piece.rows.num_rows for piece in pieces))
        return [
            replace(piece, rows=rows.slice(begin, end - begin))
            for piece, (begin, end) in zip(pieces, pairwise([0, *ends]), strict=True)
        ]

    def _doubt(self, made: pa.RecordBatch) -> None:
        if self._is_first and made.num_rows:
            self._is_first = False
            self._source.doubt(made)

    def again(self, range: Range) -> pa.RecordBatch | Piece:
        self._ready.clear()
        return self._entered(as_piece(self._reader.again(range), range))

    def position_after(self, range: Range) -> Position:
        return self._reader.position_after(range)

    def resume(self, position: Position) -> None:
        self._ready.clear()
        self._reader.resume(position)

    def close(self) -> None:
        self._reader.close()

    def _entered(self, piece: Piece) -> Piece:
        made, bad = self._source.readable(piece.rows)
        self._doubt(made)
        told = [one for one in (piece.bad, bad) if one is not None]
        rows = enter(made, self._stream.given_schema, self._stream)
        return replace(piece, rows=rows, bad=pa.concat_batches(told) if told else None)


def _connected(source: ConnectedSource, stream: Stream) -> Reader:
    in_step = stream.arrival.max_drift_us is not None
    return EnteringReader(reader_of_lanes(source.laned, in_step=in_step), source, stream)


def kind_of(reader: Reader) -> str | None:
    """The kind of what a reader reads, in words: places in one are none in another. None if it does not say."""
    if isinstance(reader, EnteringReader):
        return reader.kind
    kinds = {FolderReader: "files of a path", TableReader: "rows at hand"}
    return next((words for kind, words in kinds.items() if isinstance(reader, kind)), None)


def reader_of(stream: Stream) -> Reader:
    source = stream.source
    if isinstance(source, ConnectedSource):
        return _connected(source, stream)
    if isinstance(source, FileSource):
        return FolderReader(source.tolerant(stream), source.where)
    if isinstance(source, TableSource):
        return TableReader(source)
    if source is None:
        raise SourceError(
            f"stream {stream.name!r} has nothing to be read from",
            hint="add path = '…' to its WITH (…); rows can be pushed into it with watersmeet serve, or from Python",
        )
    raise SourceError(
        f"stream {stream.name!r} cannot be read again ({source.description}), so no run can go on with it after a stop",
        hint="give files, or push the rows: what was pushed is kept",
    )
