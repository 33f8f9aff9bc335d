"""Payload columns whose values lie in slots, so that the memory of any row can be given to another.

A store finds the values of a row through `slot_of`, an array beside its times that it replaces when it moves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.operators.codes import read_only
from watersmeet.operators.keeping.arena import SlottedBytes, is_text
from watersmeet.operators.keeping.kernels.slots import GROWTH, Slots, scatter, scatter_some, slots_at
from watersmeet.operators.payload import ChunkedColumn, FixedColumn, PayloadColumn, Positions, payload_column, picked

MIN_WASTE = 1024
MAX_WASTE = 0.5


class SlottedFixed:
    """Values of one width, at their slots."""

    STATE = ("inner",)

    def __init__(self, inner: FixedColumn, slot_of: Callable[[], Slots]) -> None:
        self.inner = inner
        self.slot_of = slot_of

    @property
    def nbytes(self) -> int:
        return self.inner.nbytes

    @property
    def bytes_per_row(self) -> float:
        """With the byte that tells NULLs, which may come at any time."""
        return GROWTH * (self.inner.width + 1)

    def append(self, values: pa.Array, at: int) -> None:
        self.put(values, self.slot_of()[at : at + len(values)], at)

    def put_some(self, values: pa.Array, chosen: Positions, slots: Slots, at: int) -> None:
        """Values of some rows for their slots."""
        inner = self.inner
        if inner.valid is not None or values.null_count or inner.values.dtype.kind != "u":
            self.put(values.take(pa.array(chosen)), slots, at)
        else:
            scatter_some(inner.values, slots, read_only(self._data(values)), chosen)

    def _data(self, values: pa.Array) -> npt.NDArray[Any]:
        return np.frombuffer(values.buffers()[1], self.inner.values.dtype)[values.offset : values.offset + len(values)]

    def put(self, values: pa.Array, slots: Slots, at: int) -> None:
        inner, data = self.inner, self._data(values)
        # Numba does not know values of 16 bytes, which are bare bytes to NumPy.
        if inner.values.dtype.kind == "u":
            scatter(inner.values, slots, read_only(data))
        else:
            inner.values[slots] = data
        if values.null_count and inner.valid is None:
            inner.valid = np.ones(inner.values.size, np.bool_)
        if inner.valid is not None:
            inner.valid[slots] = values.is_valid().to_numpy(zero_copy_only=False) if values.null_count else True

    def gather(self, positions: Positions) -> pa.Array:
        slots = np.empty(len(positions), np.int64)
        slots_at(self.slot_of(), positions, slots)
        return self.inner.gather(slots)

    def gather_slots(self, slots: Slots) -> pa.Array:
        return self.inner.gather(slots)  # type: ignore[arg-type]

    def resize(self, slots: int) -> None:
        self.inner.relocate(0, self.inner.values.size, slots)

    def keep_slots(self, slots: Positions, count: int) -> None:
        """The values of these come first, where there is room for so many."""
        self.inner.keep(slots, count)

    def relocate(self, tail: int, count: int, capacity: int) -> None:
        """Slots stay where they are when the store moves its rows."""

    def keep(self, positions: Positions, capacity: int) -> None:
        """Slots stay where they are."""


class SlottedChunks:
    """Values of any length, appended to Arrow chunks; `places` says where those of a slot lie. What belongs to no
    slot any more is squeezed out when it is half as much as the rest, which for that moment is there twice."""

    STATE = ("inner", "places", "end", "appended_rows", "appended_bytes")

    def __init__(self, inner: ChunkedColumn, slot_of: Callable[[], Slots], slots: int) -> None:
        self.inner = inner
        self.slot_of = slot_of
        self.places = np.empty(slots, np.int64)
        self.end = 0
        self.appended_rows = 0
        self.appended_bytes = 0

    @property
    def nbytes(self) -> int:
        return self.inner.nbytes + self.places.nbytes

    @property
    def bytes_per_row(self) -> float:
        return self.bytes_of(self.appended_bytes / max(self.appended_rows, 1))

    @staticmethod
    def bytes_of(width: float) -> float:
        """What a value of so many bytes costs, with what is waste on average."""
        return GROWTH * 8 + (2 + MAX_WASTE) * width

    def append(self, values: pa.Array, at: int) -> None:
        self.put(values, self.slot_of()[at : at + len(values)], at)

    def put(self, values: pa.Array, slots: Slots, at: int) -> None:
        count = len(values)
        self.places[slots] = np.arange(self.end, self.end + count)
        self.inner.append(values, self.end)
        self.end += count
        self.appended_rows += count
        self.appended_bytes += int(values.nbytes)

    def put_some(self, values: pa.Array, chosen: Positions, slots: Slots, at: int) -> None:
        """Values of some rows for their slots."""
        self.put(values.take(pa.array(chosen)), slots, at)

    def gather(self, positions: Positions) -> pa.Array:
        return self.inner.gather(self.places[self.slot_of()[positions]])

    def gather_slots(self, slots: Slots) -> pa.Array:
        return self.inner.gather(self.places[slots])

    def is_wasteful(self, kept: int) -> bool:
        """Whether it is worth while to squeeze out what belongs to none of the rows kept."""
        return self.end - kept > max(MAX_WASTE * kept, MIN_WASTE)

    def squeeze(self, slots: Slots) -> None:
        """Keep only the values of these slots."""
        # In the order they lie in, so that chunks are read from front to back.
        slots = slots[np.argsort(self.places[slots], kind="stable")]
        self.inner.keep(self.places[slots], slots.size)
        self.places[slots] = np.arange(slots.size)
        self.end = int(slots.size)

    def resize(self, slots: int) -> None:
        # np.resize repeats what there is, which is never read.
        self.places = np.resize(self.places, slots)

    def keep_slots(self, slots: Positions, count: int) -> None:
        self.places = picked(self.places, slots, count)

    def relocate(self, tail: int, count: int, capacity: int) -> None:
        """Slots stay where they are when the store moves its rows."""

    def keep(self, positions: Positions, capacity: int) -> None:
        """Slots stay where they are."""


Slotted = SlottedFixed | SlottedBytes | SlottedChunks


def slotted(kind: pa.DataType, slot_of: Callable[[], Slots], slots: int, live: Callable[[int], Slots]) -> Slotted:
    """live: the slots of the rows before a position that have one, in the order in which they came."""
    if is_text(kind):
        return SlottedBytes(kind, slot_of, slots, live)
    made: PayloadColumn = payload_column(kind, slots)
    if isinstance(made, FixedColumn):
        return SlottedFixed(made, slot_of)
    assert isinstance(made, ChunkedColumn)
    return SlottedChunks(made, slot_of, slots)
