"""What functions of OVER make of frames: of all rows up to the current one, or of the last few."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.operators.continuous.aggregates import make_aggregator
from watersmeet.operators.continuous.aggregates.columns import grown
from watersmeet.operators.continuous.aggregates.contract import Aggregator, Cells
from watersmeet.operators.continuous.aggregates.counts import Count
from watersmeet.operators.continuous.delta import Int64s
from watersmeet.operators.continuous.over.arranged import Arranged
from watersmeet.operators.continuous.over.queues import Queues
from watersmeet.operators.continuous.row_table import RowTable
from watersmeet.operators.few_rows import taken
from watersmeet.plan.expressions import Expression, OverCall
from watersmeet.plan.over_functions import VALUES

Named = tuple[str, OverCall]
Values = Callable[[Expression], pa.Array]  # of the new rows, as they came


def or_else(found: pa.Array, there: np.ndarray[tuple[int], np.dtype[np.bool_]], default: pa.Array | None) -> pa.Array:
    """What was found, and where there was nothing to find NULL, or what stands in for it."""
    if bool(there.all()):
        return found
    instead = pa.nulls(len(found), found.type) if default is None else default
    if pa.types.is_nested(found.type):
        at = np.where(there, np.arange(there.size), there.size + np.arange(there.size))
        return pa.concat_arrays([found, instead.cast(found.type)]).take(pa.array(at))
    return pc.if_else(pa.array(there), found, instead.cast(found.type))


class Running:
    """Frames that begin with the first row of the partition: nothing leaves them."""

    STATE = ("aggregators", "firsts", "counts", "nths")

    def __init__(self, calls: Sequence[Named], *, by_rows: bool) -> None:
        self.by_rows = by_rows
        self.has_calls = bool(calls)
        self.calls = [(name, call) for name, call in calls if call.function not in VALUES]
        self.first_calls = [(name, call) for name, call in calls if call.function == "first_value"]
        self.aggregators: list[Aggregator] = [make_aggregator(call.aggregate, fifo=True) for _, call in self.calls]
        self.firsts = RowTable(pa.schema([pa.field(name, call.args[0].type) for name, call in self.first_calls]))
        self.nth_calls = [(name, call) for name, call in calls if call.function == "nth_value"]
        self.counts = [Count() for _ in self.nth_calls]
        self.nths = [RowTable(pa.schema([pa.field(name, call.type)])) for name, call in self.nth_calls]

    @property
    def held_rows(self) -> int:
        return 0

    @property
    def nbytes(self) -> int:
        tables = sum(one.nbytes for one in (self.firsts, *self.nths))
        return tables + sum(one.nbytes for one in (*self.counts, *self.aggregators))

    def apply(self, rows: Arranged, values: Values, room: int) -> dict[str, pa.Array]:
        made: dict[str, pa.Array] = {}
        ends = np.arange(1, len(rows) + 1) if self.by_rows else rows.cell_ends
        places = rows.back if self.by_rows else rows.cells[rows.back]
        cells = Cells(rows.partitions, np.ones(len(rows), np.int64), ends)
        for (name, call), aggregator in zip(self.calls, self.aggregators, strict=True):
            aggregator.grow(room)
            argument = rows.values(values(call.args[0])) if call.args else None
            made[name] = taken(aggregator.apply(cells, argument, rows.numbers), places)
        if self.first_calls:
            self._note_firsts(rows, values)
            kept = self.firsts.get(rows.partitions[rows.back])
            made |= {name: column for (name, _), column in zip(self.first_calls, kept, strict=True)}
        for (name, call), count, nth in zip(self.nth_calls, self.counts, self.nths, strict=True):
            count.grow(room)
            made[name] = taken(_nth(call, cells, count, nth, rows, values), places)
        return made

    def _note_firsts(self, rows: Arranged, values: Values) -> None:
        starts = np.flatnonzero(rows.begins)
        new = starts[~self.firsts.holds(rows.partitions[starts])]
        columns = [taken(values(call.args[0]), rows.order[new]) for _, call in self.first_calls]
        self.firsts.put(rows.partitions[new], columns)

    def empty(self, partitions: Int64s) -> None:
        raise AssertionError("what has seen all rows of a partition never forgets it")


def _nth(call: OverCall, cells: Cells, count: Count, nth: RowTable, rows: Arranged, values: Values) -> pa.Array:
    """NTH_VALUE of all rows up to each one."""
    given = rows.values(values(call.args[0]))
    counted = count.apply(cells, given if call.ignores_nulls else None, rows.numbers).to_numpy(zero_copy_only=False)
    # Where the count does not move on no row counts.
    here = np.flatnonzero((counted == call.offset) & ~nth.holds(rows.partitions))
    here = here[np.append(True, rows.partitions[here][1:] != rows.partitions[here][:-1])[: here.size]]
    nth.put(rows.partitions[here], [taken(given, here)])
    known = counted >= call.offset
    found = np.flatnonzero(known)
    places = np.zeros(known.size, np.int64)
    places[found] = np.arange(found.size)
    (kept,) = nth.get(rows.partitions[found])
    return or_else(taken(kept, places), known, None) if found.size else pa.nulls(known.size, call.type)


class Whole:
    """Frames of all rows of a partition, which are all there."""

    STATE = ("aggregators",)

    held_rows = 0

    def __init__(self, calls: Sequence[Named]) -> None:
        self.calls = list(calls)
        self.aggregators: list[Aggregator] = [make_aggregator(call.aggregate, fifo=True) for _, call in self.calls]

    @property
    def nbytes(self) -> int:
        return sum(one.nbytes for one in self.aggregators)

    def apply(self, rows: Arranged, values: Values, room: int) -> dict[str, pa.Array]:
        ends = np.append(np.flatnonzero(rows.begins)[1:], len(rows))
        cells = Cells(rows.partitions, np.ones(len(rows), np.int64), ends)
        places = (np.cumsum(rows.begins) - 1)[rows.back]
        made = {}
        for (name, call), aggregator in zip(self.calls, self.aggregators, strict=True):
            aggregator.grow(room)
            argument = rows.values(values(call.args[0])) if call.args else None
            made[name] = taken(aggregator.apply(cells, argument, rows.numbers), places)
        return made

    def empty(self, partitions: Int64s) -> None:
        raise AssertionError("rows that are all there are not forgotten one by one")


class Moving:
    """Frames of so many rows, or of so much time, before the current row. LAG is the first row of such a frame."""

    STATE = ("queues", "rows", "numbers", "aggregators")

    def __init__(self, calls: Sequence[Named], *, by_rows: bool, reach: int) -> None:
        self.by_rows = by_rows
        self.reach = reach
        self.calls = list(calls)
        self.queues = Queues()
        self.numbers: Int64s = np.zeros(0, np.int64)  # by slot
        self.arguments = list(dict.fromkeys(call.args[0] for _, call in self.calls if call.args))
        self.rows = RowTable(pa.schema([pa.field(f"arg_{i}", e.type) for i, e in enumerate(self.arguments)]))
        self.aggregates = [(name, call) for name, call in self.calls if call.function not in ("first_value", "lag")]
        self.looking = [(name, call) for name, call in self.calls if call.function in ("first_value", "lag")]
        self.aggregators: list[Aggregator] = [make_aggregator(call.aggregate, fifo=True) for _, call in self.aggregates]

    @property
    def held_rows(self) -> int:
        return self.queues.slots.used

    @property
    def nbytes(self) -> int:
        own = self.queues.nbytes + self.rows.nbytes + self.numbers.nbytes
        return own + sum(one.nbytes for one in self.aggregators)

    def apply(self, rows: Arranged, values: Values, room: int) -> dict[str, pa.Array]:
        moved = self.queues.move(rows, rows.keys, room, by_rows=self.by_rows, reach=self.reach)
        self.numbers = grown(self.numbers, self.queues.slots.room)
        self.numbers[moved.slots] = rows.numbers
        self.rows.put(moved.slots, [rows.values(values(argument)) for argument in self.arguments])
        places = rows.back if self.by_rows else rows.cells[rows.back]
        made: dict[str, pa.Array] = {}
        if self.aggregates:
            starts = np.arange(len(rows)) if self.by_rows else np.append(0, rows.cell_ends[:-1])
            groups = rows.partitions[starts][moved.steps_of_changes]
            made |= self._aggregated(Cells(groups, moved.signs, moved.ends), moved.changed, places, room)
        for name, call in self.looking:
            (found,) = self._get([call.args[0]], moved.firsts[places])
            if call.function == "lag":
                default = values(call.args[1]) if len(call.args) > 1 else None
                found = or_else(found, moved.held[places] > self.reach, default)
            made[name] = found
        self._leave(moved.left)
        return made

    def _aggregated(self, cells: Cells, slots: Int64s, places: Int64s | None, room: int) -> dict[str, pa.Array]:
        numbers = self.numbers[slots]
        made = {}
        known: dict[Expression, pa.Array] = {}
        for (name, call), aggregator in zip(self.aggregates, self.aggregators, strict=True):
            aggregator.grow(room)
            if call.args and call.args[0] not in known:
                (known[call.args[0]],) = self._get([call.args[0]], slots)
            argument = known[call.args[0]] if call.args else None
            found = aggregator.apply(cells, argument, numbers)
            if places is not None:
                made[name] = taken(found, places)
        return made

    def argument(self, slots: Int64s, part: Expression) -> pa.Array:
        """What an aggregate takes, of rows that are in the frame."""
        return self._get([part], slots)[0]

    def _get(self, wanted: Sequence[Expression], slots: Int64s) -> list[pa.Array]:
        return self.rows.get(slots, [self.arguments.index(one) for one in wanted])

    def _leave(self, slots: Int64s) -> None:
        self.rows.drop(slots)
        self.queues.slots.give_back(slots)

    def empty(self, partitions: Int64s) -> None:
        """Forget the rows of partitions, so that their numbers may be used for others."""
        slots, ends, partitions = self.queues.empty(partitions)
        if not slots.size:
            return
        groups = np.repeat(partitions, np.diff(ends, prepend=0))
        self._aggregated(Cells(groups, np.full(slots.size, -1, np.int64), ends), slots, None, 0)
        self._leave(slots)
