"""Outer, semi and anti joins that only grow: a row without a partner is given once, when it is certain to have none.

The window join inside finds who matches. Every row of a side that is kept waits, beside it, until the first instant at
which no partner can come any more; then it is forgotten, and given if it was not matched.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from watersmeet.model.time import BEGINNING_US, FOREVER_US
from watersmeet.operators.codes import Codes, Mask
from watersmeet.operators.continuous.expiry import Born, KnownDeaths
from watersmeet.operators.contract import Counters, End, Operator, Positions, Rows, WaitingRows
from watersmeet.operators.counted_elsewhere import NONE, CountedElsewhere
from watersmeet.operators.evaluate import evaluate, evaluate_predicate
from watersmeet.operators.join.window_join import FEW_FOUND
from watersmeet.operators.keyed_state import KeyedRows, KeyedState, NumberedAnew, keys_by_number
from watersmeet.operators.outer.marks import Marks
from watersmeet.operators.outer.sides import Side, Sided, all_streams, passed_on, split_watermarks
from watersmeet.operators.partition_key import PartitionKey, keys_in
from watersmeet.physical.hidden import FOUND_AT, PASSES, SERIAL, serial_column
from watersmeet.physical.nodes import LookedUp
from watersmeet.physical.strategy import Code
from watersmeet.plan.expressions import Column, Expression, uses_event_time
from watersmeet.plan.nodes import Join


class Kept:
    """The rows of one input that are given without a partner, until it is certain whether they have one."""

    STATE = ("marks", "waiting")

    def __init__(self, alias: str, schema: pa.Schema, read: Sequence[str], certain: Expression, at_once: bool) -> None:
        """read: the columns that the answer needs of it. at_once: what could match is there before any row comes."""
        self.alias = alias
        self.certain = certain
        self.at_once = at_once
        self.marks = Marks()
        # A column more, so that a row is a row although nothing of it is read.
        self.schema = pa.schema([*(schema.field(name) for name in read), pa.field(SERIAL, pa.int64())])
        self.waiting = KnownDeaths(self.schema, in_turn=False)

    def take_in(self, rows: Rows) -> Rows:
        """Number new rows; what comes back carries the numbers."""
        serials = self.marks.add(len(rows))
        numbered = rows.data.append_column(pa.field(SERIAL, pa.int64()), pa.array(serials))
        data = numbered.select(self.schema.names)
        if self.at_once:
            instants = rows.times
        else:
            found = evaluate(self.certain, lambda column: rows.data.column(column.name), len(rows))
            instants = found.to_numpy(zero_copy_only=False)
        self.waiting.enter(Born(data, rows.times, instants, serials, {}))
        return Rows(numbered, rows.times)

    def take_over(self, rows: KeyedRows, count: int) -> None:
        """Rows of one or several others, under serials below a number."""
        serials = rows.numbers["serials"]
        self.marks.take_over(count, serials, rows.numbers["matched"])
        self.waiting.enter(Born(_renumbered(rows).data, serials, rows.numbers["deaths"], serials, {}))

    def leave(self, until_us: int) -> tuple[pa.RecordBatch, Positions, Positions]:
        """The rows of which it is certain by now whether they match: their columns, numbers and instants."""
        gone = self.waiting.leave(min(until_us, FOREVER_US - 1) + 1)
        return gone.data, gone.order, gone.instants


class OuterJoin(Sided):
    """Gives combinations as soon as their last member is in, and rows without a partner when that is certain."""

    STATE = ("join", "kept", "side_operators", "ready", "counters", "_answered_us", "_before")

    def __init__(
        self,
        written: Join,
        join: Operator,
        columns: Sequence[tuple[str, Expression]],
        kept: Sequence[Kept],
        sides: Mapping[str, Side],
        remembered_us: int,
        looked_up: Sequence[LookedUp] = (),
        elsewhere: CountedElsewhere = NONE,
    ) -> None:
        """join: finds who matches, with the hidden columns that `plan_outer` asks for. sides: the inputs that are joins
        themselves. remembered_us: how long after its time a row may still decide about others. elsewhere: which rows of
        streams another join has as well, which counts them."""
        self.written = written
        self.kind = written.kind
        self.join = join
        self.columns = list(columns)
        self.schema = pa.schema([pa.field(name, e.type) for name, e in self.columns])
        self._nothing = pa.RecordBatch.from_pylist([], schema=self.schema)
        self.kept = {one.alias: one for one in kept}
        self.sides = dict(sides)
        self.remembered_us = remembered_us
        self.looked_up = {one.name: one for one in looked_up}
        self.counters = Counters()
        self._elsewhere = elsewhere
        # Rows of a semi join whose time is asked for wait until no earlier partner can come.
        waits = self.kind == "semi" and any(uses_event_time(e) for _, e in (*self.columns, *_numbered(written.where)))
        held = pa.schema([*self.schema, pa.field(PASSES, pa.bool_())])
        self.ready = KnownDeaths(held, in_turn=False) if waits else None
        self._answered_us = BEGINNING_US
        self._before = (0.0, 0)
        self._owner = {stream: alias for alias, side in self.sides.items() for stream in side.streams}
        self._inputs = [one.alias for one in written.streams]

    # ---- what a host goes by ----------------------------------------------------------------------------------------

    @property
    def goes_on(self) -> bool:
        """What was given at an end as having no partner cannot be taken back."""
        return False

    @property
    def wake_us(self) -> int | None:
        times = [one.waiting.next_death() for one in self.kept.values()]
        times += [self.ready.next_death()] if self.ready is not None else []
        times += [wake for side in self.sides.values() if (wake := side.operator.wake_us) is not None]
        first = min(times, default=FOREVER_US)
        return None if first >= FOREVER_US else first

    @property
    def kept_rows(self) -> int:
        inside = sum(side.operator.kept_rows for side in self.sides.values())
        return inside + self.join.kept_rows + sum(one.waiting.held for one in self.kept.values())

    @property
    def state_bytes(self) -> int:
        inside = sum(side.operator.state_bytes for side in self.sides.values())
        kept = sum(one.waiting.nbytes + one.marks.nbytes for one in self.kept.values())
        return inside + self.join.state_bytes + kept + (0 if self.ready is None else self.ready.nbytes)

    @property
    def held_by_input(self) -> dict[str, tuple[int, int]]:
        return self.join.held_by_input | {
            name: window for side in self.sides.values() for name, window in side.operator.held_by_input.items()
        }

    @property
    def copies_held(self) -> Mapping[str, int]:
        return {**self.join.copies_held, **super().copies_held}

    def held_keys(self, name: str, key: Code) -> Codes | None:
        owner = self._owner.get(name)
        return self.join.held_keys(name, key) if owner is None else self.sides[owner].operator.held_keys(name, key)

    def waiting_rows(self) -> dict[str, WaitingRows]:
        """What waits of the streams themselves; of a side that is a join, what waits in it."""
        waiting = {name: one for side in self.sides.values() for name, one in side.operator.waiting_rows().items()}
        for alias, kept in self.kept.items():
            serials, instants = kept.waiting.orders_and_deaths()
            alone = instants[~kept.marks.are_matched(serials)]
            if alone.size and alias not in self.sides and not kept.at_once:
                waiting[alias] = WaitingRows(int(alone.size), int(alone.min()), int(alone.max()))
        return waiting

    # ---- rows and time ----------------------------------------------------------------------------------------------

    def load_table(self, alias: str, data: pa.RecordBatch) -> None:
        self.join.load_table(alias, data)

    def push(self, alias: str, rows: Rows) -> Iterator[pa.RecordBatch]:
        self.counters.stored_rows += len(rows) - self._elsewhere.in_rows(alias, rows.data)
        owner = self._owner.get(alias)
        if owner is None:
            yield from self._arrived(alias, rows)
        else:
            for made in passed_on(self.sides[owner], self.sides[owner].operator.push(alias, rows)):
                yield from self._arrived(owner, made)

    def _arrived(self, alias: str, rows: Rows) -> Iterator[pa.RecordBatch]:
        kept = self.kept.get(alias)
        if len(rows) == 0:
            return
        if kept is not None:
            rows = kept.take_in(rows)
        for batch in self.join.push(alias, rows):
            if batch.num_rows:
                yield from self._counted(self._matched(batch))
            if batch.num_rows == 0 or batch.num_rows >= FEW_FOUND:
                yield self._nothing  # matches are noted, of which nothing may be given: whoever waits may stop here
        if kept is not None and kept.at_once:
            yield from self._counted(self._alone(kept, FOREVER_US))

    def _matched(self, found: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Combinations: mark their members, and give what is to be given of them."""
        serials = {alias: _int64s(found, serial_column(alias)) for alias in self.kept}
        passes = np.ones(found.num_rows, np.bool_)
        if PASSES in found.schema.names:
            passes = found.column(PASSES).fill_null(False).to_numpy(zero_copy_only=False)
        if self.kind == "semi":
            yield from self._semi(found, serials[self._inputs[0]], passes)
            return
        for alias, numbers in serials.items():
            self.kept[alias].marks.match(numbers)
        if self.kind != "anti":
            yield _where(found, passes).select(self.schema.names)

    def _semi(self, found: pa.RecordBatch, serials: Positions, passes: Mask) -> Iterator[pa.RecordBatch]:
        marks = self.kept[self._inputs[0]].marks
        if self.ready is not None:
            times = _int64s(found, FOUND_AT)
            given = pa.RecordBatch.from_arrays(
                [*(found.column(name) for name in self.schema.names), pa.array(passes)], schema=self.ready.schema
            )
            self.ready.enter(Born(given, times, times, serials, {}))
            return
        _, first = np.unique(serials, return_index=True)
        first = np.sort(first[~marks.are_matched(serials[first])])
        marks.match(serials[first])
        yield _where(found.take(pa.array(first)), passes[first]).select(self.schema.names)

    def _semi_in_time(self, until_us: int) -> Iterator[pa.RecordBatch]:
        """Rows of which the earliest partner is known, since no earlier one can come."""
        assert self.ready is not None
        marks = self.kept[self._inputs[0]].marks
        found = self.ready.leave(min(until_us, FOREVER_US - 1) + 1)
        _, first = np.unique(found.order, return_index=True)  # by time, so the first is the earliest
        first = np.sort(first[~marks.are_matched(found.order[first])])
        marks.match(found.order[first])
        if first.size:  # at an end that was not yet certain, and what comes up to then is late
            self._answered_us = max(self._answered_us, int(found.instants[first].max()) - 1)
        earliest = found.data.take(pa.array(first))
        yield _where(earliest, earliest.column(PASSES).to_numpy(zero_copy_only=False)).select(self.schema.names)

    def advance(self, watermarks: Mapping[str, int]) -> Iterator[pa.RecordBatch]:
        reached, inside = split_watermarks(self._inputs, self.sides, watermarks)
        for alias, marks in inside.items():
            for made in passed_on(self.sides[alias], self.sides[alias].operator.advance(marks)):
                yield from self._arrived(alias, made)
        for alias, kept in self.kept.items():
            others = [us for other, us in reached.items() if other != alias]
            until_us = min(others, default=FOREVER_US)
            if self.ready is not None:
                yield from self._counted(self._semi_in_time(until_us))
            yield from self._counted(self._alone(kept, until_us))
        yield from self.join.advance(reached)
        self._count()

    def _alone(self, kept: Kept, until_us: int) -> Iterator[pa.RecordBatch]:
        data, serials, instants = kept.leave(until_us)
        if serials.size == 0:
            return
        alone = np.flatnonzero(~kept.marks.are_matched(serials))
        kept.marks.forget(serials)
        if alone.size and self.kind != "semi":
            self._answered_us = max(self._answered_us, int(instants[alone].max()) - 1)
            yield self._extended(kept.alias, data.take(pa.array(alone)), instants[alone])

    def _extended(self, alias: str, data: pa.RecordBatch, instants: Positions) -> pa.RecordBatch:
        """Rows of one input with NULLs for the other."""

        def column(asked: Column) -> pa.Array:
            if asked.stream == alias:
                return data.column(asked.name)
            return pa.nulls(data.num_rows, asked.type)

        def times() -> pa.Array:
            return pa.array(instants, pa.timestamp("us"))

        arrays = [evaluate(e, column, data.num_rows, times) for _, e in self.columns]
        made = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        for condition in self.written.where:
            passes = evaluate_predicate(condition, column, data.num_rows, times)
            if not bool(passes.all()):
                kept = np.flatnonzero(passes)
                made, data, instants = made.take(pa.array(kept)), data.take(pa.array(kept)), instants[kept]
        return made

    def _counted(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows:
                self.counters.results += batch.num_rows
                yield batch

    def _count(self) -> None:
        inside = [self.join.counters, *(side.operator.counters for side in self.sides.values())]
        seconds, expired = sum(one.kernel_seconds for one in inside), sum(one.expired_rows for one in inside)
        self.counters.kernel_seconds, self.counters.expired_rows = seconds - self._before[0], expired - self._before[1]
        self.counters.switches = [switch for one in inside for switch in one.switches]

    # ---- how its state divides --------------------------------------------------------------------------------------

    @property
    def inputs(self) -> dict[str, pa.Schema]:
        return {one.alias: one.schema for one in self.written.streams}

    def undivided(self, key: PartitionKey) -> str | None:
        why, inside = self.undivided_sides(key), self.key_inside(key)
        return why if inside is None or why is not None else self.join.undivided(inside)

    def key_columns(self, key: PartitionKey) -> frozenset[str]:
        """Where both sides may be missing, no column has the key of every row."""
        inside = self.key_inside(key)
        always = self._inputs[:1] if self.kind != "full" else []
        return frozenset() if inside is None else inside.shown_in(self.columns, always)

    def divided(self, key: PartitionKey) -> KeyedState:
        state, inside = self.divided_sides(key), self.key_inside(key)
        assert inside is not None
        joined = self.join.divided(inside)
        state.put("join", joined)
        for alias, kept in self.kept.items():
            stored, rows = (joined.copies, state.copies) if alias in inside.copied else (joined.rows, state.rows)
            keys = _keys_by_serial(stored.get(f"window_stores.{alias}"))
            held = kept.waiting.keyed(_anywhere)
            serials = held.numbers["order"]
            numbers = {**held.numbers, "matched": kept.marks.are_matched(serials)}
            rows[f"kept.{alias}"] = replace(held, keys=keys(serials), numbers=numbers)
            if self.ready is not None:
                ready = self.ready.keyed(_anywhere)
                rows["ready"] = replace(ready, keys=keys(ready.numbers["order"]))
        state.totals["seconds"], state.totals["expired"] = self._before
        return state

    def take_rows_over(self, state: KeyedState) -> None:
        self.take_sides_over(state)
        joined = state.inside("join")
        for alias, kept in self.kept.items():
            rows, stored = state.rows[f"kept.{alias}"], joined.rows.get(f"window_stores.{alias}")
            rows = replace(rows, numbers={**rows.numbers, "serials": rows.numbers["order"], "times": 0 * rows.keys})
            stored = None if stored is None else _with_serials(stored)
            anew = NumberedAnew(*([] if stored is None else [stored]), rows)
            kept.take_over(anew.of(rows), anew.next)
            if stored is not None:
                joined.rows[f"window_stores.{alias}"] = _renumbered(anew.of(stored))
            if self.ready is not None:
                ready = anew.of(state.rows["ready"], "order")
                times = ready.numbers["deaths"]
                self.ready.enter(Born(ready.data, times, times, ready.numbers["order"], {}))
        self.join.take_rows_over(joined)
        self._before = (state.totals.get("seconds", 0.0), state.totals.get("expired", 0))

    def finish(self, newest_us: int) -> Generator[pa.RecordBatch, None, End]:
        """After this it is certain of every row whether it has a partner."""
        yield from self.advance(dict.fromkeys(self._all_streams(), FOREVER_US))
        return End(self.answered_us)

    def _all_streams(self) -> list[str]:
        return all_streams(self._inputs, self.sides)

    # ---- what a restart would miss ----------------------------------------------------------------------------------

    def restore(self, log: Mapping[str, Rows], complete_until: int, ends: Sequence[End] = ()) -> None:
        """Who matched whom is found once more; what comes of it was given in another life."""
        for alias, rows in log.items():
            for _ in self.push(alias, rows):
                pass
        for _ in self.advance(dict.fromkeys(self._all_streams(), complete_until)):
            pass
        self._before = (self.counters.kernel_seconds + self._before[0], self.counters.expired_rows + self._before[1])
        self.counters = Counters()


def _numbered(conditions: Sequence[Expression]) -> list[tuple[str, Expression]]:
    return [(str(i), condition) for i, condition in enumerate(conditions)]


def _int64s(found: pa.RecordBatch, name: str) -> Positions:
    values: Positions = found.column(name).view(pa.int64()).to_numpy(zero_copy_only=False)
    return values


def _where(found: pa.RecordBatch, kept: Mask) -> pa.RecordBatch:
    return found if bool(kept.all()) else found.take(pa.array(np.flatnonzero(kept)))


_anywhere = keys_in(None)  # until it is known from their serials


def _keys_by_serial(stored: KeyedRows | None) -> Callable[[Positions], Positions]:
    """Who is not stored any more can meet no new row, and lies where its serial is placed."""
    return (lambda serials: serials) if stored is None else keys_by_number(_int64s(stored.data, SERIAL), stored.keys)


def _with_serials(rows: KeyedRows) -> KeyedRows:
    return replace(rows, numbers={**rows.numbers, "serials": _int64s(rows.data, SERIAL)})


def _renumbered(rows: KeyedRows) -> KeyedRows:
    """Rows with their serials in the column that carries them."""
    place = rows.data.schema.get_field_index(SERIAL)
    field = rows.data.schema.field(place)
    return replace(rows, data=rows.data.set_column(place, field, pa.array(rows.numbers["serials"])))
