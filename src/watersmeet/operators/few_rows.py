"""Arrow columns by way of NumPy: for a handful of rows Arrow's own calls cost more than the work, and for many of fixed
width it takes them in half the time."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

T = TypeVar("T", bound=np.generic)
FEW = 256

# The values of a column as they lie in memory, whatever they mean.
Cells = npt.NDArray[np.signedinteger[Any]]

_OF_FIXED_WIDTH = (
    pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(),
    pa.float16(), pa.float32(), pa.float64(), pa.date32(), pa.date64(), pa.time32("s"), pa.time64("us"),
    pa.timestamp("us"), pa.duration("us"),
)  # fmt: skip
# By the number of a kind: a type takes long to hash.
_CELLS = {kind.id: np.dtype(f"i{kind.bit_width // 8}") for kind in _OF_FIXED_WIDTH}


def fresh(*shape: int, kind: npt.DTypeLike = np.int64) -> npt.NDArray[Any]:
    """An array to be written. Many values lie in memory of Arrow's, which hands out again what it got back: of NumPy's
    the system clears every page anew, and that takes longer than to write it."""
    if shape[-1] <= FEW:
        return np.empty(shape, kind)
    kind = np.dtype(kind)
    return np.frombuffer(pa.allocate_buffer(kind.itemsize * prod(shape)), kind).reshape(shape)


def picked_from(array: npt.NDArray[T], positions: npt.NDArray[np.int64]) -> npt.NDArray[T]:
    """The values at positions, which are all within."""
    if positions.size <= FEW:
        return array.take(positions)
    # In other modes NumPy fills a copy first.
    return array.take(positions, out=fresh(positions.size, kind=array.dtype), mode="clip")


def words_as(words: npt.NDArray[np.int64], kind: pa.DataType) -> pa.Array:
    """Int64s without gaps as a column of a type that is made of them."""
    return pa.Array.from_buffers(kind, words.size, [None, pa.py_buffer(words)])


def one_letter_texts(letters: npt.NDArray[np.uint8]) -> pa.Array:
    """Bytes of ASCII as a column of texts."""
    ends = np.arange(letters.size + 1, dtype=np.int32)
    return pa.Array.from_buffers(pa.string(), letters.size, [None, pa.py_buffer(ends), pa.py_buffer(letters)])


def cell_of(kind: pa.DataType) -> np.dtype[np.signedinteger[Any]] | None:
    """What a value of a type lies in, if all are of one width that NumPy has."""
    return _CELLS.get(kind.id)


def cells_of(column: pa.Array) -> Cells | None:
    """The values of a column without a copy; None if they are not all of one width, or some are NULL."""
    cell = _CELLS.get(column.type.id)
    rows = len(column)
    if cell is None or column.null_count or not rows:
        return None
    cells: Cells = np.frombuffer(column.buffers()[1], cell, rows, column.offset * cell.itemsize)
    cells.flags.writeable = False
    return cells


def taken(column: pa.Array, positions: npt.NDArray[np.int64]) -> pa.Array:
    """Some rows of a column, in the order of their positions."""
    cells = cells_of(column)
    if cells is None:
        return column.take(pa.array(positions))
    return pa.Array.from_buffers(column.type, positions.size, [None, pa.py_buffer(picked_from(cells, positions))])


def in_a_row(arrays: Sequence[npt.NDArray[T]]) -> npt.NDArray[T]:
    """The values of all, one array behind the other."""
    return np.concatenate(arrays, out=fresh(sum(one.size for one in arrays), kind=arrays[0].dtype))


def taken_of_all(columns: Sequence[pa.Array], positions: npt.NDArray[np.int64]) -> pa.Array:
    """The same of columns that lie behind each other."""
    cells = [cells for one in columns if (cells := cells_of(one)) is not None]
    if len(cells) < len(columns):
        return pa.concat_arrays(columns).take(pa.array(positions))
    values = picked_from(in_a_row(cells), positions)
    return pa.Array.from_buffers(columns[0].type, positions.size, [None, pa.py_buffer(values)])


def rows_taken(batch: pa.RecordBatch, positions: npt.NDArray[np.int64]) -> pa.RecordBatch:
    """Some rows of a batch, in the order of their positions."""
    if not batch.num_columns:
        return batch.take(pa.array(positions))
    return pa.RecordBatch.from_arrays([taken(column, positions) for column in batch.columns], schema=batch.schema)
