"""Nested values in order: lists by the first entries that differ, and a list before those that it begins; structs by
their fields from left to right; maps as lists of their entries. NULLs inside are equal, and come after everything."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Int64s = npt.NDArray[np.int64]
_LAST = np.iinfo(np.int64).max


def ranks(values: pa.Array) -> pa.Array:
    """Numbers in the order of the values of a column, the same for equal ones; NULL stays NULL."""
    kind = values.type
    if pa.types.is_null(kind):
        return pa.nulls(len(values), pa.int64())
    if not pa.types.is_nested(kind):
        return _of_plain(values)
    made = _of_structs(values) if pa.types.is_struct(kind) else _of_lists(values)
    return pa.array(made, mask=values.is_null().to_numpy(zero_copy_only=False))


def _of_plain(values: pa.Array) -> pa.Array:
    if pa.types.is_floating(values.type):
        values = pc.add(values, pa.scalar(0.0, values.type))  # makes 0.0 of -0.0
    encoded = values.dictionary_encode()
    order = pc.array_sort_indices(encoded.dictionary).to_numpy()
    places = np.empty(order.size, np.int64)
    places[order] = np.arange(order.size)
    return pa.array(places).take(encoded.indices)


def _filled(numbers: pa.Array) -> Int64s:
    return np.asarray(pc.fill_null(numbers, _LAST).to_numpy(zero_copy_only=False), np.int64)


def _of_structs(values: pa.Array) -> Int64s:
    keys = [_filled(ranks(field)) for field in values.flatten()]
    made = np.zeros(len(values), np.int64)
    if not keys:
        return made
    order = np.lexsort(keys[::-1])
    differs = np.zeros(order.size, np.bool_)
    for key in keys:
        differs[1:] |= key[order[1:]] != key[order[:-1]]
    made[order] = np.cumsum(differs)
    return made


def _of_lists(values: pa.Array) -> Int64s:
    """By the numbers of their entries as bytes, the highest first, which are compared from left to right."""
    kind = values.type
    entry = pa.struct([("key", kind.key_type), ("value", kind.item_type)]) if pa.types.is_map(kind) else kind.value_type
    lists = values.cast(pa.large_list(entry))
    sizes = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    entries = _filled(ranks(lists.flatten())).astype(">i8")
    offsets = 8 * np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(entries)]
    return _filled(_of_plain(pa.Array.from_buffers(pa.large_binary(), len(values), buffers)))
