"""Rows as text: objects of JSON and lines of CSV. Files, topics and HTTP of both hosts have them from here, so a row is
the same bytes wherever it goes. Made column by column.

Values are written as CAST writes them, except that intervals are ISO 8601, PT1H30M, and that JSON has a T between date
and time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.errors import SinkError
from watersmeet.model.casts.writing import iso_intervals, written
from watersmeet.model.plain_columns import plain_column
from watersmeet.model.types import is_bytes, is_text

PIECE_ROWS = 1 << 14  # that are text at a time
_TEXT = pa.string()
_HEX_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)
# What stands behind a backslash in texts of JSON; the backslash itself comes first, as others bring one along.
_ESCAPES = {mark: json.dumps(mark)[1:-1] for mark in ("\\", '"', *map(chr, range(32)))}
_CONTROLS = r"[\x00-\x1f]"
_IN_VALUES = frozenset("0123456789+-.: aefilnrstuHMPST")  # of which values without quotes are made


def json_objects(rows: pa.RecordBatch) -> pa.Array:
    """Every row as an object, with null for NULL, and for NaN and infinities, which JSON does not have. DECIMALs are
    text, so that no digit is lost, bytes hexadecimal digits, maps objects."""
    if not rows.num_columns:
        return pa.repeat(pa.scalar("{}"), rows.num_rows)
    return _object(rows.schema.names, [_json(column) for column in rows.columns])


def csv_lines(rows: pa.RecordBatch, delimiter: str) -> pa.Array:
    """Every row as a line without its end. Text and bytes are in quotes, also if they are empty; NULL is nothing."""
    return pc.binary_join_element_wise(*(_field(column, delimiter) for column in rows.columns), delimiter)


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


def with_ends(lines: pa.Array) -> memoryview:
    """The bytes of lines, each with its end."""
    whole = pc.binary_join_element_wise(lines, "", "\n").cast(pa.large_binary())
    size = np.frombuffer(whole.buffers()[1], np.int64)[: len(whole) + 1][-1]
    return memoryview(whole.buffers()[2] or b"")[:size]


# ---- values ---------------------------------------------------------------------------------------------------------


def _plain(column: pa.Array) -> pa.Array:
    """The values of any type that is neither text, bytes nor nested."""
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), _TEXT)
    return iso_intervals(column) if pa.types.is_duration(column.type) else written(column).values


def _field(column: pa.Array, delimiter: str) -> pa.Array:
    column = plain_column(column)
    if is_text(column.type) or is_bytes(column.type):
        text = _shown_bytes(column) if is_bytes(column.type) else column.cast(_TEXT)
        made = _quoted(pc.replace_substring(text, '"', '""'))
    else:
        made = _quoted(_plain(column)) if delimiter in _IN_VALUES else _plain(column)
    return pc.fill_null(made, "")


def _shown_bytes(column: pa.Array) -> pa.Array:
    """The text that they are; bytes that are none as `\\xff`."""
    try:
        return pc.cast(column, _TEXT)
    except pa.ArrowInvalid:
        values = column.to_pylist()
        return pa.array([None if one is None else one.decode("utf-8", "backslashreplace") for one in values], _TEXT)


def _json(column: pa.Array) -> pa.Array:
    return pc.fill_null(_json_of(plain_column(column)), "null")


def _json_of(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_floating(kind):
        return _plain(pc.if_else(pc.is_finite(column), column, pa.scalar(None, kind)))
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind):
        return _plain(column)
    if is_text(kind):
        return _quoted(_escaped(column.cast(_TEXT)))
    if is_bytes(kind):
        return _quoted(_hexadecimal(column))
    if pa.types.is_timestamp(kind):
        return _quoted(pc.replace_substring(_plain(column), " ", "T", max_replacements=1))
    if pa.types.is_struct(kind):
        made = _object([field.name for field in kind], [_json(one) for one in column.flatten()])
        return _where_valid(column, made)
    if pa.types.is_map(kind):
        return _map(column)
    return _list(column) if pa.types.is_nested(kind) else _quoted(_plain(column))


def _quoted(texts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise('"', texts, '"', "")


def _escaped(texts: pa.Array) -> pa.Array:
    has_controls = pc.any(pc.match_substring_regex(texts, _CONTROLS)).as_py()
    for mark, escape in _ESCAPES.items():
        if has_controls or mark in '\\"':
            texts = pc.replace_substring(texts, mark, escape)
    return texts


def _hexadecimal(column: pa.Array) -> pa.Array:
    raw = column.cast(pa.large_binary())
    ends = np.frombuffer(raw.buffers()[1], np.int64)[raw.offset :][: len(raw) + 1]
    data = np.frombuffer(raw.buffers()[2] or b"", np.uint8)[ends[0] : ends[-1]]
    letters = _HEX_DIGITS[np.stack((data >> 4, data & 15), axis=-1)].tobytes()
    places = pa.py_buffer(2 * (ends - ends[0]))
    texts = pa.LargeStringArray.from_buffers(len(raw), places, pa.py_buffer(letters)).cast(_TEXT)
    return _where_valid(column, texts)


# ---- nested ones: their parts are written as columns are ------------------------------------------------------------


def _object(names: list[str], values: list[pa.Array]) -> pa.Array:
    parts: list[pa.Array | str] = []
    for place, (name, value) in enumerate(zip(names, values, strict=True)):
        parts += [("{" if place == 0 else ", ") + json.dumps(name, ensure_ascii=False) + ": ", value]
    return pc.binary_join_element_wise(*parts, "}", "")


def _list(column: pa.Array) -> pa.Array:
    column = column.cast(pa.large_list(column.type.value_type))
    return _joined(column, _json(column.flatten()), "[", "]")


def _map(column: pa.Array) -> pa.Array:
    """An object, whose keys are text whatever they are."""
    entries = column.cast(pa.large_list(pa.struct([("key", column.type.key_type), ("value", column.type.item_type)])))
    keys, values = entries.flatten().flatten()
    texts = _json(keys)
    is_quoted = pc.starts_with(texts, '"')
    names = pc.if_else(is_quoted, texts, _quoted(_escaped(texts)))
    return _joined(entries, pc.binary_join_element_wise(names, _json(values), ": "), "{", "}")


def _joined(lists: pa.Array, texts: pa.Array, begin: str, end: str) -> pa.Array:
    """The texts of the values of each list, which lie one behind the other, with commas between them."""
    sizes = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    places = pa.array(np.concatenate(([0], np.cumsum(sizes))), pa.int64())
    joined = pc.binary_join(pa.LargeListArray.from_arrays(places, texts), ", ")
    return _where_valid(lists, pc.binary_join_element_wise(begin, joined, end, ""))


def _where_valid(column: pa.Array, texts: pa.Array) -> pa.Array:
    return pc.if_else(column.is_valid(), texts, pa.scalar(None, _TEXT)) if column.null_count else texts
