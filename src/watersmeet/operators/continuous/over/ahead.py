"""LEAD: rows wait until the row that they ask for has come, or nothing more comes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from watersmeet.operators.continuous.aggregates.columns import grown
from watersmeet.operators.continuous.delta import Delta, Int64s
from watersmeet.operators.continuous.over.arranged import Arranged
from watersmeet.operators.continuous.over.frames import Named, Values
from watersmeet.operators.continuous.over.queues import Queues
from watersmeet.operators.continuous.row_table import RowTable
from watersmeet.operators.few_rows import taken
from watersmeet.operators.slots import Slots


class Lead:
    """One function: of each partition the rows that wait for theirs, as many as it looks ahead."""

    STATE = ("queues",)

    def __init__(self, offset: int) -> None:
        self.offset = offset
        self.queues = Queues()

    def met(self, rows: Arranged, held: Int64s, room: int) -> tuple[Int64s, Int64s]:
        """The numbers of held rows that new ones are looked for by, and which of these that is."""
        moved = self.queues.move(rows, held[rows.order], room, by_rows=True, reach=self.offset - 1)
        leaves = np.flatnonzero(moved.signs < 0)
        asking = self.queues.keys[moved.changed[leaves]]
        self.queues.slots.give_back(moved.left)
        return asking, rows.order[moved.steps_of_changes[leaves]]


class Ahead:
    """Rows with all that is known of them, until every LEAD of theirs is."""

    STATE = ("slots", "rows", "found", "defaults", "leads", "_missing", "_serials", "_certain_us", "_next", "_last_us")

    def __init__(self, known: pa.Schema, calls: Sequence[Named]) -> None:
        """known: the columns besides those of LEAD."""
        self.calls = list(calls)
        self.schema = pa.schema([*known, *(pa.field(name, call.type) for name, call in self.calls)])
        self.slots = Slots()
        self.leads = [Lead(call.offset) for _, call in self.calls]
        # What a LEAD has found lies in a table of its own: it comes later than the rest.
        self.rows = RowTable(known)
        self.found = [RowTable(pa.schema([pa.field(name, call.type)])) for name, call in self.calls]
        self.defaults = [RowTable(pa.schema([pa.field(name, call.type)])) for name, call in self.calls]
        self._missing: Int64s = np.zeros(0, np.int64)
        self._serials: Int64s = np.zeros(0, np.int64)
        self._certain_us: Int64s = np.zeros(0, np.int64)
        self._next = 0
        self._last_us = 0

    @property
    def held_rows(self) -> int:
        return self.slots.used

    @property
    def nbytes(self) -> int:
        tables = (self.rows, *self.found, *self.defaults)
        return sum(table.nbytes for table in tables) + sum(lead.queues.nbytes for lead in self.leads)

    def enter(
        self, known: pa.RecordBatch, instants: Int64s, arranged: Mapping[str, tuple[Arranged, int]], values: Values
    ) -> Delta:
        """Take new rows, each LEAD with its order of them and the room of its partitions; the rows that are known now,
        each at the instant at which they are."""
        n = instants.size
        held = self.slots.take(n)
        room = self.slots.room
        self._missing, self._serials = grown(self._missing, room), grown(self._serials, room)
        self._certain_us = grown(self._certain_us, room)
        self.rows.put(held, known.columns)
        self._missing[held] = len(self.calls)
        self._serials[held] = np.arange(self._next, self._next + n)
        self._next += n
        self._last_us = int(instants[-1]) if n else self._last_us
        complete = [np.empty(0, np.int64)]
        for (name, call), lead, found, default in zip(self.calls, self.leads, self.found, self.defaults, strict=True):
            if len(call.args) > 1:
                default.put(held, [values(call.args[1])])
            asking, met = lead.met(arranged[name][0], held, arranged[name][1])
            found.put(asking, [taken(values(call.args[0]), met)])
            # A row may be asked for by several of one call's, but each asks once.
            self._missing[asking] -= 1
            self._certain_us[asking] = np.maximum(self._certain_us[asking], instants[met])
            complete.append(asking[self._missing[asking] == 0])
        ready = np.unique(np.concatenate(complete))
        return self._given(ready)

    def end(self) -> Delta:
        """Nothing more comes: all that waits, with NULL or the default where nothing was found."""
        waiting = np.flatnonzero(self.rows.holds(np.arange(self.slots.room)))
        self._certain_us[waiting] = self._last_us
        for lead in self.leads:
            lead.queues = Queues()
        return self._given(waiting)

    def _given(self, held: Int64s) -> Delta:
        held = held[np.lexsort((self._serials[held], self._certain_us[held]))]
        columns = self.rows.get(held)
        for (_, call), found, default in zip(self.calls, self.found, self.defaults, strict=True):
            columns.append(_found(held, found, default if len(call.args) > 1 else None, call.type))
        data = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        instants = self._certain_us[held]
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
