"""Text, bytes and decimals as byte strings in the same order, and back."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.model.types import is_bytes, is_text
from watersmeet.operators.codes import INT64, read_only
from watersmeet.operators.continuous.aggregates.columns import wide_decimals, words_of
from watersmeet.operators.continuous.aggregates.contract import Int64s, frozen

WIDTH = 16  # bytes of a decimal


def to_bytes(values: pa.Array) -> pa.Array:
    """A large_binary column whose order is that of the values: UTF-8 sorts as code points do."""
    if is_text(values.type):
        return values.cast(pa.large_string()).cast(pa.large_binary())
    if is_bytes(values.type):
        return values.cast(pa.large_binary())
    if pa.types.is_decimal(values.type):
        return _decimal_bytes(wide_decimals(values))
    raise TypeError(f"values of type {values.type} have no order")


def from_bytes(values: pa.Array, data_type: pa.DataType) -> pa.Array:
    """What to_bytes was given."""
    if is_text(data_type):
        return values.cast(pa.large_string()).cast(data_type)
    if is_bytes(data_type):
        return values.cast(pa.binary()).cast(data_type)
    return _decimals(values, data_type)


def slices(values: pa.Array) -> tuple[npt.NDArray[np.uint8], Int64s]:
    """The bytes of a large_binary column and where each value starts; the end comes last."""
    if not len(values):
        return np.frombuffer(b"", np.uint8), frozen(np.zeros(1, np.int64))
    offsets, data = values.buffers()[1:]
    bounds = np.frombuffer(offsets, np.int64)[values.offset : values.offset + len(values) + 1]
    return read_only(np.frombuffer(data if data is not None else b"", np.uint8)), frozen(bounds)


def _decimal_bytes(values: pa.Array) -> pa.Array:
    """The two's complement, highest byte first, with the sign turned round."""
    words = words_of(values, 2).reshape(-1, 2)
    swapped = np.stack([words[:, 1] ^ INT64.min, words[:, 0]], axis=1).astype(">i8")
    offsets = WIDTH * np.arange(len(values) + 1, dtype=np.int64)
    bitmap = None
    if values.null_count:
        valid = values.is_valid().to_numpy(zero_copy_only=False)
        bitmap = pa.py_buffer(np.packbits(valid, bitorder="little"))
    buffers = [bitmap, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(swapped))]
    return pa.Array.from_buffers(pa.large_binary(), len(values), buffers)


def _decimals(values: pa.Array, data_type: pa.DataType) -> pa.Array:
    # So that every value has as many bytes, also where it is NULL.
    filled = values.fill_null(bytes(WIDTH))
    data, offsets = slices(filled)
    swapped = data[offsets[0] : offsets[-1]].view(">i8").reshape(-1, 2).astype(np.int64)
    words = np.stack([swapped[:, 1], swapped[:, 0] ^ INT64.min], axis=1)
    valid = values.is_valid().to_numpy(zero_copy_only=False)
    bitmap = pa.py_buffer(np.packbits(valid, bitorder="little"))
    wide = pa.decimal128(data_type.precision, data_type.scale)
    return pa.Array.from_buffers(wide, len(values), [bitmap, pa.py_buffer(words)]).cast(data_type)
