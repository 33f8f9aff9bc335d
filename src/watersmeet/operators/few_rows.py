"""Arrow columns by way of NumPy: for a handful of rows Arrow's own calls cost more than the work."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

FEW = 256


def words_as(words: npt.NDArray[np.int64], kind: pa.DataType) -> pa.Array:
    """Int64s without gaps as a column of a type that is made of them."""
    return pa.Array.from_buffers(kind, words.size, [None, pa.py_buffer(words)])


def taken(column: pa.Array, positions: npt.NDArray[np.int64]) -> pa.Array:
    """Some rows of a column, in the order of their positions."""
    cell = _cell(column.type) if positions.size <= FEW else None
    if cell is None or column.null_count:
        return column.take(pa.array(positions))
    start = column.offset * cell.itemsize
    values = np.frombuffer(column.buffers()[1], cell, len(column), start)
    return pa.Array.from_buffers(column.type, positions.size, [None, pa.py_buffer(values.take(positions))])


@cache
def _cell(kind: pa.DataType) -> np.dtype[Any] | None:
    """What a value of a type lies in, if all are of one width that NumPy has."""
    if pa.types.is_boolean(kind) or pa.types.is_null(kind) or not pa.types.is_primitive(kind):
        return None
    return np.dtype(f"u{kind.bit_width // 8}")
