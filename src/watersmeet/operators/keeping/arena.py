"""Payload columns of strings and bytes in one array, whose values lie in slots as those of other columns do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.operators.keeping.kernels import arena as kernel
from watersmeet.operators.keeping.kernels.slots import GROWTH, Slots, slots_at
from watersmeet.operators.payload import Positions, moved, picked

MIN_BYTES = 4096
# Room for more values than there are, so that gaps are seldom closed; and from how full on it grows instead.
ROOM = 2.0
FULL = 0.75


def is_text(kind: pa.DataType) -> bool:
    """Whether values are strings or bytes of any length."""
    tests = (pa.types.is_string, pa.types.is_binary, pa.types.is_large_string, pa.types.is_large_binary)
    return any(test(kind) for test in tests)


class SlottedBytes:
    """Values of any length. What belongs to no row any more is squeezed out when the array is full."""

    STATE = ("starts", "lengths", "data", "end", "live_rows", "live_bytes", "width")

    def __init__(
        self, kind: pa.DataType, slot_of: Callable[[], Slots], slots: int, live: Callable[[int], Slots]
    ) -> None:
        """live: the slots of the rows before a position that have one, in the order in which they came."""
        self.type = kind
        self.slot_of = slot_of
        self.live = live
        self.starts = np.zeros(slots, np.int64)
        self.lengths = np.zeros(slots, np.int32)
        self.data = np.empty(MIN_BYTES, np.uint8)
        self.end = 0
        self.live_rows = self.live_bytes = 0
        self.width = 0.0

    @property
    def nbytes(self) -> int:
        return int(self.data.nbytes + self.starts.nbytes + self.lengths.nbytes)

    @property
    def bytes_per_row(self) -> float:
        """By what is there now: the values of a stream may grow longer or shorter in time."""
        return self.bytes_of(self.width)

    @staticmethod
    def bytes_of(width: float) -> float:
        """What a value of so many bytes costs, with what is waste on average."""
        # 12 bytes tell where a value begins and how long it is.
        return GROWTH * 12 + ROOM * width

    def append(self, values: pa.Array, at: int) -> None:
        self.put(values, self.slot_of()[at : at + len(values)], at)

    def put(self, values: pa.Array, slots: Slots, at: int) -> None:
        """Values of rows from a position on, for their slots."""
        offsets, data = self._parts(values)
        first, size = int(offsets[0]), int(offsets[-1] - offsets[0])
        if self.end + size > self.data.size:
            self._make_room(at, size)
        self.data[self.end : self.end + size] = data[first : first + size]
        valid = values.is_valid().to_numpy(zero_copy_only=False) if values.null_count else np.empty(0, np.bool_)
        kernel.place(slots, offsets, valid, self.end, self.starts, self.lengths)
        self.end += size
        self._changed(slots.size, int(np.maximum(self.lengths[slots], 0).sum()))

    def put_some(self, values: pa.Array, chosen: Positions, slots: Slots, at: int) -> None:
        """Values of some rows for their slots."""
        self.put(values.take(pa.array(chosen)), slots, at)

    def leave(self, slots: Slots) -> None:
        """The values of these slots belong to no row any more."""
        self._changed(-slots.size, -int(np.maximum(self.lengths[slots], 0).sum()))

    def _changed(self, rows: int, size: int) -> None:
        self.live_rows, self.live_bytes = self.live_rows + rows, self.live_bytes + size
        if self.live_rows:
            self.width = self.live_bytes / self.live_rows

    def _parts(self, values: pa.Array) -> tuple[npt.NDArray[Any], npt.NDArray[np.uint8]]:
        """Offsets and bytes of an array; both may be longer than they need be."""
        _, offsets, data = values.buffers()
        width = np.int64 if self._is_large else np.int32
        found: npt.NDArray[Any] = np.frombuffer(offsets, width)[values.offset : values.offset + len(values) + 1]
        return found, np.frombuffer(data, np.uint8) if data is not None and data.size else np.empty(0, np.uint8)

    @property
    def _is_large(self) -> bool:
        return bool(pa.types.is_large_string(self.type) or pa.types.is_large_binary(self.type))

    def _make_room(self, at: int, size: int) -> None:
        self.end = int(kernel.close_up(self.live(at), self.starts, self.lengths, self.data))
        needed = self.end + size
        # Also smaller, where it is more than eight times as large as it need be.
        if needed > self.data.size * FULL or needed * 4 * ROOM < self.data.size:
            self.data = moved(self.data, 0, self.end, max(int(needed * ROOM), MIN_BYTES))

    def gather(self, positions: Positions) -> pa.Array:
        slots = np.empty(len(positions), np.int64)
        slots_at(self.slot_of(), positions, slots)
        return self.gather_slots(slots)

    def gather_slots(self, slots: Positions | Slots) -> pa.Array:
        offsets = np.empty(slots.size + 1, np.int64)
        nulls = kernel.measure(slots, self.lengths, offsets)
        if not self._is_large and offsets[-1] > np.iinfo(np.int32).max:
            raise pa.ArrowInvalid(f"{offsets[-1]:,} bytes of text in {slots.size:,} results are too many for one array")
        out = np.empty(int(offsets[-1]), np.uint8)
        kernel.collect(slots, self.starts, self.data, offsets, out)
        valid = None
        if nulls:
            valid = pa.py_buffer(np.packbits(self.lengths[slots] >= 0, bitorder="little"))
        starts = offsets if self._is_large else offsets.astype(np.int32)
        return pa.Array.from_buffers(self.type, slots.size, [valid, pa.py_buffer(starts), pa.py_buffer(out)], nulls)

    def resize(self, slots: int) -> None:
        held = min(self.starts.size, slots)
        self.starts, self.lengths = moved(self.starts, 0, held, slots), moved(self.lengths, 0, held, slots)

    def keep_slots(self, slots: Positions, count: int) -> None:
        offsets = np.empty(slots.size + 1, np.int64)
        kernel.measure(slots, self.lengths, offsets)
        data = np.empty(max(int(offsets[-1] * ROOM), MIN_BYTES), np.uint8)
        kernel.collect(slots, self.starts, self.data, offsets, data)
        self.data, self.end = data, int(offsets[-1])
        self.lengths, self.starts = picked(self.lengths, slots, count), np.zeros(count, np.int64)
        self.starts[: slots.size] = offsets[:-1]

    def relocate(self, tail: int, count: int, capacity: int) -> None:
        """Slots stay where they are when the store moves its rows."""

    def keep(self, positions: Positions, capacity: int) -> None:
        """Slots stay where they are."""
