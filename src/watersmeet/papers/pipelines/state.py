"""The tuples that a stateful operator of H04 holds, its LocalClock, and how it finds what has expired."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.model.time import BEGINNING_US, FOREVER_US
from watersmeet.operators.continuous.delta import Int64s
from watersmeet.operators.continuous.row_ids import RowIds
from watersmeet.operators.continuous.row_table import RowTable
from watersmeet.papers.pipelines.contract import Noticing
from watersmeet.papers.pipelines.kernels.expiry import NONE, in_turn
from watersmeet.papers.pipelines.tuples import Int64Table, Tuples

FIRST_ROOM = 256


@dataclass(frozen=True)
class Happened:
    """Slots of a state that were taken or left, in order: when and why (ENTERED, EXPIRED or WITHDRAWN)."""

    slots: Int64s
    instants: Int64s
    causes: Int64s

    def __len__(self) -> int:
        return int(self.slots.size)


class State:
    """H: tuples hashed by value. Under time probing each is held with the timestamps of its constituents, and all are
    looked at for what has expired; under negative tuples nothing expires by time."""

    STATE = (
        "ids", "rows", "clock", "value", "number", "stamps", "newest", "oldest", "older", "newer", "turn", "bounds",
        "free", "_held",
    )  # fmt: skip

    def __init__(self, schema: pa.Schema, windows: Int64s, noticing: Noticing, work: dict[str, int]) -> None:
        """windows: how long each constituent lasts after its timestamp. work: where comparisons are counted."""
        self.schema = schema
        self.windows = windows
        self.noticing = noticing
        self.by_time = noticing != "negative"
        self.single = bool(windows.size) and bool((windows == windows[0]).all())
        self.work = work
        self.ids = RowIds()
        self.rows = RowTable(schema)
        self.clock = BEGINNING_US  # LocalClock: all that happened before it has been noticed
        self._make_slots(FIRST_ROOM)
        self._held = 0
        self.newest: Int64s = np.full(self.ids.room, NONE, np.int64)
        self.oldest: Int64s = self.newest.copy()

    @property
    def held(self) -> int:
        return self._held

    @property
    def room(self) -> int:
        return int(self.value.size)

    @property
    def nbytes(self) -> int:
        slots = (self.value, self.number, self.stamps, self.older, self.newer, self.turn, self.free)
        return self.ids.nbytes + self.rows.nbytes + sum(int(array.nbytes) for array in slots)

    def process(self, tuples: Tuples, get_time: Callable[[], int]) -> Happened:
        """Take tuples in, one after the other. Where time is probed, `get_time` of the operator below then says how far
        it has come; otherwise only tuples tell the time."""
        reached = get_time()
        if self.noticing != "at_next_input" or reached >= FOREVER_US:
            self.clock = max(self.clock, reached)
        elif len(tuples):
            # A tuple also tells of what ends at its own instant.
            self.clock = max(self.clock, int(tuples.instants[-1]) + 1)
        values = self._values(tuples)
        self._make_room(len(tuples))
        most = 2 * len(tuples) + self._held + 1
        found, ends, slots, at, causes = (np.empty(most, np.int64) for _ in range(5))
        work = np.zeros(1, np.int64)
        made = in_turn(
            tuples.instants, tuples.kinds, values, tuples.order, tuples.stamps, self.clock - 1, self.windows,
            self.by_time, self.single, self.value, self.number, self.stamps, self.newest, self.oldest, self.older,
            self.newer, self.turn, self.bounds, self.free, found, ends, slots, at, causes, work,
        )  # fmt: skip
        self.work["expiry_comparisons"] = self.work.get("expiry_comparisons", 0) + int(work[0])
        happened = Happened(slots[:made], at[:made], causes[:made])
        self._held += int(np.count_nonzero(happened.causes == 0)) - int(np.count_nonzero(happened.causes != 0))
        return happened

    def release(self, happened: Happened) -> None:
        """Slots that were left may be used again. Only now: what is output may be of a tuple that has left since."""
        gone = happened.slots[happened.causes != 0]
        count = int(self.bounds[2])
        self.free[count : count + gone.size] = gone
        self.bounds[2] += gone.size
        self._forget(np.unique(self.value[gone]))

    def next_end(self) -> int:
        """When the next of its tuples expires; FOREVER_US if none does by itself."""
        slots = self.turn[self.bounds[0] : self.bounds[1]]
        return int((self.stamps[slots] + self.windows).min(initial=FOREVER_US)) if self.by_time else FOREVER_US

    def data(self, slots: Int64s) -> list[pa.Array]:
        return self.rows.get(self.value[slots])

    def _forget(self, values: Int64s) -> None:
        empty = values[self.newest[values] == NONE]
        self.rows.drop(empty)
        self.ids.forget(empty)

    def _values(self, tuples: Tuples) -> Int64s:
        """A number for each row, the same for equal rows."""
        columns = tuples.data.columns
        values = self.ids.of(columns, len(tuples))
        if self.ids.room > self.newest.size:
            more = np.full(self.ids.room - self.newest.size, NONE, np.int64)
            self.newest = np.concatenate([self.newest, more])
            self.oldest = np.concatenate([self.oldest, more])
        new = np.flatnonzero(~self.rows.holds(values))
        _, first = np.unique(values[new], return_index=True)
        new = new[first]
        self.rows.put(values[new], [column.take(pa.array(new)) for column in columns])
        return values

    def _make_slots(self, room: int) -> None:
        self.value: Int64s = np.zeros(room, np.int64)
        self.number: Int64s = np.zeros(room, np.int64)
        self.stamps: Int64Table = np.zeros((room, self.windows.size), np.int64)
        self.older: Int64s = np.full(room, NONE, np.int64)
        self.newer: Int64s = np.full(room, NONE, np.int64)
        self.turn: Int64s = np.zeros(room, np.int64)
        self.free: Int64s = np.arange(room - 1, -1, -1)
        self.bounds: Int64s = np.array([0, 0, room], np.int64)

    def _make_room(self, count: int) -> None:
        first, last, free = (int(x) for x in self.bounds)
        # Those in use stand at the front again, so that the queue does not run out of its array.
        self.turn[: last - first] = self.turn[first:last].copy()
        self.bounds[:] = 0, last - first, free
        if free >= count:
            return
        old, room = self.room, max(2 * self.room, self._held + 2 * count)
        for name in ("value", "number", "older", "newer", "turn", "free"):
            setattr(self, name, np.concatenate([getattr(self, name), np.zeros(room - old, np.int64)]))
        self.stamps = np.concatenate([self.stamps, np.zeros((room - old, self.windows.size), np.int64)])
        self.free[free : free + room - old] = np.arange(room - 1, old - 1, -1)
        self.bounds[2] = free + room - old


def side_by_side(*parts: Sequence[int]) -> Int64s:
    """The windows of several inputs as those of what is made of them."""
    return np.concatenate([np.asarray(part, np.int64) for part in parts])
