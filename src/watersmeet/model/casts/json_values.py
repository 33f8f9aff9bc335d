"""Values as JSON, column by column: numbers and conditions as they are, all else in quotes as CAST writes it.

NULL stays NULL, and so do NaN and infinities, which JSON does not have. Bytes are hexadecimal digits, maps objects,
intervals ISO 8601, PT1H30M.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.model.casts.writing import iso_intervals, written
from watersmeet.model.plain_columns import plain_column
from watersmeet.model.types import is_bytes, is_text

_TEXT = pa.string()
_HEX_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)
# What stands behind a backslash in texts of JSON; the backslash itself comes first, as others bring one along.
_ESCAPES = {mark: json.dumps(mark)[1:-1] for mark in ("\\", '"', *map(chr, range(32)))}
_CONTROLS = r"[\x00-\x1f]"


@dataclass(frozen=True)
class Style:
    """What stands between entries and behind names, and between a date and a time; whether DECIMALs are text, so that
    no reader loses a digit."""

    comma: str
    colon: str
    between: str
    decimals_as_text: bool


IN_QUERIES = Style(",", ":", " ", decimals_as_text=False)  # as DuckDB writes it
IN_SINKS = Style(", ", ": ", "T", decimals_as_text=True)


def json_values(column: pa.Array, style: Style = IN_QUERIES) -> pa.Array:
    column = plain_column(column)
    kind = column.type
    if pa.types.is_floating(kind):
        return plain_text(pc.if_else(pc.is_finite(column), column, pa.scalar(None, kind)))
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind):
        return plain_text(column)
    if pa.types.is_decimal(kind) and not style.decimals_as_text:
        return plain_text(column)
    if is_text(kind):
        return quoted(_escaped(column.cast(_TEXT)))
    if is_bytes(kind):
        return quoted(_hexadecimal(column))
    if pa.types.is_timestamp(kind):
        return quoted(pc.replace_substring(plain_text(column), " ", style.between, max_replacements=1))
    if pa.types.is_struct(kind):
        fields = [json_or_null(one, style) for one in column.flatten()]
        return _where_valid(column, json_object([field.name for field in kind], fields, style))
    if pa.types.is_map(kind):
        return _map(column, style)
    return _list(column, style) if pa.types.is_nested(kind) else quoted(plain_text(column))


def json_or_null(column: pa.Array, style: Style = IN_QUERIES) -> pa.Array:
    return pc.fill_null(json_values(column, style), "null")


def plain_text(column: pa.Array) -> pa.Array:
    """The values of any type that is neither text, bytes nor nested."""
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), _TEXT)
    return iso_intervals(column) if pa.types.is_duration(column.type) else written(column).values


def quoted(texts: pa.Array, behind: str = "") -> pa.Array:
    return pc.binary_join_element_wise('"', texts, f'"{behind}', "")


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


def json_object(names: Sequence[str], values: Sequence[pa.Array], style: Style) -> pa.Array:
    """Objects with these fields, whose values are JSON already."""
    parts: list[pa.Array | str] = []
    for place, (name, value) in enumerate(zip(names, values, strict=True)):
        begin = "{" if place == 0 else style.comma
        parts += [begin + json.dumps(name, ensure_ascii=False) + style.colon, value]
    return pc.binary_join_element_wise(*parts, "}", "")


def _list(column: pa.Array, style: Style) -> pa.Array:
    column = column.cast(pa.large_list(column.type.value_type))
    return _joined(column, json_or_null(column.flatten(), style), "[", "]", style)


def _map(column: pa.Array, style: Style) -> pa.Array:
    """An object, whose keys are text whatever they are."""
    entries = column.cast(pa.large_list(pa.struct([("key", column.type.key_type), ("value", column.type.item_type)])))
    keys, values = entries.flatten().flatten()
    texts = json_or_null(keys, style)
    is_quoted = pc.starts_with(texts, '"')
    names = pc.if_else(is_quoted, texts, quoted(_escaped(texts)))
    written_entries = pc.binary_join_element_wise(names, json_or_null(values, style), style.colon)
    return _joined(entries, written_entries, "{", "}", style)


def _joined(lists: pa.Array, texts: pa.Array, begin: str, end: str, style: Style) -> pa.Array:
    """The texts of the values of each list, which lie one behind the other, with commas between them."""
    sizes = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    places = pa.array(np.concatenate(([0], np.cumsum(sizes))), pa.int64())
    joined = pc.binary_join(pa.LargeListArray.from_arrays(places, texts), style.comma)
    return _where_valid(lists, pc.binary_join_element_wise(begin, joined, end, ""))


def _where_valid(column: pa.Array, texts: pa.Array) -> pa.Array:
    return pc.if_else(column.is_valid(), texts, pa.scalar(None, _TEXT)) if column.null_count else texts
