"""The reader that a connector brings itself, held to the contract as its source is."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa

from watersmeet.errors import SourceError
from watersmeet.io.connectors.contract import Lot, Piece, Position, Range, Reader, as_piece
from watersmeet.io.connectors.guarded import GuardedSource

_NEEDED = ("poll", "again", "position_after", "resume", "close")


class GuardedReader:
    """What a reader may have besides the contract's calls is passed on as it is."""

    def __init__(self, source: GuardedSource, reader: Reader) -> None:
        missing = [name for name in _NEEDED if not callable(getattr(reader, name, None))]
        if missing:
            raise SourceError(
                f"connector {source.connector!r}: reader() gave a {type(reader).__name__} without "
                f"{', '.join(missing)}()"
            )
        self._source, self._reader = source, reader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)

    @property
    def tell(self) -> Callable[[Warning], None]:
        return self._reader.tell

    @tell.setter
    def tell(self, tell: Callable[[Warning], None]) -> None:
        self._reader.tell = tell

    def poll(self, most_rows: int) -> Piece | None:
        with self._source.called("poll() of its reader"):
            piece = self._reader.poll(most_rows)
        if piece is None:
            return None
        if not isinstance(piece, Piece):
            raise self._breaks("poll()", f"gave a {type(piece).__name__}, not a Piece")
        checked = self._checked(piece)
        try:
            json.dumps(piece.range)
        except (TypeError, ValueError):
            raise self._breaks("poll()", f"gave a range that is no JSON: {piece.range!r:.100}") from None
        return checked

    def again(self, range: Range) -> Piece:
        with self._source.called("again() of its reader"):
            found = self._reader.again(range)
        if not isinstance(found, Piece | pa.RecordBatch):
            raise self._breaks("again()", f"gave a {type(found).__name__}, not a Piece or RecordBatch")
        return self._checked(as_piece(found, range))

    def position_after(self, range: Range) -> Position:
        with self._source.called("position_after() of its reader"):
            return self._reader.position_after(range)

    def resume(self, position: Position) -> None:
        with self._source.called("resume() of its reader"):
            self._reader.resume(position)

    def close(self) -> None:
        with self._source.called("close() of its reader"):
            self._reader.close()

    def _checked(self, piece: Piece) -> Piece:
        lot = self._source.checked(Lot(piece.rows, piece.bad), "the reader")
        return piece if lot.rows is piece.rows else replace(piece, rows=lot.rows)

    def _breaks(self, call: str, what: str) -> SourceError:
        return SourceError(f"connector {self._source.connector!r}: {call} of its reader {what}")
