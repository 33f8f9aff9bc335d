"""Late rows that go to a sink, on Spark: found with all their columns, beside the rows that are joined.

Where rows are packed nobody knows which are late, and what is joined lacks the columns that the query does not read. So
of a stream that keeps its late rows all rows travel once more, as they are, to any one bucket: as all clocks say the
same, each can tell which of them are late. Those go on to the driver with the watermark that they missed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.hosts.spark.exchange.bad_records import STREAM
from watersmeet.hosts.spark.exchange.messages import MaybeLate
from watersmeet.hosts.spark.packets import from_packet, to_packet
from watersmeet.io.conform import enter
from watersmeet.model.catalog import Stream
from watersmeet.model.time import normalize_time_column, times_of

WATERMARK = b"watermark_us"


def maybe_late_packet(stream: Stream, group: Sequence[pa.RecordBatch]) -> bytes:
    """Rows as they came, with all columns."""
    names = stream.schema.names
    batches = [enter(batch.select(names), stream.schema, stream) for batch in group]
    return to_packet(batches, stream.schema.with_metadata({STREAM: stream.name.encode()}))


@dataclass(frozen=True)
class LateFound:
    """Late rows of a stream, and the event time of the oldest."""

    stream: Stream
    rows: pa.RecordBatch
    oldest_us: int

    def packet(self, watermark_us: int) -> bytes:
        metadata = {STREAM: self.stream.name.encode(), WATERMARK: str(watermark_us).encode()}
        return to_packet([self.rows], self.stream.schema.with_metadata(metadata))


def late_among(streams: Iterable[Stream], found: Iterable[MaybeLate], watermark_us: int) -> Iterator[LateFound]:
    """What is late of such rows; each packet is of one stream."""
    known = {one.name: one for one in streams}
    for one in found:
        for batch in from_packet(one.packet):
            stream = known[batch.schema.metadata[STREAM].decode()]
            times = times_of(normalize_time_column(batch.column(stream.time)))
            late = np.flatnonzero(times < watermark_us)
            if late.size:
                yield LateFound(stream, batch.take(pa.array(late)), int(times[late].min()))


def missed_watermark_us(records: pa.RecordBatch) -> int | None:
    """The watermark that rows beside the answers missed; None if they are no late rows."""
    watermark = (records.schema.metadata or {}).get(WATERMARK)
    return None if watermark is None else int(watermark)
