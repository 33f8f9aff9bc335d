"""The reader of a stream, by what its rows come from."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from watersmeet.errors import SourceError
from watersmeet.io.connectors.contract import Piece, Position, Range, Reader, untold
from watersmeet.io.connectors.folder_reader import FolderReader
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


def reader_of(stream: Stream) -> Reader:
    source = stream.source
    if isinstance(source, FileSource):
        return FolderReader(source, source.where)
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
