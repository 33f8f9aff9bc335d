"""Raw: the value of a record is one column, as bytes or as text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.dataclass import dataclass
from watersmeet.io.connectors.bad_reasons import NOT_TEXT
from watersmeet.io.connectors.kafka.decoding.contract import Decoded, UndecodableError, sorted_out
from watersmeet.io.connectors.kafka.records import Records
from watersmeet.model.types import is_text


@dataclass(frozen=True)
class RawDecoder:
    """A record without a value is NULL there."""

    schema: pa.Schema

    def decode(self, records: Records) -> Decoded:
        kind = self.schema.field(0).type
        if not is_text(kind):
            return Decoded(self._batch(pa.array(records.values, pa.binary()).cast(kind)), np.arange(len(records)))
        marked = [b"" if one is None else one for one in records.values]
        found = sorted_out(marked, self.schema, self.rows, (NOT_TEXT, ""))
        if None not in records.values:
            return found
        there = pa.array([records.values[place] is not None for place in found.places.tolist()])
        column = found.rows.column(0)
        return Decoded(self._batch(pc.if_else(there, column, pa.scalar(None, kind))), found.places, found.bad)

    def rows(self, values: Sequence[bytes]) -> pa.RecordBatch:
        try:
            return self._batch(pa.array(values, pa.binary()).cast(self.schema.field(0).type))
        except pa.ArrowInvalid:
            raise UndecodableError(NOT_TEXT, "it is no UTF-8") from None

    def _batch(self, column: pa.Array) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([column], schema=self.schema)
