"""CSV: one line of every row, without a header; NULL is an empty field, and text is in quotes."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.errors import SinkError
from watersmeet.model.types import is_bytes, is_text


@dataclass(frozen=True)
class CsvEncoder:
    delimiter: str = ","

    def encode(self, rows: pa.RecordBatch) -> list[bytes | None]:
        fields = [_fields(column) for column in rows.columns]
        found: list[bytes | None] = pc.binary_join_element_wise(*fields, self.delimiter).cast(pa.binary()).to_pylist()
        return found


def check_flat(name: str, schema: pa.Schema) -> None:
    nested = [one.name for one in schema if pa.types.is_nested(one.type) or is_bytes(one.type)]
    if nested:
        raise SinkError(f"column {nested[0]!r} of sink {name!r} cannot be written as csv", hint="use format = 'json'")


def _fields(column: pa.Array) -> pa.Array:
    if is_text(column.type):
        made = pc.binary_join_element_wise('"', pc.replace_substring(column, '"', '""'), '"', "")
    else:
        made = column.cast(pa.string())
    return pc.fill_null(made, "")
