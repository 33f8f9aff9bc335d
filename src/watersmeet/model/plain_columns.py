"""Columns out of the layouts that only Arrow knows: dictionaries, runs and extensions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_HYPHEN = ord("-")
_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)
_UUID_BYTES, _UUID_LETTERS = 16, 36
_HYPHENS = (8, 13, 18, 23)
_LETTERS = [place for place in range(_UUID_LETTERS) if place not in _HYPHENS]


def plain_column(column: pa.Array) -> pa.Array:
    """The values themselves; their type may still be another layout of that which they have inside."""
    if pa.types.is_dictionary(column.type):
        return plain_column(column.dictionary_decode())
    if pa.types.is_run_end_encoded(column.type):
        return plain_column(pc.run_end_decode(column))
    if isinstance(column.type, pa.BaseExtensionType):
        return _of_extension(column)
    if pa.types.is_list_view(column.type):
        return _in_order(column, pa.int32(), pa.ListArray)
    if pa.types.is_large_list_view(column.type):
        return _in_order(column, pa.int64(), pa.LargeListArray)
    return column


def _in_order(views: pa.Array, place: pa.DataType, kind: Any) -> pa.Array:
    """Lists that lie one behind the other; what Arrow's own cast of these makes is broken where one is NULL."""
    sizes = pc.fill_null(pc.list_value_length(views), 0).to_numpy(zero_copy_only=False)
    ends = pa.array(np.concatenate(([0], np.cumsum(sizes)))).cast(place)
    nulls = views.is_null() if views.null_count else None
    return kind.from_arrays(ends, views.flatten(), mask=nulls)


def _of_extension(column: pa.Array) -> pa.Array:
    match column.type.extension_name:
        case "arrow.uuid":
            return _uuid_texts(column.storage)
        case "arrow.bool8":
            return pc.cast(column.storage, pa.bool_())
    return plain_column(column.storage)


def _uuid_texts(raw: pa.Array) -> pa.Array:
    """UUIDs as they are written: 8-4-4-4-12 hexadecimal digits."""
    count = len(raw)
    filled = pc.fill_null(raw, bytes(_UUID_BYTES)) if raw.null_count else raw
    found = np.frombuffer(filled.buffers()[1] or b"", np.uint8)[_UUID_BYTES * filled.offset :][: _UUID_BYTES * count]
    letters = np.full((count, _UUID_LETTERS), _HYPHEN, np.uint8)
    halves = np.stack((found >> 4, found & 15), axis=-1)
    letters[:, _LETTERS] = _DIGITS[halves].reshape(count, 2 * _UUID_BYTES)
    ends = np.arange(0, _UUID_LETTERS * (count + 1), _UUID_LETTERS, dtype=np.int32)
    texts = pa.StringArray.from_buffers(count, pa.py_buffer(ends), pa.py_buffer(letters.tobytes()))
    return pc.if_else(raw.is_valid(), texts, None) if raw.null_count else texts
