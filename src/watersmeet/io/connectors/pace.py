"""How far the partitions of a stream are in event time, so that the one that is furthest behind is read next."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.io.connectors.contract import Reader, SourceBatch
from watersmeet.model.catalog import Stream


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
