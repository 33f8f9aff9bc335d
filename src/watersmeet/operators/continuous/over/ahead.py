"""LEAD and frames that look ahead: rows wait until those that they ask for are certain, or nothing more comes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from watersmeet.model.time import FOREVER_US
from watersmeet.operators.continuous.aggregates.columns import grown
from watersmeet.operators.continuous.delta import Delta, Int64s
from watersmeet.operators.continuous.over.around import Around, Met
from watersmeet.operators.continuous.over.arranged import Arranged
from watersmeet.operators.continuous.over.frames import Moving, Named, Values
from watersmeet.operators.continuous.over.lined import Lined, value_of
from watersmeet.operators.continuous.over.partitions import is_lead, with_one_frame
from watersmeet.operators.continuous.over.queues import Queues
from watersmeet.operators.continuous.row_table import RowTable
from watersmeet.operators.contract import WaitingRows
from watersmeet.operators.few_rows import taken
from watersmeet.operators.slots import Slots
from watersmeet.physical.over import calls_alike
from watersmeet.plan.over_functions import OFFSETS, VALUES


class Lead:
    """One function: of each partition the rows that wait for theirs, as many as it looks ahead."""

    STATE = ("queues",)

    def __init__(self, named: Named) -> None:
        self.calls = [named]
        self.queues = Queues()

    @property
    def nbytes(self) -> int:
        return self.queues.nbytes

    def met(self, rows: Arranged, held: Int64s, room: int, values: Values, until: int) -> Iterator[Met]:
        """The numbers of held rows that new ones are looked for by, and these."""
        ((name, call),) = self.calls
        asking, found = _asking(self.queues, rows, held, room, call.offset)
        yield Met(name, asking, taken(values(call.args[0]), rows.order[found]), rows.keys[found])

    def next_due(self) -> int:
        return FOREVER_US

    def passed(self, until: int, *, ended: bool = False) -> Iterator[Met]:
        """Time alone brings no row; at the end nobody has to be looked for."""
        if ended:
            self.queues = Queues()
        return iter(())


class Shifted:
    """Aggregates of the same frame of rows, which begins with the current row or before it and ends so many after: it
    is the frame that ends with the last of these and has as many rows, so that each enters and leaves it once."""

    STATE = ("queues", "moving")

    def __init__(self, calls: Sequence[Named]) -> None:
        self.calls = list(calls)
        frame = self.calls[0][1].frame
        assert frame.start is not None
        assert frame.end is not None
        self.ahead = frame.end
        self.moving = Moving(self.calls, by_rows=True, reach=frame.end - frame.start)
        self.queues = Queues()  # of the rows that wait

    @property
    def nbytes(self) -> int:
        return self.queues.nbytes + self.moving.nbytes

    def met(self, rows: Arranged, held: Int64s, room: int, values: Values, until: int) -> Iterator[Met]:
        made = self.moving.apply(rows, values, room)
        asking, found = _asking(self.queues, rows, held, room, self.ahead)
        for name, column in made.items():
            yield Met(name, asking, taken(column, rows.order[found]), rows.keys[found])

    def next_due(self) -> int:
        return FOREVER_US

    def passed(self, until: int, *, ended: bool = False) -> Iterator[Met]:
        """At the end, what there is in the frames of those that wait: the last rows of their partitions."""
        if not ended:
            return
        waiting, waiting_ends, partitions = self.queues.held(np.arange(self.queues.partitions))
        asking = self.queues.keys[waiting]
        self.queues = Queues()
        # These stay: should more come after all, it still looks back at them.
        slots, ends, _ = self.moving.queues.held(partitions)
        places = np.arange(slots.size)
        lines = Lined(np.append(0, ends), places, places)
        behind = np.repeat(ends - waiting_ends, np.diff(waiting_ends, prepend=0))
        for name, call in self.calls:
            found = value_of(call, lines, behind + np.arange(asking.size), partial(self.moving.argument, slots))
            yield Met(name, asking, found, np.zeros(asking.size, np.int64))


def _asking(queues: Queues, rows: Arranged, held: Int64s, room: int, ahead: int) -> tuple[Int64s, Int64s]:
    """Which of the rows that wait new ones are so many rows ahead of, and the places of those."""
    moved = queues.move(rows, held[rows.order], room, by_rows=True, reach=ahead - 1)
    leaves = np.flatnonzero(moved.signs < 0)
    asking = queues.keys[moved.changed[leaves]]
    queues.slots.give_back(moved.left)
    return asking, moved.steps_of_changes[leaves]


def _asker(calls: Sequence[Named]) -> Iterator[Shifted | Around]:
    """Who finds out what functions of one frame give."""
    frame = calls[0][1].frame
    in_turn = frame.unit == "rows" and frame.start is not None and frame.start <= 0 and not frame.exclude
    shifted = [each for each in calls if in_turn and each[1].function not in (*OFFSETS, *VALUES)]
    others = [each for each in calls if each not in shifted]
    if shifted:
        yield Shifted(shifted)
    if others:
        yield Around(others)


class Ahead:
    """Rows with all that is known of them, until all that they ask for is."""

    STATE = ("slots", "rows", "found", "defaults", "askers", "_missing", "_serials", "_times_us", "_certain_us",
             "_next", "_last_us")  # fmt: skip

    def __init__(self, known: pa.Schema, calls: Sequence[Named]) -> None:
        """known: the columns besides those of the functions that look ahead."""
        self.calls = list(calls)
        self.schema = pa.schema([*known, *(pa.field(name, call.type) for name, call in self.calls)])
        self.slots = Slots()
        leads = [Lead((name, call)) for name, call in self.calls if is_lead(call)]
        framed = [alike for part in calls_alike(self.calls) for alike in with_one_frame(part)]
        self.askers: list[Lead | Shifted | Around] = [*leads, *(asker for alike in framed for asker in _asker(alike))]
        # What a function has found lies in a table of its own: it comes later than the rest.
        self.rows = RowTable(known)
        self.found = [RowTable(pa.schema([pa.field(name, call.type)])) for name, call in self.calls]
        self.defaults = [RowTable(pa.schema([pa.field(name, call.type)])) for name, call in self.calls]
        self._missing: Int64s = np.zeros(0, np.int64)
        self._serials: Int64s = np.zeros(0, np.int64)
        self._times_us: Int64s = np.zeros(0, np.int64)
        self._certain_us: Int64s = np.zeros(0, np.int64)
        self._next = 0
        self._last_us = 0

    @property
    def held_rows(self) -> int:
        return self.slots.used

    @property
    def nbytes(self) -> int:
        tables = (self.rows, *self.found, *self.defaults)
        return sum(table.nbytes for table in tables) + sum(one.nbytes for one in self.askers)

    def next_due(self) -> int:
        """The earliest instant at which time alone makes a row certain."""
        return min(one.next_due() for one in self.askers)

    def waiting(self) -> WaitingRows | None:
        """What there is to tell of the rows that wait, if any do."""
        if not self.slots.used:
            return None
        times = self._times_us[self._held()]
        return WaitingRows(int(times.size), int(times.min()), int(times.max()))

    def _held(self) -> Int64s:
        return np.flatnonzero(self.rows.holds(np.arange(self.slots.room)))

    def enter(
        self,
        known: pa.RecordBatch,
        instants: Int64s,
        arranged: Mapping[str, tuple[Arranged, int]],
        values: Values,
        until: int,
    ) -> Delta:
        """Take new rows, each function with its order of them and the room of its partitions; the rows that are known
        now, each at the instant at which they are."""
        n = instants.size
        held = self.slots.take(n)
        room = self.slots.room
        self._missing, self._serials = grown(self._missing, room), grown(self._serials, room)
        self._times_us, self._certain_us = grown(self._times_us, room), grown(self._certain_us, room)
        self._times_us[held] = instants
        self.rows.put(held, known.columns)
        self._missing[held] = len(self.calls)
        self._serials[held] = np.arange(self._next, self._next + n)
        self._next += n
        self._last_us = int(instants[-1]) if n else self._last_us
        self._certain_us[held] = instants
        for (_, call), default in zip(self.calls, self.defaults, strict=True):
            if len(call.args) > 1:
                default.put(held, [values(call.args[1])])
        ready = []
        for one in self.askers:
            rows, size = arranged[one.calls[0][0]]
            ready.append(self._noted(one.met(rows, held, size, values, until)))
        return self._given(np.unique(np.concatenate(ready)))

    def passed(self, until: int) -> Delta:
        """The rows of which time makes all certain that they ask for."""
        ready = [self._noted(one.passed(until)) for one in self.askers if one.next_due() < until]
        return self._given(np.unique(np.concatenate([np.empty(0, np.int64), *ready])))

    def _noted(self, met: Iterable[Met]) -> Int64s:
        """The rows of which nothing is missing any more."""
        complete = [np.empty(0, np.int64)]
        places = {name: place for place, (name, _) in enumerate(self.calls)}
        for one in met:
            self.found[places[one.name]].put(one.asking, [one.values])
            # A row may be asked for by several of one call's, but each asks once.
            self._missing[one.asking] -= 1
            self._certain_us[one.asking] = np.maximum(self._certain_us[one.asking], one.instants)
            complete.append(one.asking[self._missing[one.asking] == 0])
        return np.concatenate(complete)

    def end(self) -> Delta:
        """Nothing more comes: all that waits, with what there is in its frames, and NULL or the default where nothing
        was found."""
        waiting = self._held()
        for one in self.askers:
            self._noted(one.passed(FOREVER_US, ended=True))
        self._certain_us[waiting] = self._last_us
        return self._given(waiting)

    def _given(self, held: Int64s) -> Delta:
        held = held[np.lexsort((self._serials[held], self._certain_us[held]))]
        columns = self.rows.get(held)
        for (_, call), found, default in zip(self.calls, self.found, self.defaults, strict=True):
            columns.append(_found(held, found, default if len(call.args) > 1 else None, call.type))
        data = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        instants = self._certain_us[held]
        self._last_us = max(self._last_us, int(instants.max(initial=self._last_us)))
        with_default = [table for (_, call), table in zip(self.calls, self.defaults, strict=True) if len(call.args) > 1]
        for table in (self.rows, *self.found, *with_default):
            table.drop(held)
        self._certain_us[held] = 0
        self.slots.give_back(held)
        return Delta(data, instants, np.ones(held.size, np.int64), np.zeros(held.size, np.int64))


def _found(held: Int64s, found: RowTable, default: RowTable | None, kind: pa.DataType) -> pa.Array:
    there = found.holds(held) if held.size else np.zeros(0, np.bool_)
    (values,) = found.get(held[there])
    if bool(there.all()):
        return values
    missing = held[~there]
    others = pa.nulls(missing.size, kind) if default is None else default.get(missing)[0]
    places = np.empty(held.size, np.int64)
    places[np.concatenate([np.flatnonzero(there), np.flatnonzero(~there)])] = np.arange(held.size)
    return pa.concat_arrays([values, others.cast(kind)]).take(pa.array(places))
