"""A window store in which rows can lose their memory before they expire.

A row that has lost it leaves behind its record: time, codes and its place in the indexes. Walks still find it, and
what is found with it is counted as lost. `forgetful` stores squeeze such records out as well.

New rows are *fresh* until all streams have come as far: only then do they compete for memory, so that what comes at
one time meets before any of it can go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.model.time import Times
from watersmeet.operators.codes import Mask
from watersmeet.operators.state.payload import Positions, moved, picked
from watersmeet.operators.state.window_store import WindowStore
from watersmeet.shedding.kernels import queue
from watersmeet.shedding.online_statistics import Factors
from watersmeet.shedding.payload import Slots, SlottedChunks, slotted

Marks = npt.NDArray[np.uint8]

MIN_SLOTS = 64
MIN_SQUEEZED = 1024
GROWTH = 1.25
SPARE_RECORDS = 1.5
COUNTER_BYTES = 8  # what is known of keys takes about so much for each row in memory
SLOT_BYTES = 8 + 16 + 4  # position, place in the queues, and in the list of free slots


@dataclass
class Worth:
    """What the priorities of a stream's rows are made of just now (see kernels.queue)."""

    scale: float
    by_age: npt.NDArray[np.float64]
    per_bin: float
    now: int
    in_rows: bool  # ages are counted in rows, not in time
    per_count: float = 0.0  # of how many rows of a window one that was counted stands for, if that matters


class SheddingStore(WindowStore):
    def __init__(
        self,
        code_count: int,
        hash_keys: Sequence[tuple[int, ...]] = (),
        sorted_keys: Sequence[int] = (),
        payload: Mapping[str, pa.DataType] | None = None,
        *,
        counted: bool = False,
        forgetful: bool = False,
    ) -> None:
        super().__init__(code_count, hash_keys, sorted_keys, None, counted=counted)
        self.forgetful = forgetful
        self.slot_of: Slots = np.full(self.capacity, queue.GONE, np.int32)
        self.flawed = np.zeros(self.capacity, np.uint8)  # rows of which a combination was lost
        self.shifted = 0  # how far rows have moved down in all: a slot knows its row by position + shifted
        self.mature_until = 0  # rows at this position and after are fresh
        self.matured = 0  # how many rows ever were fresh and are no more
        self._make_queues(MIN_SLOTS)
        self.columns = {name: slotted(kind, self.slots, MIN_SLOTS) for name, kind in (payload or {}).items()}
        self.payload = dict(self.columns)

    def slots(self) -> Slots:
        return self.slot_of

    def _make_queues(self, slots: int) -> None:
        self.position = np.empty(slots, np.int64)
        self.nodes = np.full((slots, queue.NODE_FIELDS), queue.NO_LEVEL, np.int32)
        self.free = np.arange(slots - 1, -1, -1, dtype=np.int32)
        self.lists = np.full((queue.LEVELS, queue.LIST_FIELDS), -1, np.int32)
        self.lists[:, queue.SIZE] = 0
        self.state = np.array([slots, 0, queue.LEVELS - 1], np.int64)

    @property
    def kept(self) -> int:
        """How many rows have memory."""
        return int(self.free.size - self.state[queue.FREE])

    @property
    def queued(self) -> int:
        """How many of them compete for it."""
        return int(self.state[queue.QUEUED])

    @property
    def fresh(self) -> int:
        return self.kept - self.queued

    @property
    def nbytes(self) -> int:
        arrays = (self.slot_of, self.flawed, self.position, self.nodes, self.free, self.lists)
        beside = sum(int(array.nbytes) for array in arrays)
        return super().nbytes + beside

    @property
    def record_bytes(self) -> int:
        """What a row costs beside its payload: time, codes, place in the indexes, its slot's number, a mark."""
        indexes = 12 * len(self.hash_indexes) + 12 * len(self.sorted_indexes)
        return 8 + 8 * int(self.codes.shape[0]) + (16 if self.deaths is not None else 0) + indexes + 4 + 1

    @property
    def bytes_per_row(self) -> float:
        """What a row with memory costs, with the room to spare that arrays have on average and while they move."""
        return self.bytes_around(sum(column.bytes_per_row for column in self.columns.values()))

    def bytes_around(self, payload: float) -> float:
        """What a row with so many bytes of payload costs in all."""
        records = self.record_bytes * SPARE_RECORDS * (2 if self.forgetful else 1)
        return records + GROWTH * SLOT_BYTES + payload + COUNTER_BYTES

    def gather(self, slots: Slots) -> dict[str, pa.Array]:
        """The payload behind slots; also of those just freed, until the next rows come."""
        return {name: column.gather_slots(slots) for name, column in self.columns.items()}

    # ---- memory comes and goes --------------------------------------------------------------------------------------

    def _make_room(self, count: int) -> None:
        by, live = self.tail, len(self)
        if self.head + count > self.capacity:
            super()._make_room(count)
            self.slot_of = moved(self.slot_of, by, live, self.capacity)
            self.flawed = moved(self.flawed, by, live, self.capacity)
            self.shifted += by
            self.mature_until -= by
        self.flawed[self.head : self.head + count] = 0
        if self.state[queue.FREE] < count:
            self._grow(self.free.size - int(self.state[queue.FREE]) + count)
        queue.take_slots(
            self.slot_of, self.head, self.head + count, self.shifted, self.position, self.nodes, self.free, self.state
        )

    def _grow(self, needed: int) -> None:
        old = self.free.size
        slots = max(int(needed * GROWTH), MIN_SLOTS)
        self.position, self.free = moved(self.position, 0, old, slots), moved(self.free, 0, old, slots)
        nodes = np.full((slots, queue.NODE_FIELDS), queue.NO_LEVEL, np.int32)
        nodes[:old] = self.nodes
        self.nodes = nodes
        free = int(self.state[queue.FREE])
        self.free[free : free + slots - old] = np.arange(slots - 1, old - 1, -1, dtype=np.int32)
        self.state[queue.FREE] = free + slots - old
        for column in self.columns.values():
            column.resize(slots)

    def _drop(self, gone: int) -> int:
        self._release(np.arange(self.tail, self.tail + gone))
        dropped = super()._drop(gone)
        self.mature_until = max(self.mature_until, self.tail)
        self._squeeze_payload()
        return dropped

    def _release(self, positions: Positions) -> None:
        queue.release(self.slot_of, positions, self.nodes, self.lists, self.free, self.state)

    def turn_away(self, positions: Positions) -> Slots:
        """Take the memory of rows that have only just come; the slots they had."""
        slots = self.slot_of[positions].copy()
        self._release(positions)
        return slots

    def _keep_only(self, positions: Positions) -> None:
        going = np.ones(len(self), np.bool_)
        going[positions - self.tail] = False
        self._release(self.tail + np.flatnonzero(going))
        slots, flawed = picked(self.slot_of, positions, positions.size), self.flawed[positions]
        self.mature_until = int(np.searchsorted(positions, self.mature_until))
        super()._keep_only(positions)
        self.slot_of = np.full(self.capacity, queue.GONE, np.int32)
        self.slot_of[: slots.size] = slots
        self.flawed = np.zeros(self.capacity, np.uint8)
        self.flawed[: flawed.size] = flawed
        self.shifted = 0
        kept = np.flatnonzero(slots >= 0)
        self.position[slots[kept]] = kept
        self._squeeze_payload()

    def _squeeze_payload(self) -> None:
        kept = self.kept
        chunks = [c for c in self.columns.values() if isinstance(c, SlottedChunks) and c.is_wasteful(kept)]
        if chunks:
            slots = self.slot_of[self.tail : self.head]
            for column in chunks:
                column.squeeze(slots[slots >= 0])

    def squeeze_records(self) -> int:
        """Leave no trace of rows that lost their memory, once they outnumber the others; returns how many went."""
        total, kept = len(self), self.kept
        if total - kept <= max(kept, MIN_SQUEEZED):
            return 0
        self._keep_only(self.tail + np.flatnonzero(self.slot_of[self.tail : self.head] >= 0))
        return total - kept

    def note_flaws(self, members: Positions, whole: Mask, *, demote: bool) -> int:
        """Mark rows that are members of combinations which are not whole; returns how many are so for the first time.
        With `demote` they are the first to lose their memory."""
        state = self.slot_of, self.flawed, demote, self.nodes, self.lists, self.state
        return int(queue.note_flaws(members, whole, *state))

    def store_flaws(self, new: Marks, *, demote: bool) -> None:
        """Mark rows among those that were just stored."""
        queue.store_flaws(new, self.head - new.size, self.slot_of, self.flawed, demote, self.nodes)

    # ---- competing for memory ---------------------------------------------------------------------------------------

    def mature(self, until_us: int, room: int, worth: Worth, factors: Factors, seed: int | None) -> int:
        """Let fresh rows up to a time compete, and the oldest of more than `room`; returns how many."""
        first = self.mature_until
        fresh = self.times[first : self.head]
        young = fresh > until_us
        stop = int(young.argmax()) if young.any() else fresh.size
        last = first + max(stop, fresh.size - room)
        if last > first:
            if seed is None:
                self._enqueue(first, last, worth, factors)
            else:
                queue.enqueue_at_random(
                    self.slot_of, first, last, self.matured, seed, self.nodes, self.lists, self.state
                )
            self.mature_until = last
            self.matured += last - first
        return last - first

    def _ages(self, worth: Worth) -> Times:
        if not worth.in_rows:
            return self.times
        assert self.serials is not None
        return self.serials

    def _enqueue(self, first: int, last: int, worth: Worth, factors: Factors) -> None:
        queue.enqueue(
            self.slot_of, first, last, self.codes, self._ages(worth), worth.now, worth.scale,
            *factors.of_rows, worth.by_age, worth.per_bin, worth.per_count, self.nodes, self.lists, self.state,
        )  # fmt: skip

    def evict(self, count: int, worth: Worth, factors: Factors, *, again: bool) -> tuple[Positions, Slots]:
        """Take the memory of the rows with the lowest priority; their positions, and the slots they had."""
        victims, slots = np.empty(count, np.int64), np.empty(count, np.int32)
        gone = queue.evict(
            count, again, self.slot_of, self.shifted, self.position, self.free, self.codes, self._ages(worth),
            worth.now, worth.scale, *factors.of_rows, worth.by_age, worth.per_bin, worth.per_count, self.nodes,
            self.lists, self.state, victims, slots,
        )  # fmt: skip
        return victims[:gone], slots[:gone]

    def enqueue_anew(self, worth: Worth, factors: Factors, exposed: npt.NDArray[np.float64]) -> None:
        queue.enqueue_anew(
            np.empty(self.queued, np.int32), self.shifted, self.position, self.codes, self._ages(worth), worth.now,
            worth.scale, *factors.of_rows, worth.by_age, worth.per_bin, worth.per_count, self.nodes, self.lists,
            self.state, exposed,
        )  # fmt: skip


def expected_row_bytes(store: SheddingStore, widths: Mapping[str, float]) -> float:
    """What a row with memory will cost, before there are any: `widths` are the bytes of columns of any length."""
    columns = store.columns.items()
    payload = [c.bytes_of(widths[name]) if isinstance(c, SlottedChunks) else c.bytes_per_row for name, c in columns]
    return store.bytes_around(sum(payload))
