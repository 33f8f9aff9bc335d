"""JSON: one object in every record. They are parsed as lines of one text."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.json as pa_json

from watersmeet.dataclass import dataclass
from watersmeet.io.connectors.bad_reasons import NO_VALUE, NOT_JSON, NOT_TEXT
from watersmeet.io.connectors.kafka.decoding.contract import Decoded, UndecodableError, sorted_out
from watersmeet.io.connectors.kafka.records import Records
from watersmeet.io.json_errors import why_unread
from watersmeet.io.json_types import as_declared, parsed_schema

EMPTY = (NO_VALUE, "the record has no value")
_OPEN, _CLOSE = b"{", b"}"


@dataclass(frozen=True)
class JsonDecoder:
    """A key that is not in a record is NULL; keys that are no columns are passed over."""

    schema: pa.Schema

    def decode(self, records: Records) -> Decoded:
        return sorted_out(records.values, self.schema, self.rows, EMPTY)

    def rows(self, values: Sequence[bytes]) -> pa.RecordBatch:
        return parsed(values, self.schema)


def parsed(values: Sequence[bytes], schema: pa.Schema) -> pa.RecordBatch:
    """The rows of objects, one of each value. Raises UndecodableError."""
    values = [one if one[:1] == _OPEN and one[-1:] == _CLOSE else _trimmed(one) for one in values]
    text = b"\n".join(values)
    try:
        text.decode()  # Arrow's parser does not look whether texts are UTF-8
    except UnicodeDecodeError as error:
        raise UndecodableError(NOT_TEXT, f"it is no UTF-8: {error.reason} at byte {error.start}") from None
    held = parsed_schema(schema)
    try:
        table = pa_json.read_json(
            pa.BufferReader(text),
            # One block, in this thread: others read the other streams.
            pa_json.ReadOptions(use_threads=False, block_size=len(text) + 1),
            pa_json.ParseOptions(explicit_schema=held, unexpected_field_behavior="ignore", newlines_in_values=True),
        )
    except pa.ArrowInvalid as error:
        raise UndecodableError(*why_unread(str(error), schema, values)) from None
    # Every value begins and ends as an object does. So one that is not whole is an error together with the next, and
    # none has no row: if there are as many rows as values, each value is one row.
    if table.num_rows != len(values):
        raise UndecodableError(NOT_JSON, "it holds more than one object")
    return _as_declared(table.select(schema.names), schema, values)


def _trimmed(value: bytes) -> bytes:
    value = value.strip()
    if value[:1] != _OPEN or value[-1:] != _CLOSE:
        raise UndecodableError(NOT_JSON, f"it is no JSON object: {_shown(value)}")
    return value


def _shown(value: bytes) -> str:
    text = value[:60].decode("utf-8", "replace")
    return repr(text + ("…" if len(value) > 60 else ""))


def _as_declared(table: pa.Table, schema: pa.Schema, values: Sequence[bytes]) -> pa.RecordBatch:
    try:
        # read_json may give chunks, though it was given one block.
        columns = [_one(table.column(name)) for name in schema.names]
        return as_declared(pa.RecordBatch.from_arrays(columns, schema=table.schema), schema)
    except pa.ArrowInvalid as error:
        raise UndecodableError(*why_unread(str(error), schema, values)) from None


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
