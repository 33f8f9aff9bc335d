"""Avro: every row as one record of a schema, which is made of the columns unless it is given."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import fastavro
import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.errors import SinkError
from watersmeet.model.types import is_bytes, is_text, sql_type


@dataclass(frozen=True)
class AvroEncoder:
    schema: Mapping[str, Any]

    def encode(self, rows: pa.RecordBatch) -> list[bytes | None]:
        parsed = fastavro.parse_schema(dict(self.schema))
        try:
            return [_record(parsed, row) for row in rows.to_pylist()]
        except (ValueError, TypeError, KeyError, OverflowError) as error:
            raise SinkError(f"a row does not fit the schema of Avro: {error}") from None


def _record(schema: Any, row: Mapping[str, Any]) -> bytes:
    made = io.BytesIO()
    fastavro.schemaless_writer(made, schema, row)
    return made.getvalue()


def schema_of(sink: str, columns: pa.Schema) -> Mapping[str, Any]:
    """A schema in which every column may be null."""
    fields = [{"name": one.name, "type": ["null", _kind(sink, one)], "default": None} for one in columns]
    return {"type": "record", "name": "answer", "fields": fields}


def _kind(sink: str, one: pa.Field) -> Any:
    kind = one.type
    if pa.types.is_boolean(kind):
        return "boolean"
    if pa.types.is_integer(kind) and kind != pa.uint64():
        return "long"
    if pa.types.is_floating(kind):
        return "double"
    if is_text(kind):
        return "string"
    if is_bytes(kind):
        return "bytes"
    if pa.types.is_date(kind):
        return {"type": "int", "logicalType": "date"}
    if pa.types.is_timestamp(kind):
        zone = "timestamp-micros" if kind.tz else "local-timestamp-micros"
        return {"type": "long", "logicalType": zone}
    if pa.types.is_decimal(kind):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    raise SinkError(
        f"column {one.name!r} of sink {sink!r} is {sql_type(kind)}, which is not written as Avro",
        hint="CAST it in the query, or use format = 'json'",
    )
