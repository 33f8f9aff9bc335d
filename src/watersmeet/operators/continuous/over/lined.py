"""Rows of partitions one after the other, with all that frames may hold: what functions of OVER make of any frame."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.model.time import FOREVER_US
from watersmeet.operators.continuous.aggregates import make_aggregator
from watersmeet.operators.continuous.aggregates.contract import Cells
from watersmeet.operators.continuous.delta import Bools, Int64s
from watersmeet.operators.continuous.over.frames import or_else
from watersmeet.operators.few_rows import taken
from watersmeet.operators.kernels import frames as kernel
from watersmeet.plan.expressions import Expression, Frame, OverCall
from watersmeet.plan.over_functions import OFFSETS, SHARES, VALUES

Values = Callable[[Expression], pa.Array]  # of the rows in their lines


@dataclass(frozen=True)
class Bounds:
    """The rows of a frame, for some rows: those from `first` on before `gap`, those from `after` on before `stop`, and
    where it is its `own` the row itself, which lies between."""

    first: Int64s
    gap: Int64s
    after: Int64s
    stop: Int64s
    own: Bools


@dataclass(frozen=True)
class Counted:
    """Rows that count, all of them or those with a value: how many there are before each place, and where they are."""

    before: Int64s
    places: Int64s


@dataclass(frozen=True)
class Lined:
    starts: Int64s  # where each partition begins; the end comes last
    peers: Int64s  # grows where ORDER BY tells rows apart
    keys: Int64s  # what a RANGE is measured by

    def __len__(self) -> int:
        return int(self.peers.size)

    @cached_property
    def parts(self) -> Int64s:
        return np.repeat(np.arange(self.starts.size - 1), np.diff(self.starts))

    @cached_property
    def stops(self) -> Int64s:
        """Of each row one past the last of its partition."""
        return self.starts[1:][self.parts]

    @cached_property
    def begins(self) -> Int64s:
        return self.starts[:-1][self.parts]

    @cached_property
    def groups(self) -> tuple[Int64s, Int64s, Int64s]:
        """Of each row the number of its group in all lines, where that begins, and one past its end."""
        new = np.ones(len(self), np.bool_)
        new[1:] = (self.peers[1:] != self.peers[:-1]) | (self.parts[1:] != self.parts[:-1])
        at = np.flatnonzero(new)
        number = np.cumsum(new) - 1
        return number, at[number], np.append(at[1:], len(self))[number]

    def measure(self, frame: Frame) -> Int64s:
        """What the ends of a frame are measured by."""
        if frame.by_keys:
            return self.keys
        return np.arange(len(self)) if frame.unit == "rows" else self.groups[0]

    def edges(self, frame: Frame) -> tuple[Int64s, Int64s]:
        """Of all rows the first of their frames, and one past the last."""
        first, stop = np.empty(len(self), np.int64), np.empty(len(self), np.int64)
        ends = (frame.start or 0, frame.end or 0, frame.start is not None, frame.end is not None)
        kernel.frame_edges(self.starts, self.measure(frame), *ends, first, stop)
        if frame.by_keys:
            # No time is so far from none.
            none = np.abs(self.keys) >= FOREVER_US
            _, group, behind = self.groups
            first = first if frame.start is None else np.where(none, group, first)
            stop = stop if frame.end is None else np.where(none, behind, stop)
        return first, stop

    def bounds(self, frame: Frame, asked: Int64s) -> Bounds:
        first, stop = (one[asked] for one in self.edges(frame))
        if not frame.exclude:
            return Bounds(first, stop, stop, stop, np.zeros(asked.size, np.bool_))
        _, group, behind = self.groups
        gap, after = (asked, asked + 1) if frame.exclude == "current row" else (group[asked], behind[asked])
        own = (first <= asked) & (asked < stop) & (frame.exclude == "ties")
        return Bounds(first, np.clip(gap, first, stop), np.clip(after, first, stop), stop, own)

    def counted(self, values: pa.Array | None) -> Counted:
        if values is None:
            return Counted(np.arange(len(self) + 1), np.arange(len(self)))
        valid = values.is_valid().to_numpy(zero_copy_only=False)
        return Counted(np.append(0, np.cumsum(valid)), np.flatnonzero(valid))


def value_of(call: OverCall, lines: Lined, asked: Int64s, values: Values) -> pa.Array:
    """What a function gives for the rows that are asked for, by place, of partitions that are all there as far as it
    looks."""
    if call.function in SHARES:
        return _share(call, lines, asked)
    if call.function in OFFSETS:
        return _other_row(call, lines, asked, values)
    if call.function in VALUES:
        return _row_in_frame(call, lines, asked, values)
    return _aggregated(call, lines, asked, values)


def number_of(call: OverCall, asked: Int64s, values: Values) -> tuple[Int64s, Bools]:
    """Which row a function asks for, and whether it is said."""
    if call.by is None:
        return np.full(asked.size, call.offset), np.ones(asked.size, np.bool_)
    given = taken(values(call.by), asked)
    said = given.is_valid().to_numpy(zero_copy_only=False)
    numbers = given.fill_null(0).cast(pa.int64(), safe=False).to_numpy(zero_copy_only=False)
    return np.clip(numbers, -FOREVER_US, FOREVER_US), said


def places_away(call: OverCall, lines: Lined, asked: Int64s, values: Values) -> tuple[Int64s, Bools, Bools]:
    """Where the rows are that LAG and LEAD ask for, whether they are there, and whether it is said which."""
    number, said = number_of(call, asked, values)
    ahead = number if call.function == "lead" else -number
    counted = lines.counted(values(call.args[0]) if call.ignores_nulls else None)
    before = counted.before
    # The n-th that counts from here on, or before; the row itself is the one that is no rows away.
    place = np.where(ahead > 0, before[asked + 1] + ahead - 1, before[asked] + ahead)
    there = (before[lines.begins[asked]] <= place) & (place < before[lines.stops[asked]])
    found = counted.places[np.where(there, place, 0)] if counted.places.size else np.zeros(asked.size, np.int64)
    return np.where(ahead == 0, asked, found), (there | (ahead == 0)) & said, said


def _other_row(call: OverCall, lines: Lined, asked: Int64s, values: Values) -> pa.Array:
    places, there, said = places_away(call, lines, asked, values)
    found = taken(values(call.args[0]), places)
    default = taken(values(call.args[1]), asked) if len(call.args) > 1 else None
    return or_else(or_else(found, there | ~said, default), said, None)


def _row_in_frame(call: OverCall, lines: Lined, asked: Int64s, values: Values) -> pa.Array:
    given = values(call.args[0])
    counted = lines.counted(given if call.ignores_nulls else None)
    bounds = lines.bounds(call.frame, asked)
    first, after = counted.before[bounds.first], counted.before[bounds.after]
    own = bounds.own & (counted.before[asked + 1] > counted.before[asked])
    size = counted.before[bounds.gap] - first
    total = size + own + counted.before[bounds.stop] - after
    number, said = (total, total > 0) if call.function == "last_value" else number_of(call, asked, values)
    number = np.ones_like(total) if call.function == "first_value" else number
    there = said & (number > 0) & (number <= total)
    place = np.where(number <= size, first + number - 1, after + number - 1 - size - own)
    found = np.where(own & (number == size + 1), asked, _at(counted.places, np.where(there, place, 0)))
    return or_else(taken(given, np.where(there, found, 0)), there, None)


def _at(places: Int64s, wanted: Int64s) -> Int64s:
    return places[np.clip(wanted, 0, places.size - 1)] if places.size else np.zeros_like(wanted)


def _aggregated(call: OverCall, lines: Lined, asked: Int64s, values: Values) -> pa.Array:
    bounds = lines.bounds(call.frame, asked)
    parts = lines.parts[asked]
    most = 4 * len(lines) + 3 * asked.size
    rows, signs, ends = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(asked.size, np.int64)
    frame = (bounds.first, bounds.gap, bounds.after, bounds.stop, bounds.own)
    n = int(kernel.frame_changes(parts, asked, *frame, rows, signs, ends))
    aggregator = make_aggregator(call.aggregate, fifo=not call.frame.exclude)
    aggregator.grow(lines.starts.size - 1)
    argument = taken(values(call.args[0]), rows[:n]) if call.args else None
    return aggregator.apply(Cells(lines.parts[rows[:n]], signs[:n], ends), argument, rows[:n])


def _share(call: OverCall, lines: Lined, asked: Int64s) -> pa.Array:
    begin, stop = lines.begins[asked], lines.stops[asked]
    size, place = stop - begin, asked - begin
    _, group, behind = lines.groups
    if call.function == "percent_rank":
        return pa.array((group[asked] - begin) / np.maximum(size - 1, 1))
    if call.function == "cume_dist":
        return pa.array((behind[asked] - begin) / size)
    # The first parts have one row more, if there are rows left over.
    least, longer = size // call.offset, size % call.offset
    border = longer * (least + 1)
    behind_border = longer + (place - border) // np.maximum(least, 1)
    return pa.array(np.where(place < border, place // (least + 1), behind_border) + 1)
