"""Rows as text: objects of JSON and lines of CSV. Files, topics and HTTP of both hosts have them from here, so a row is
the same bytes wherever it goes. Made column by column.

Values are written as CAST writes them, except that intervals are ISO 8601, PT1H30M, and that JSON has a T between date
and time.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.errors import SinkError
from watersmeet.model.casts.json_values import IN_SINKS, json_object, json_or_null, plain_text, quoted
from watersmeet.model.plain_columns import plain_column
from watersmeet.model.types import is_bytes, is_text

PIECE_ROWS = 1 << 14  # that are text at a time
_TEXT = pa.string()
_QUOTE = ord('"')
_IN_VALUES = frozenset("0123456789+-.: aefilnrstuHMPST")  # of which values without quotes are made


def json_objects(rows: pa.RecordBatch) -> pa.Array:
    """Every row as an object, with null for NULL, and for NaN and infinities, which JSON does not have. DECIMALs are
    text, so that no digit is lost, bytes hexadecimal digits, maps objects."""
    if not rows.num_columns:
        return pa.repeat(pa.scalar("{}"), rows.num_rows)
    return json_object(rows.schema.names, [json_or_null(column, IN_SINKS) for column in rows.columns], IN_SINKS)


def csv_lines(rows: pa.RecordBatch, delimiter: str, end: str = "") -> pa.Array:
    """Every row as a line. Text and bytes are in quotes, also if they are empty; NULL is nothing."""
    *columns, last = rows.columns
    fields = [*(_field(column, delimiter) for column in columns), _field(last, delimiter, end)]
    return pc.binary_join_element_wise(*fields, delimiter)


def csv_header(schema: pa.Schema, delimiter: str) -> str:
    return delimiter.join('"' + name.replace('"', '""') + '"' for name in schema.names)


def check_flat(schema: pa.Schema, hint: str = "use parquet or json") -> None:
    """Refuse rows that lines of CSV cannot hold."""
    nested = [field.name for field in schema if pa.types.is_nested(field.type)]
    if nested:
        raise SinkError(f"column {nested[0]!r} is nested and cannot be written as csv", hint=hint)


def pieces_of(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """So few rows that their text has room in one array."""
    return (batch.slice(start, PIECE_ROWS) for start in range(0, batch.num_rows, PIECE_ROWS))


def with_ends(lines: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(lines, "", "\n")


def bytes_of(texts: pa.Array) -> memoryview:
    """Of all texts together, which are no part of a longer array."""
    whole = texts.cast(pa.large_binary())
    size = np.frombuffer(whole.buffers()[1], np.int64)[: len(whole) + 1][-1]
    return memoryview(whole.buffers()[2] or b"")[:size]


# ---- values ---------------------------------------------------------------------------------------------------------


def _field(column: pa.Array, delimiter: str, end: str = "") -> pa.Array:
    """Its values, with what stands behind each."""
    column = plain_column(column)
    if is_text(column.type) or is_bytes(column.type):
        text = _shown_bytes(column) if is_bytes(column.type) else column.cast(_TEXT)
        made = quoted(pc.replace_substring(text, '"', '""') if _has_quotes(text) else text, end)
    elif delimiter in _IN_VALUES:
        made = quoted(plain_text(column), end)
    else:
        made = pc.binary_join_element_wise(plain_text(column), "", end) if end else plain_text(column)
    return pc.fill_null(made, end)


def _has_quotes(texts: pa.Array) -> bool:
    """Whether the mark that is doubled in quotes is in any of them."""
    _, offsets, data = texts.buffers()
    if data is None or not len(texts):
        return False
    ends = np.frombuffer(offsets, np.int32)
    first, last = ends[texts.offset], ends[texts.offset + len(texts)]
    return bool((np.frombuffer(data, np.uint8)[first:last] == _QUOTE).any())


def _shown_bytes(column: pa.Array) -> pa.Array:
    """The text that they are; bytes that are none as `\\xff`."""
    try:
        return pc.cast(column, _TEXT)
    except pa.ArrowInvalid:
        values = column.to_pylist()
        return pa.array([None if one is None else one.decode("utf-8", "backslashreplace") for one in values], _TEXT)
