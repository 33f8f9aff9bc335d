"""A window store in which rows can lose their memory before they expire.

A row that has lost it leaves behind its record: time, codes and its place in the indexes. Walks still find it, and
what is found with it is counted as lost. `forgetful` stores squeeze such records out as well.

New rows are *fresh* until all streams have come as far: only then do they compete for memory, so that what comes at
one time meets before any of it can go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.model.time import Times
from watersmeet.operators.codes import Mask
from watersmeet.operators.few_rows import Cells
from watersmeet.operators.join.window_store import WindowStore, first_at_least
from watersmeet.operators.keeping.arena import SlottedBytes
from watersmeet.operators.keeping.kernels import contest
from watersmeet.operators.keeping.kernels.priorities import LEVELS
from watersmeet.operators.keeping.kernels.slots import (
    GONE,
    GROWTH,
    PROMISED,
    Slots,
    give_back,
    give_back_between,
    keep_promises,
    take_slots,
)
from watersmeet.operators.keeping.online_statistics import Factors
from watersmeet.operators.keeping.payload import SlottedChunks, SlottedFixed, slotted
from watersmeet.operators.keyed_state import KeyedRows
from watersmeet.operators.payload import Positions, moved, picked

Marks = npt.NDArray[np.uint8]

MIN_SLOTS = 64
MIN_SQUEEZED = 1024
WIDE = GROWTH * GROWTH  # so many times as many slots as rows with memory are too many, where a bound has shrunk
SPARE_RECORDS = 1.5
COUNTER_BYTES = 8  # what is known of keys takes about so much for each row in memory
SLOT_BYTES = 4 + 2 + 4  # place and level among those that compete, and place among the free slots


@dataclass
class Worth:
    """What the priorities of a stream's rows are made of just now (see kernels.priorities)."""

    scale: float
    by_age: npt.NDArray[np.float64]
    per_bin: float
    now: int
    in_rows: bool  # ages are counted in rows, not in time
    per_count: float = 0.0  # of how many rows of a window one that was counted stands for, if that matters


class SheddingStore(WindowStore):
    STATE = (
        *(name for name in WindowStore.STATE if name != "payload"),  # which has the same columns
        "slot_of", "flawed", "mature_until", "matured", "slot_count", "free_count", "free", "held", "levels", "sizes",
        "contest", "columns",
    )  # fmt: skip

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
        self.slot_of: Slots = np.full(self.capacity, GONE, np.int32)
        self.flawed = np.zeros(self.capacity, np.uint8)  # rows of which a combination was lost
        self.mature_until = 0  # rows at this position and after are fresh
        self.matured = 0  # how many rows ever were fresh and are no more
        self.promised = 0  # how many of the last rows have no memory yet, but may get it
        self.links = True  # whether walks find rows as soon as they are here (see turns)
        self.slot_count = self.free_count = MIN_SLOTS
        # One place more than there are slots (see kernels/slots.py).
        self.free: Slots = np.append(np.arange(MIN_SLOTS - 1, -1, -1, dtype=np.int32), GONE)
        self.held = np.empty(MIN_SLOTS, np.int32)
        self.levels = np.empty(MIN_SLOTS, np.uint16)
        self.sizes = np.zeros(LEVELS, np.int64)
        self.contest = np.zeros(contest.STATE_FIELDS, np.int64)
        self.columns = {
            name: slotted(kind, self.slots, MIN_SLOTS, self.live_slots) for name, kind in (payload or {}).items()
        }
        self.payload = dict(self.columns)

    def slots(self) -> Slots:
        return self.slot_of

    def live_slots(self, before: int) -> Slots:
        """The slots of the rows before a position that have one, in the order in which they came."""
        slots = self.slot_of[self.tail : before]
        return slots[slots >= 0]

    @property
    def kept(self) -> int:
        """How many rows have memory."""
        return self.slot_count - self.free_count

    @property
    def claimed(self) -> int:
        """How many rows have memory, or are promised it; of rows in hand those whose turn has come."""
        if not self.links:
            return self.competing
        return self.kept + self.promised

    @property
    def competing(self) -> int:
        """How many of them compete for it."""
        return int(self.contest[contest.COMPETING])

    @property
    def nbytes(self) -> int:
        arrays = (self.slot_of, self.flawed, self.free, self.held, self.levels, self.sizes)
        beside = sum(int(array.nbytes) for array in arrays)
        return super().nbytes + beside

    @property
    def record_bytes(self) -> int:
        """What a row costs beside its payload: time, codes, place in the indexes, its slot's number, a mark."""
        # By hash 4 bytes for the chain and up to two heads of 4; sorted 8 for the code and 4 for the row.
        indexes = 12 * len(self.hash_indexes) + 12 * len(self.sorted_indexes)
        return 8 + 8 * int(self.codes.shape[0]) + (16 if self.deaths is not None else 0) + indexes + 4 + 1

    @property
    def bytes_per_row(self) -> float:
        """What a row with memory costs, with the room to spare that arrays have on average and while they move."""
        return self.bytes_around(sum(column.bytes_per_row for column in self.columns.values()))

    def bytes_around(self, payload: float) -> float:
        """What a row with so many bytes of payload costs in all."""
        # Records that are squeezed out may be as many as the rows with memory before they are.
        records = self.record_bytes * SPARE_RECORDS * (2 if self.forgetful else 1)
        return records + GROWTH * SLOT_BYTES + payload + COUNTER_BYTES

    def gather(self, slots: Slots) -> dict[str, pa.Array]:
        """The payload behind slots; also of those just freed, until the next rows come."""
        return {name: column.gather_slots(slots) for name, column in self.columns.items()}

    # ---- rows move to others ----------------------------------------------------------------------------------------

    def keyed(self, key: int | None) -> KeyedRows:
        """With those that have left only a record, which have the payload of another row."""
        slots = self.slot_of[self.tail : self.head].astype(np.int64)
        kept = slots >= 0
        if not bool(kept.any()):
            rows, first = np.arange(0), 0
        else:
            rows, first = np.arange(slots.size), int(slots[kept][0])
        live = slice(self.tail, self.head)
        numbers = {"times": self.times[live], **{f"code_{i}": column[live] for i, column in enumerate(self.codes)}}
        numbers |= {"kept": kept, "flawed": self.flawed[live]}
        arrays = self.gather(np.where(kept, slots, first)[rows].astype(np.int32))
        data = pa.RecordBatch.from_arrays(list(arrays.values()), list(arrays))
        keys = np.arange(slots.size) if key is None else self.codes[key, live]
        return KeyedRows.of(keys[rows], data, **{name: values[rows] for name, values in numbers.items()})

    def take_over(self, rows: KeyedRows) -> None:
        rows = rows.sorted_by("times")
        super().take_over(rows)
        first = self.head - len(rows)
        self._release(first + np.flatnonzero(~rows.numbers["kept"].astype(np.bool_)))
        self.flawed[first : self.head] = rows.numbers["flawed"]

    # ---- memory comes and goes --------------------------------------------------------------------------------------

    def _make_room(self, count: int) -> None:
        # Before super() moves the rows and puts the tail at 0.
        by, live = self.tail, len(self)
        if self.head + count > self.capacity:
            super()._make_room(count)
            self.slot_of = moved(self.slot_of, by, live, self.capacity)
            self.flawed = moved(self.flawed, by, live, self.capacity)
            self._competitors()[:] -= by
            self.mature_until -= by
        self.flawed[self.head : self.head + count] = 0
        if self.promised:
            self.slot_of[self.head : self.head + count] = PROMISED
            return
        if self.free_count < count:
            self._grow(self.kept + count)
        self.free_count = take_slots(self.slot_of, self.head, self.head + count, self.free, self.free_count)

    def _append_payload(self, payload: Mapping[str, pa.Array | Cells], first: int) -> None:
        if not self.promised:
            super()._append_payload(payload, first)

    # ---- rows that come without memory ------------------------------------------------------------------------------

    def promise(self, count: int) -> None:
        """So many rows come next, more than there is memory for: they have none until those that are worth most are
        known among them and the others."""
        self.promised = count

    def break_promises(self, lost: Mask) -> None:
        """Some of the rows that came are to have no memory."""
        self.slot_of[self.head - lost.size : self.head][lost] = GONE
        self.promised -= int(np.count_nonzero(lost))

    def keep_promises(self, rows: pa.RecordBatch) -> None:
        """Give memory to the rows that still are promised it, of those that came last."""
        first, many = self.head - rows.num_rows, self.promised
        if self.free_count < many:
            self._grow(self.kept + many)
        self.promised = 0
        winners, slots = np.empty(many + 1, np.int64), np.empty(many, np.int32)
        self.free_count = keep_promises(self.slot_of, first, self.head, self.free, self.free_count, winners, slots)
        for name, column in self.columns.items():
            column.put_some(rows.column(name), winners[:many], slots, first)

    def _competitors(self) -> npt.NDArray[np.int32]:
        """The positions of the rows that compete, in place."""
        return self.held[self.contest[contest.START] : self.contest[contest.END]]

    def _grow(self, needed: int) -> None:
        old, slots = self.slot_count, max(int(needed * GROWTH), MIN_SLOTS)
        self.free = moved(self.free, 0, self.free_count, slots + 1)
        self.free[self.free_count : self.free_count + slots - old] = np.arange(slots - 1, old - 1, -1, dtype=np.int32)
        self.free_count += slots - old
        self.slot_count = slots
        for column in self.columns.values():
            column.resize(slots)

    def shrink(self) -> None:
        """Let go of slots that no row has, if they are most."""
        if self.promised or self.slot_count <= max(WIDE * self.kept, MIN_SLOTS):
            return
        live = self.tail + np.flatnonzero(self.slot_of[self.tail : self.head] >= 0)
        count = max(int(live.size * GROWTH), MIN_SLOTS)
        for column in self.columns.values():
            column.keep_slots(self.slot_of[live].astype(np.int64), count)
        self.slot_of[live] = np.arange(live.size)
        self.free = np.append(np.arange(count - 1, -1, -1, dtype=np.int32), GONE)
        self.slot_count, self.free_count = count, count - live.size
        for column in self.columns.values():
            if isinstance(column, SlottedChunks):
                column.squeeze(self.live_slots(self.head))
        contest.close_gaps(self.held, self.levels, self.contest)
        competing, room = self.competing, int(self.competing * GROWTH) + 1
        self.held, self.levels = moved(self.held, 0, competing, room), moved(self.levels, 0, competing, room)

    def _drop(self, gone: int) -> int:
        last = self.tail + gone
        if self.promised:
            self.promised -= int(np.count_nonzero(self.slot_of[self.tail : last] == PROMISED))
        self._freed(give_back_between(self.slot_of, self.tail, last, self.free, self.free_count))
        contest.leave(last, *self._contest())
        dropped = super()._drop(gone)
        self.mature_until = max(self.mature_until, self.tail)
        self._squeeze_payload()
        return dropped

    def _release(self, positions: Positions) -> None:
        self._freed(give_back(self.slot_of, positions, self.free, self.free_count))

    def _freed(self, free_count: int) -> None:
        """So many slots are free now."""
        slots = self.free[self.free_count : free_count]
        self.free_count = free_count
        for column in self.columns.values():
            if slots.size and isinstance(column, SlottedBytes):
                column.leave(slots)

    def _keep_only(self, positions: Positions) -> None:
        going = np.ones(len(self), np.bool_)
        going[positions - self.tail] = False
        self._release(self.tail + np.flatnonzero(going))
        slots, flawed = picked(self.slot_of, positions, positions.size), self.flawed[positions]
        self.mature_until = int(np.searchsorted(positions, self.mature_until))
        contest.renumber(positions, *self._contest())
        super()._keep_only(positions)
        self.slot_of = np.full(self.capacity, GONE, np.int32)
        self.slot_of[: slots.size] = slots
        self.flawed = np.zeros(self.capacity, np.uint8)
        self.flawed[: flawed.size] = flawed
        self._squeeze_payload()

    def _squeeze_payload(self) -> None:
        kept = self.kept
        chunks = [c for c in self.columns.values() if isinstance(c, SlottedChunks) and c.is_wasteful(kept)]
        if chunks:
            live = self.live_slots(self.head)
            for column in chunks:
                column.squeeze(live)

    def squeeze_records(self) -> int:
        """Leave no trace of rows that lost their memory, once they outnumber the others; returns how many went."""
        total, kept = len(self), self.kept
        # Those that are promised memory are told by where they lie.
        if self.promised or total - kept <= max(kept, MIN_SQUEEZED):
            return 0
        self._keep_only(self.tail + np.flatnonzero(self.slot_of[self.tail : self.head] >= 0))
        return total - kept

    def store_flaws(self, new: Marks) -> None:
        """Mark rows among those that were just stored."""
        self.flawed[self.head - new.size : self.head] = new

    # ---- rows in hand (see turns) -----------------------------------------------------------------------------------

    def take_in_hand(self, count: int) -> None:
        """So many rows come next, which walks do not find before `link_hand`."""
        self.promised, self.links = count, False

    def _link(self, first: int, last: int) -> None:
        if self.links:
            super()._link(first, last)

    def link_hand(self, first: int) -> None:
        """From now on walks find the rows from a position on."""
        self.links = True
        self.generation += 1
        if self.head > first:
            super()._link(first, self.head)

    def leave_hand(self, first: int, went: Positions) -> None:
        """The rows from a position on are promised memory; some rows have lost it, or the promise of it."""
        self.slot_of[first : self.head] = PROMISED
        self.slot_of[went] = GONE
        self.payload = dict(self.columns)

    # ---- competing for memory ---------------------------------------------------------------------------------------

    def mature(
        self,
        until_us: int,
        room: int,
        worth: Worth,
        factors: Factors,
        seed: int | None,
        all_ranked_after: Callable[[int], bool] = lambda rows: False,
    ) -> int:
        """Let fresh rows up to a time compete, and the oldest of more than `room`; returns how many. They are not
        ranked if all rows are to be, after so many."""
        first = self.mature_until
        fresh = self.times[first : self.head]
        if not self.disorder_us:
            stop = int(fresh.searchsorted(until_us, side="right"))
        else:
            young = fresh > until_us
            stop = int(young.argmax()) if young.any() else fresh.size
        last = first + max(stop, fresh.size - room)
        return self.mature_before(last, worth, factors, seed, all_ranked_after)

    def mature_before(
        self,
        last: int,
        worth: Worth,
        factors: Factors,
        seed: int | None,
        all_ranked_after: Callable[[int], bool],
    ) -> int:
        """The same of the fresh rows before a position."""
        first = self.mature_until
        if last > first:
            self._make_room_to_compete(last - first)
            before, self.matured, self.mature_until = self.matured, self.matured + last - first, last
            if seed is not None:
                contest.enter_at_random(self.slot_of, first, last, before, seed, *self._contest())
            else:
                start = contest.line_up(self.slot_of, first, last, self.held, self.levels, self.contest)
                if not all_ranked_after(last - first):
                    contest.rank_from(start, *self._what_ranks(worth, factors), *self._contest())
        return last - first

    def _ages(self, worth: Worth) -> Times:
        if not worth.in_rows:
            return self.times
        assert self.serials is not None
        return self.serials

    def _make_room_to_compete(self, count: int) -> None:
        if self.contest[contest.END] + count < self.held.size:
            return
        contest.close_gaps(self.held, self.levels, self.contest)
        rows = self.competing
        if (rows + count) * GROWTH > self.held.size:
            room = int((rows + count) * GROWTH * GROWTH) + 1
            self.held, self.levels = moved(self.held, 0, rows, room), moved(self.levels, 0, rows, room)

    def evict(self, count: int) -> tuple[Positions, Slots]:
        """Take the memory of the rows with the lowest priority; their positions, and the slots they had."""
        many = min(count, self.competing)
        victims, slots = np.empty(many, np.int64), np.empty(many, np.int32)
        free, promised = contest.evict(*self._contest(), self.slot_of, self.free, self.free_count, victims, slots)
        self._freed(free)
        self.promised -= promised
        return victims, slots

    def old_before(self, cutoffs_us: Times) -> Positions:
        """Before which positions rows expire at each of some cutoffs."""
        live = self.live_times
        if not self.disorder_us:
            return self.tail + live.searchsorted(cutoffs_us)
        return self.tail + np.array([first_at_least(live, cutoff_us) for cutoff_us in cutoffs_us.tolist()])

    def stop_competing(self, before: int) -> None:
        """Rows before a position are about to expire."""
        contest.leave(before, *self._contest())

    def play(
        self,
        stops: Positions,
        old: Positions,
        numbers: Positions,
        nows: Times,
        room: int,
        worth: Worth,
        factors: Factors,
        seed: int | None,
        unrefreshed: int,
        refreshed_after: tuple[float, float, float],
    ) -> tuple[Positions, Slots, npt.NDArray[np.int32], int]:
        """Let the last rows come in turns (see contest.play): who goes, the slots they had and the numbers of the turns
        after which they went; and how many rows came since all were ranked."""
        many = int(stops[-1] - stops[0])
        self._make_room_to_compete(many)
        most = max(self.competing + many - room, 0)
        victims, slots, turns = np.empty(most, np.int64), np.empty(most, np.int32), np.empty(most, np.int32)
        what_ranks = self._what_ranks(worth, factors)
        free, gone, promised, unrefreshed = contest.play(
            stops, old, numbers, room, seed is not None, seed or 0, self.matured, unrefreshed, *refreshed_after,
            *what_ranks[:3], nows, *what_ranks[4:-1], *self._contest(), self.slot_of, self.free, self.free_count,
            victims, slots, turns,
        )  # fmt: skip
        self._freed(free)
        self.promised -= promised
        self.matured, self.mature_until = self.matured + many, int(stops[-1])
        return victims[:gone], slots[:gone], turns[:gone], unrefreshed

    def look_again(self, worth: Worth, factors: Factors) -> None:
        """Give the rows that compete the priorities of now."""
        contest.look_again(*self._what_ranks(worth, factors), *self._contest())

    def ages_competing(self, worth: Worth, bins: int) -> npt.NDArray[np.float64]:
        """How many of the rows that compete are of each age."""
        ages = worth.now - self._ages(worth)[self._competitors()]
        return np.bincount(np.clip(ages / worth.per_bin, 0, bins - 1).astype(np.int64), minlength=bins).astype(float)

    def _what_ranks(self, worth: Worth, factors: Factors) -> tuple[Any, ...]:
        return (
            self.codes, self.flawed, self._ages(worth), worth.now, worth.scale, *factors.of_rows, worth.by_age,
            worth.per_bin, worth.per_count,
        )  # fmt: skip

    def _contest(self) -> tuple[Any, ...]:
        return self.held, self.levels, self.sizes, self.contest


def row_bytes_of(store: SheddingStore, rows: pa.RecordBatch) -> float:
    """What each of these rows will cost on average."""
    count = max(rows.num_rows, 1)
    texts = [name for name, column in store.columns.items() if not isinstance(column, SlottedFixed)]
    return expected_row_bytes(store, {name: rows.column(name).nbytes / count for name in texts})


def expected_row_bytes(store: SheddingStore, widths: Mapping[str, float]) -> float:
    """What a row with memory will cost, before there are any: `widths` are the bytes of columns of any length."""
    columns = store.columns.items()
    payload = [c.bytes_per_row if isinstance(c, SlottedFixed) else c.bytes_of(widths[name]) for name, c in columns]
    return store.bytes_around(sum(payload))
