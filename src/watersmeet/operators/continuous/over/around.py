"""Frames over a stream that end before the current row, or after it, or leave rows out: of each partition the rows that
are still asked for, and what is made of them whenever rows come or time passes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.model.time import FOREVER_US
from watersmeet.operators.continuous.delta import Bools, Int64s
from watersmeet.operators.continuous.over.arranged import Arranged
from watersmeet.operators.continuous.over.frames import Named, Running, Values, or_else
from watersmeet.operators.continuous.over.lined import Lined, places_away, value_of
from watersmeet.operators.continuous.over.queues import Queues
from watersmeet.operators.continuous.row_table import RowTable
from watersmeet.operators.few_rows import taken
from watersmeet.operators.kernels import frames as kernel
from watersmeet.plan.expressions import Expression, OverCall
from watersmeet.plan.over_functions import OFFSETS

PEERS, KEYS, ASKS = "#peers", "#keys", "#asks"
NOBODY = -1
NOTHING_DUE = np.iinfo(np.int64).max
AT_THE_END = FOREVER_US - 1  # what only more rows, or the end of all, make certain


@dataclass(frozen=True)
class Met:
    """What became known of rows that asked, by their numbers, and the instants at which it did."""

    name: str
    asking: Int64s
    values: pa.Array
    instants: Int64s


@dataclass(frozen=True)
class _Rows:
    """Rows by partition, in their order: those that were held and those that have come."""

    partitions: Int64s
    columns: dict[str, pa.Array]

    def numbers(self, name: str) -> Int64s:
        # A copy: of arrays that may not be written to kernels are compiled once more.
        return np.array(self.columns[name], np.int64)

    def take(self, places: Int64s) -> _Rows:
        return _Rows(self.partitions[places], {name: taken(one, places) for name, one in self.columns.items()})

    @property
    def begins(self) -> Bools:
        return np.append(True, self.partitions[1:] != self.partitions[:-1])[: self.partitions.size]


class Around:
    """Functions with one PARTITION BY, ORDER BY and frame, or one LAG or LEAD that passes over NULLs. What a frame from
    the first row gives is what all rows up to its last one give, so that of those before nothing is kept."""

    STATE = ("queues", "rows", "running", "_due", "_next_peer")

    def __init__(self, calls: Sequence[Named]) -> None:
        self.calls = list(calls)
        _, self.one = self.calls[0]
        self.frame = self.one.frame
        self.running: Running | None = None
        if self.one.function not in OFFSETS and self.frame.start is None:
            self.running = Running([each for each in self.calls if each[1].function != "last_value"], by_rows=True)
        self.queues = Queues()
        self.parts = list(dict.fromkeys(part for _, call in self.calls for part in _read(call)))
        held = [(name, call.type) for name, call in self.calls]
        if self.running is None:
            held = [(str(place), part.type) for place, part in enumerate(self.parts)]
        self.rows = RowTable(pa.schema([*held, *((name, pa.int64()) for name in (PEERS, KEYS, ASKS))]))
        self._due: Int64s = np.zeros(0, np.int64)  # by partition: when the first row that waits is certain
        self._next_peer = 0

    @property
    def held_rows(self) -> int:
        return self.queues.slots.used

    @property
    def nbytes(self) -> int:
        own = self.queues.nbytes + self.rows.nbytes + self._due.nbytes
        return own + (0 if self.running is None else self.running.nbytes)

    def next_due(self) -> int:
        """When time alone makes something certain next."""
        first = int(self._due.min(initial=NOTHING_DUE))
        return first if first < AT_THE_END else FOREVER_US

    # ---- rows that come, and time that passes -------------------------------------------------------------

    def apply(self, rows: Arranged, values: Values, room: int) -> dict[str, pa.Array]:
        """Of functions that ask for no row to come."""
        made = {}
        for met in self.met(rows, np.arange(len(rows)), room, values, FOREVER_US):
            back = np.empty(len(rows), np.int64)
            back[met.asking] = np.arange(len(rows))
            made[met.name] = taken(met.values, back)
        return made

    def met(self, rows: Arranged, asks: Int64s, room: int, values: Values, until: int) -> Iterator[Met]:
        """Take new rows, known by the numbers that ask for them as they came; what is certain now, all rows before an
        instant being there."""
        if room > self._due.size:
            self._due = np.append(self._due, np.full(room - self._due.size, NOTHING_DUE))
        columns = self._columns(rows, values, room)
        columns |= {PEERS: pa.array(self._next_peer + rows.cells), KEYS: pa.array(rows.keys)}
        self._next_peer += rows.count
        columns[ASKS] = pa.array(asks[rows.order])
        new = _Rows(rows.partitions, columns)
        return self._worked_out(rows.partitions[rows.begins], new, until, ended=False)

    def passed(self, until: int, *, ended: bool = False) -> Iterator[Met]:
        """What time, or the end of all, makes certain."""
        due = np.flatnonzero(self._due < until)
        if not due.size:
            return iter(())
        return self._worked_out(due, None, until, ended=ended)

    def empty(self, partitions: Int64s) -> None:
        slots, _, _ = self.queues.empty(partitions)
        self._leave(slots)

    def _leave(self, slots: Int64s) -> None:
        self.rows.drop(slots)
        self.queues.slots.give_back(slots)

    def _columns(self, rows: Arranged, values: Values, room: int) -> dict[str, pa.Array]:
        if self.running is None:
            return {str(place): rows.values(values(part)) for place, part in enumerate(self.parts)}
        made = self.running.apply(rows, values, room) if self.running.has_calls else {}
        own = {name: values(call.args[0]) for name, call in self.calls if call.function == "last_value"}
        return {name: rows.values((made | own)[name]) for name, _ in self.calls}

    # ---- what is made of them -----------------------------------------------------------------------------

    def _worked_out(self, partitions: Int64s, new: _Rows | None, until: int, *, ended: bool) -> Iterator[Met]:
        rows = self._taken_out(partitions, new)
        starts = np.append(np.flatnonzero(rows.begins), rows.partitions.size)
        lines = Lined(starts, rows.numbers(PEERS), rows.numbers(KEYS))

        def values(part: Expression) -> pa.Array:
            return rows.columns[str(self.parts.index(part))]

        asks = rows.numbers(ASKS)
        waiting = np.flatnonzero(asks != NOBODY)
        instants = self._certain(lines, waiting, values, until)
        ready = np.ones(waiting.size, np.bool_) if ended else instants < FOREVER_US
        asked = waiting[ready]
        met = [
            Met(name, asks[asked], self._value(name, call, lines, asked, rows, values), instants[ready])
            for name, call in (self.calls if asked.size else ())
        ]
        waits = asks != NOBODY
        waits[asked] = False
        self._put_back(rows, lines, waits, values)
        return iter(met)

    def _taken_out(self, partitions: Int64s, new: _Rows | None) -> _Rows:
        slots, ends, held = self.queues.empty(partitions)
        columns = dict(zip(self.rows.schema.names, self.rows.get(slots), strict=True))
        old = _Rows(np.repeat(held, np.diff(ends, prepend=0)), columns)
        self._leave(slots)
        if new is None or not slots.size:
            return old if new is None else new
        both = {name: pa.concat_arrays([one, new.columns[name]]) for name, one in old.columns.items()}
        everything = _Rows(np.concatenate([old.partitions, new.partitions]), both)
        return everything.take(np.argsort(everything.partitions, kind="stable"))

    def _certain(self, lines: Lined, waiting: Int64s, values: Values, until: int) -> Int64s:
        """When it is known what each of the rows asks for; FOREVER_US if it is not yet."""
        frame = self.frame
        if self.one.function == "lead":
            there, known, _ = places_away(self.one, lines, waiting, values)
        elif self.one.function == "lag" or frame.end is None or frame.end <= 0:
            return lines.keys[waiting]
        elif frame.by_keys:
            at = lines.keys[waiting] + frame.end
            return np.where(at < until, at, FOREVER_US)
        else:
            measure = lines.measure(frame)
            there = np.searchsorted(measure, measure[waiting] + frame.end)
            known = there < lines.stops[waiting]
        return np.where(known, lines.keys[np.where(known, there, 0)], FOREVER_US)

    def _value(self, name: str, call: OverCall, lines: Lined, asked: Int64s, rows: _Rows, values: Values) -> pa.Array:
        if self.running is None:
            return value_of(call, lines, asked, values)
        _, stops = lines.edges(self.frame)
        there = stops[asked] > lines.begins[asked]
        found = or_else(taken(rows.columns[name], np.where(there, stops[asked] - 1, 0)), there, None)
        return found.fill_null(0) if call.function == "count" else found

    def _put_back(self, rows: _Rows, lines: Lined, waits: Bools, values: Values) -> None:
        kept = np.flatnonzero(self._still_needed(lines, waits, values))
        asks = np.where(waits, rows.numbers(ASKS), NOBODY)
        places = np.flatnonzero(waits)
        self._due[rows.partitions[lines.starts[:-1]]] = NOTHING_DUE
        due = lines.keys[places] + (self.frame.end or 0) if self.frame.by_keys else np.full(places.size, AT_THE_END)
        np.minimum.at(self._due, rows.partitions[places], np.minimum(due, AT_THE_END))
        left = rows.take(kept)
        n = kept.size
        if not n:
            return
        every = np.arange(n)
        line = Arranged(every, left.partitions, left.numbers(KEYS), left.begins, every, every, n)
        moved = self.queues.move(line, line.keys, int(self._due.size), by_rows=True, reach=FOREVER_US)
        left.columns[ASKS] = pa.array(asks[kept])
        self.rows.put(moved.slots, [left.columns[name] for name in self.rows.schema.names])

    def _still_needed(self, lines: Lined, waits: Bools, values: Values) -> Bools:
        if self.one.function == "lead":
            return waits
        if self.one.function == "lag":
            counted = lines.counted(values(self.one.args[0]))
            left = counted.before[lines.stops] - counted.before[:-1]
            return (np.diff(counted.before) > 0) & (left <= self.one.offset)
        frame, last = self.frame, lines.starts[1:] - 1
        measure = lines.measure(frame)
        coming = measure[last] + (0 if frame.by_keys else 1)
        needed = np.empty(last.size, np.int64)
        ends = (frame.start or 0, frame.end or 0, frame.start is not None)
        kernel.needed_since(lines.starts, measure, coming, waits, *ends, needed)
        return np.arange(len(lines)) >= needed[lines.parts]


def _read(call: OverCall) -> tuple[Expression, ...]:
    return call.args if call.by is None else (*call.args, call.by)
