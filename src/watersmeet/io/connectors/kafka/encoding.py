"""Records as they are written: JSON, one object of every row put together column by column, CSV, and raw bytes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.errors import SinkError
from watersmeet.io.writers import json_rows
from watersmeet.model.types import is_bytes, is_text


class Encoder(Protocol):
    def encode(self, rows: pa.RecordBatch) -> list[bytes | None]:
        """The value of every row; None makes a record without a value."""


_NULL = pa.scalar("null")
_NO_FRACTION = ".000000"
_WHOLE = len("2026-01-31T12:00:00")


@dataclass(frozen=True)
class JsonEncoder:
    """As our JSON files have it: times are ISO 8601 text, intervals microseconds, bytes hexadecimal digits; NaN and
    infinities, which JSON does not have, are null."""

    def encode(self, rows: pa.RecordBatch) -> list[bytes | None]:
        return json_objects(rows)


def json_objects(rows: pa.RecordBatch) -> list[bytes | None]:
    if not rows.num_columns:
        return [b"{}"] * rows.num_rows
    parts: list[pa.Array | pa.Scalar] = []
    for place, (name, column) in enumerate(zip(rows.schema.names, rows.columns, strict=True)):
        parts.append(pa.scalar(("{" if place == 0 else ", ") + json.dumps(name, ensure_ascii=False) + ": "))
        parts.append(_texts(column, name))
    parts.append(pa.scalar("}"))
    found: list[bytes | None] = pc.binary_join_element_wise(*parts, "").cast(pa.binary()).to_pylist()
    return found


def _texts(column: pa.Array, name: str) -> pa.Array:
    """The values of a column as JSON writes them."""
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        made = column.cast(pa.string())
    elif pa.types.is_float64(kind):
        made = pc.if_else(pc.is_finite(column), column, pa.scalar(None, kind)).cast(pa.string())
    elif is_text(kind) and not _has_controls(column):
        made = _quoted(pc.replace_substring(pc.replace_substring(column, "\\", "\\\\"), '"', '\\"'))
    elif pa.types.is_timestamp(kind) and kind.unit == "us" and kind.tz is None and not _has_years(column):
        made = _quoted(_moments(column))
    else:
        made = pa.array(_one_by_one(column, name), pa.string())
    return pc.fill_null(made, _NULL)


def _quoted(texts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise('"', texts, '"', "")


def _has_controls(column: pa.Array) -> bool:
    return bool(pc.any(pc.match_substring_regex(column, r"[\x00-\x1f]")).as_py())


def _has_years(column: pa.Array) -> bool:
    """Whether some years have not four digits, which Python writes otherwise than Arrow."""
    if not len(column) or column.null_count == len(column):
        return False
    least, most = pc.min_max(pc.year(column)).values()
    return bool(least.as_py() < 1000 or most.as_py() > 9999)


def _moments(column: pa.Array) -> pa.Array:
    """As Python's isoformat has it: no fraction if there is none."""
    texts = pc.replace_substring(column.cast(pa.string()), " ", "T", max_replacements=1)
    return pc.if_else(pc.ends_with(texts, _NO_FRACTION), pc.utf8_slice_codeunits(texts, 0, _WHOLE), texts)


def _one_by_one(column: pa.Array, name: str) -> Sequence[str | None]:
    """What Arrow cannot write: nested values, decimals, intervals, texts with control characters."""
    batch = pa.RecordBatch.from_arrays([column], names=[name])
    begin = len(json.dumps({name: None}, ensure_ascii=False)) - len("null}")
    return [line[begin:-1] for line in json_rows(batch)]


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


@dataclass(frozen=True)
class RawEncoder:
    column: str

    def encode(self, rows: pa.RecordBatch) -> list[bytes | None]:
        found: list[bytes | None] = rows.column(self.column).cast(pa.binary()).to_pylist()
        return found
