"""From records to the rows of a stream: what their value holds, what Kafka knows of them, and which cannot be read."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.io.connectors.bad_reasons import NULL_TIME
from watersmeet.io.connectors.contract import BAD_RECORDS, SourceBatch
from watersmeet.io.connectors.kafka.decoding.contract import Bad, Decoded, Decoder
from watersmeet.io.connectors.kafka.records import Records


@dataclass(frozen=True)
class RowMaker:
    """`schema`: the columns of the stream. `time`: the column of the event time, NULL in which makes a record bad if
    `refuses_nulls`."""

    stream: str
    schema: pa.Schema
    decoder: Decoder
    time: str | None = None
    refuses_nulls: bool = True

    def batch(self, records: Records) -> SourceBatch:
        decoded = self._with_times(self.decoder.decode(records))
        rows, places = decoded.rows, decoded.places
        whole = len(places) == len(records)
        columns = [
            rows.column(field.name) if field.name in rows.schema.names else _taken(records.column(field), places, whole)
            for field in self.schema
        ]
        return SourceBatch(pa.RecordBatch.from_arrays(columns, schema=self.schema), self._bad(records, decoded.bad))

    def _with_times(self, decoded: Decoded) -> Decoded:
        if self.time is None or self.time not in decoded.rows.schema.names or not self.refuses_nulls:
            return decoded
        times = decoded.rows.column(self.time)
        if not times.null_count:
            return decoded
        known = times.is_valid()
        lacking = decoded.places[~known.to_numpy(zero_copy_only=False)]
        bad = [Bad(int(place), NULL_TIME, f"it has no {self.time!r}, its event time") for place in lacking]
        kept = decoded.places[known.to_numpy(zero_copy_only=False)]
        return Decoded(decoded.rows.filter(known), kept, sorted([*decoded.bad, *bad], key=lambda one: one.place))

    def _bad(self, records: Records, bad: list[Bad]) -> pa.RecordBatch | None:
        if not bad:
            return None
        offsets, values = records.offsets, records.values
        return pa.RecordBatch.from_arrays(
            [
                pa.array([self.stream] * len(bad), pa.string()),
                pa.array([one.reason for one in bad], pa.string()),
                pa.array([one.detail for one in bad], pa.string()),
                pa.array([records.topic] * len(bad), pa.string()),
                pa.array([records.partition] * len(bad), pa.int32()),
                offsets.take(pa.array([one.place for one in bad], pa.int64())),
                pa.array([values[one.place] for one in bad], pa.binary()),
            ],
            schema=BAD_RECORDS,
        )


def _taken(column: pa.Array, places: np.ndarray, whole: bool) -> pa.Array:
    return column if whole else column.take(pa.array(places))
