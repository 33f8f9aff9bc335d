"""How far the lanes of a stream are in event time, so that the one that is furthest behind is read next."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.io.connectors.contract import Piece, Reader
from watersmeet.model.catalog import Stream


class Pace:
    """Tells a reader in which order to read lanes, where the stream says how far they may drift apart: then they are as
    close to each other as what is read at a time allows."""

    def __init__(self, stream: Stream, reader: Reader) -> None:
        keeps: Callable[[Sequence[str]], None] | None = getattr(reader, "keep_step", None)
        self._keeps = keeps if stream.arrival.max_drift_us is not None else None
        self._time = stream.time
        self._newest: dict[str, int] = {}
        if self._keeps is not None:
            self._keeps(())

    def came(self, piece: Piece) -> None:
        if self._keeps is None or not piece.rows.num_rows:
            return
        newest = pc.max(piece.rows.column(self._time)).cast(pa.timestamp("us"), safe=False).value
        if newest is not None:
            self._newest[piece.lane] = max(self._newest.get(piece.lane, newest), newest)
            self._keeps(sorted(self._newest, key=self._newest.__getitem__))
