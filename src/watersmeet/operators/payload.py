"""The columns that results are made of, kept beside the window store and gathered by position.

Fixed-width values lie in one array, so that a gather is one indexed copy. Everything else stays in the Arrow
chunks it came in; small chunks are merged so that a gather touches few of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.operators.few_rows import Cells, picked_from
from watersmeet.operators.kernels import texts as kernel
from watersmeet.operators.kernels.rows import move_down

Positions = npt.NDArray[np.int64]
T = TypeVar("T", bound=np.generic)
INT32 = np.iinfo(np.int32)

# A chunk is given up only whole, when its last row has expired, so chunks are not merged beyond this.
MAX_CHUNK_ROWS = 1 << 16


class PayloadColumn(Protocol):
    """One column of a store. Positions are the store's; rows are appended at its head."""

    @property
    def nbytes(self) -> int: ...
    def append(self, values: pa.Array, at: int) -> None: ...
    def gather(self, positions: Positions) -> pa.Array: ...
    def relocate(self, tail: int, count: int, capacity: int) -> None: ...
    def keep(self, positions: Positions, capacity: int) -> None: ...


def payload_column(data_type: pa.DataType, capacity: int) -> PayloadColumn:
    width = fixed_width(data_type)
    return ChunkedColumn(data_type) if width is None else FixedColumn(data_type, width, capacity)


def fixed_width(data_type: pa.DataType) -> int | None:
    """Bytes per value, or None for types that are not plain fixed-width values."""
    # Booleans are single bits in Arrow, and values of a dictionary are more than their indices.
    if pa.types.is_boolean(data_type) or pa.types.is_dictionary(data_type) or pa.types.is_null(data_type):
        return None
    if not (pa.types.is_primitive(data_type) or pa.types.is_decimal(data_type)):
        return None
    return int(data_type.bit_width) // 8


class FixedColumn:
    """Values of one width in a flat array; validity bytes only once a NULL has been seen."""

    STATE = ("values", "valid")

    def __init__(self, data_type: pa.DataType, width: int, capacity: int) -> None:
        self.type = data_type
        self.width = width
        self.values = np.empty(capacity, _cell(width))
        self.valid: npt.NDArray[np.bool_] | None = None

    @property
    def nbytes(self) -> int:
        return self.values.nbytes + (0 if self.valid is None else self.valid.nbytes)

    def append(self, values: pa.Array | Cells, at: int) -> None:
        if isinstance(values, np.ndarray):
            self._append_cells(values, at)
            return
        end = at + len(values)
        data = np.frombuffer(values.buffers()[1], self.values.dtype) if len(values) else self.values[:0]
        self.values[at:end] = data[values.offset : values.offset + len(values)]
        if values.null_count and self.valid is None:
            self.valid = np.ones(self.values.size, np.bool_)
        if self.valid is not None:
            self.valid[at:end] = values.is_valid().to_numpy(zero_copy_only=False) if values.null_count else True

    def _append_cells(self, cells: Cells, at: int) -> None:
        end = at + cells.size
        self.values[at:end] = cells
        if self.valid is not None:
            self.valid[at:end] = True

    def gather(self, positions: Positions) -> pa.Array:
        data = pa.py_buffer(picked_from(self.values, positions))
        valid = None if self.valid is None else self.valid.take(positions)
        bitmap = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
        return pa.Array.from_buffers(self.type, len(positions), [bitmap, data])

    def relocate(self, tail: int, count: int, capacity: int) -> None:
        self.values = moved(self.values, tail, count, capacity)
        if self.valid is not None:
            self.valid = moved(self.valid, tail, count, capacity)

    def keep(self, positions: Positions, capacity: int) -> None:
        self.values = picked(self.values, positions, capacity)
        if self.valid is not None:
            self.valid = picked(self.valid, positions, capacity)


def _cell(width: int) -> npt.DTypeLike:
    return {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}.get(width, np.dtype((np.void, width)))


class ChunkedColumn:
    """Values as Arrow chunks; `starts[i]` is the position of the first row of chunk i."""

    STATE = ("chunks", "starts")

    def __init__(self, data_type: pa.DataType) -> None:
        self.type = data_type
        self.chunks: list[pa.Array] = []
        self.starts: list[int] = []

    @property
    def nbytes(self) -> int:
        return sum(int(chunk.nbytes) for chunk in self.chunks)

    def append(self, values: pa.Array, at: int) -> None:
        if not len(values):
            return
        self.chunks.append(values)
        self.starts.append(at)
        while len(self.chunks) > 1 and self._worth_merging():
            newer, older = self.chunks.pop(), self.chunks.pop()
            self.starts.pop()
            self.chunks.append(pa.concat_arrays([older, newer]))

    def _worth_merging(self) -> bool:
        older, newer = len(self.chunks[-2]), len(self.chunks[-1])
        # What is left halves at least from chunk to chunk, so there are few, and a row is copied a few times in its
        # life.
        return older <= 2 * newer and older + newer <= MAX_CHUNK_ROWS

    def gather(self, positions: Positions) -> pa.Array:
        if not len(positions):
            return pa.nulls(0, self.type)
        starts = np.array(self.starts, np.int64)
        ends = np.array([positions.min(), positions.max()])
        first, last = np.searchsorted(starts, ends, side="right") - 1
        if first == last:
            return self.chunks[first].take(pa.array(positions - starts[first]))
        if _has_offsets(self.type):
            return _texts(self.type, self.chunks[first : last + 1], starts[first : last + 1], positions)
        return self._gather_from(positions, starts)

    def _gather_from(self, positions: Positions, starts: Positions) -> pa.Array:
        """Take from each chunk in turn, then put the rows back into the order asked for."""
        chunk_of = np.searchsorted(starts, positions, side="right") - 1
        touched = np.unique(chunk_of)
        # NumPy sorts numbers of 16 bits by radix, in linear time.
        order = np.argsort(chunk_of.astype(np.int16 if len(self.chunks) < 2**15 else np.int64), kind="stable")
        bounds = np.searchsorted(chunk_of[order], touched)
        pieces = [
            self.chunks[int(chunk)].take(pa.array(positions[part] - starts[chunk]))
            for chunk, part in zip(touched, np.split(order, bounds[1:]), strict=True)
        ]
        back = np.empty_like(order)
        back[order] = np.arange(order.size)
        return pa.concat_arrays(pieces).take(pa.array(back))

    def relocate(self, tail: int, count: int, capacity: int) -> None:
        # The first chunk may begin with rows that are gone, and its start be negative then.
        live = [i for i, start in enumerate(self.starts) if start + len(self.chunks[i]) > tail]
        self.chunks = [self.chunks[i] for i in live]
        self.starts = [self.starts[i] - tail for i in live]

    def keep(self, positions: Positions, capacity: int) -> None:
        kept = self.gather(positions)
        self.chunks, self.starts = ([kept], [0]) if len(kept) else ([], [])


def _has_offsets(kind: pa.DataType) -> bool:
    """Whether it is of texts or bytes of any length, one after the other in one buffer."""
    wide = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
    return bool(wide or pa.types.is_string(kind) or pa.types.is_binary(kind))


def _texts(kind: pa.DataType, chunks: Sequence[pa.Array], starts: Positions, positions: Positions) -> pa.Array:
    """Texts, or bytes, of chunks that lie behind each other."""
    n, wide = len(positions), pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
    places = np.empty((len(chunks), kernel.CHUNK_FIELDS), np.int64)
    for place, start, chunk in zip(places, starts, chunks, strict=True):
        valid, offsets, data = chunk.buffers()
        at = [0 if buffer is None else buffer.address for buffer in (offsets, data, valid)]
        place[:] = start, *at, chunk.offset
    where, ends, there = np.empty(n, np.int64), np.empty(n + 1, np.int64), np.empty(n, np.bool_)
    total = int(kernel.find_texts(positions, places, wide, where, ends, there))
    if not wide and total > INT32.max:
        raise pa.ArrowCapacityError("texts of more than 2 GB together")
    data = np.empty(total, np.uint8)
    kernel.copy_texts(where, ends, data)
    bitmap = None if bool(there.all()) else pa.py_buffer(np.packbits(there, bitorder="little"))
    buffers = [bitmap, pa.py_buffer(ends if wide else ends.astype(np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(kind, n, buffers)


def moved(array: npt.NDArray[T], tail: int, count: int, capacity: int) -> npt.NDArray[T]:
    """The live rows at the front of an array of the asked capacity, in place where it fits."""
    if capacity == array.shape[-1]:
        size = array.itemsize
        for row in array.reshape(-1, capacity):  # NumPy would make a copy first, as the two places overlap
            move_down(row.ctypes.data, tail * size, count * size)
        return array
    target = np.empty((*array.shape[:-1], capacity), array.dtype)
    target[..., :count] = array[..., tail : tail + count]
    return target


def picked(array: npt.NDArray[T], positions: Positions, capacity: int) -> npt.NDArray[T]:
    """Chosen rows at the front of a new array."""
    target = np.empty((*array.shape[:-1], capacity), array.dtype)
    target[..., : positions.size] = array[..., positions]
    return target
