"""FROM with several inputs (W-JOIN): combinations whose members are in their windows together, while they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pyarrow as pa

from watersmeet.model.time import BEGINNING_US, FOREVER_US
from watersmeet.model.windows import moves_in_steps
from watersmeet.operators.continuous.delta import Delta, Int64s, joined, no_changes
from watersmeet.operators.continuous.expiry import (
    AnnouncedDeaths,
    Born,
    Expiry,
    KnownDeaths,
    entered_and_left,
    entering,
    held_again,
    serials_of,
)
from watersmeet.operators.continuous.lives import Lives, death_times
from watersmeet.operators.continuous.node import Divides, Node, next_event_below
from watersmeet.operators.continuous.sources import LivesSource
from watersmeet.operators.continuous.triggers import Trigger
from watersmeet.operators.contract import Rows
from watersmeet.operators.join.window_join import WindowJoin
from watersmeet.operators.keyed_state import KeyedRows, KeyedState, NumberedAnew
from watersmeet.operators.partition_key import KeysOf, PartitionKey, keys_in
from watersmeet.operators.row_windows import Deaths
from watersmeet.physical.hidden import SERIAL, SINCE, UNTIL, member_column, serial_column, time_column, until_column
from watersmeet.physical.strategy import Code
from watersmeet.plan.expressions import Column
from watersmeet.plan.nodes import Input


class FromMany(Divides):
    """Joins the inputs as their rows are born. A combination is born with its youngest member and dies with the
    first that leaves its window."""

    STATE: ClassVar[tuple[str, ...]] = ("sources", "trigger", "join", "expiry", "_next", "complete")

    netted = False

    def __init__(
        self,
        join: WindowJoin,
        sources: Mapping[str, LivesSource],
        schema: pa.Schema,
        trigger: Trigger,
        *,
        ranged: Sequence[Input],
        numbered: Sequence[str] = (),
    ) -> None:
        """join: gives the columns of the schema, and besides them what the lives of combinations are told from
        (physical/hidden.py). ranged: the inputs whose rows' deaths are known from the start. numbered: those whose rows
        are told apart by their numbers, because their deaths are announced, or because FIRST and LAST go by the order
        of members."""
        self.join = join
        self.sources = sources
        self.trigger = trigger
        self.schema = schema
        self.announced = [alias for alias, source in sources.items() if source.announced]
        self.numbered = list(numbered)
        self.extra_us = 0 if join.strategy.join.boundary == "half_open" else 1
        self.ranged = list(ranged)
        self.in_steps = any(moves_in_steps(one.window) for one in ranged)
        self.expiry: Expiry = (
            AnnouncedDeaths(self.schema, self.announced) if self.announced else KnownDeaths(self.schema, in_turn=False)
        )
        self._next = 0
        self.complete = BEGINNING_US
        self._again: Delta | None = None  # what it held before another took over
        self.anew: dict[str, NumberedAnew] = {}  # and what its rows are called since, by input

    @property
    def held_rows(self) -> int:
        waiting = sum(source.held_rows for source in self.sources.values())
        return self.expiry.held + self.join.kept_rows + waiting

    @property
    def nbytes(self) -> int:
        waiting = sum(source.nbytes for source in self.sources.values())
        return self.expiry.nbytes + self.join.state_bytes + waiting

    def inputs(self) -> Iterator[Node]:
        for source in self.sources.values():
            yield from source.inputs()

    def next_event(self) -> int:
        births = (source.next_birth() for source in self.sources.values())
        return min(self.expiry.next_death(), next_event_below(self), *births)

    def take(self, until: int) -> Delta:
        lives = self._taken(until)
        if self._again is not None:
            again, self._again = self._again, None
            return again
        found = list(self._combinations(lives))
        # After the new rows were joined, which may meet what is forgotten here.
        for _ in self.join.advance(dict.fromkeys(self.join.windows.streams, until)):
            raise AssertionError("a join gives no results when time passes")
        entered = no_changes(self.schema)
        # New combinations are not held yet: `_born` gives them the deaths that are known now.
        for alias, one in lives.items():
            if one.killed.size:
                self.expiry.kill(alias, one.killed, one.killed_at)
        if found:
            born = self._born(joined(found, found[0].schema), lives)
            self.expiry.enter(born)
            entered = entering(born)
        self.complete = self.trigger.reach(until, entered)
        left = self.trigger.noticed(self.expiry.leave(self.complete), entered)
        return entered_and_left(entered, left)

    def _taken(self, until: int) -> dict[str, Lives]:
        taken = {alias: source.take(until) for alias, source in self.sources.items()}
        return {alias: lives for alias, lives in taken.items() if lives is not None}

    def _combinations(self, lives: Mapping[str, Lives]) -> Iterator[pa.RecordBatch]:
        rows = {alias: self._rows(alias, one) for alias, one in lives.items()}
        if not self.announced:
            for alias, new in rows.items():
                yield from self.join.push(alias, new)
            return
        deaths = {
            alias: Deaths(one.serials, one.deaths, one.killed, one.killed_at)
            for alias, one in lives.items()
            if alias in self.announced
        }
        yield from self.join.push_together(rows, deaths)

    def _rows(self, alias: str, lives: Lives) -> Rows:
        data, asked = lives.rows.data, self.join.inputs[alias].schema.names
        if alias in self.numbered:
            data = data.append_column(pa.field(SERIAL, pa.int64()), pa.array(lives.serials))
        if SINCE in asked:
            since = pa.array(lives.rows.times, pa.timestamp("us"))
            data = data.append_column(pa.field(SINCE, pa.timestamp("us")), since)
        if UNTIL in asked:
            data = data.append_column(pa.field(UNTIL, pa.int64()), pa.array(lives.deaths))
        return Rows(data, lives.rows.times)

    def _born(self, found: pa.RecordBatch, lives: Mapping[str, Lives]) -> Born:
        births = np.maximum.reduce([_int64s(found.column(time_column(alias))) for alias in self.sources])
        deaths = np.full(births.size, FOREVER_US, np.int64)
        for place in range(len(self.ranged)):
            deaths = np.minimum(deaths, self._ends(found, place))
        serials = {alias: _int64s(found.column(serial_column(alias))) for alias in self.numbered}
        for alias in self.announced:
            if alias in lives:
                deaths = np.minimum(deaths, _known_deaths(serials[alias], lives[alias]))
        order = np.arange(self._next, self._next + births.size)
        self._next += births.size
        data = found.select(self.schema.names)
        born = Born(data, births, deaths, order, serials)
        if self.in_steps:
            # The join knows how long rows of such a window are there at most, not of each how long.
            born = born.take(np.flatnonzero(births < deaths))
            order = order[: len(born.births)]
            births, serials = born.births, dict(born.serials)
        # By birth, and among combinations of one instant by their members, the first input's before the others'.
        by_birth = np.lexsort([*reversed(serials.values()), births])
        in_turn = bool((by_birth[1:] > by_birth[:-1]).all())
        return replace(born if in_turn else born.take(by_birth), order=order)

    # ---- how its state divides --------------------------------------------------------------------------------------

    @property
    def gives_all_again(self) -> bool:
        return self._found_again or not all(source.endless for source in self.sources.values())

    @property
    def needs_all_again(self) -> bool:
        return self._found_again

    @property
    def _found_again(self) -> bool:
        """Whether each combination has a member that is given once more to who takes over, and so is found anew."""
        return any(source.gives_again for source in self.sources.values())

    def undivided(self, key: PartitionKey) -> str | None:
        inside = (source.undivided(key) for source in self.sources.values())
        return next((why for why in inside if why), None) or self.join.undivided(self._key_inside(key))

    def _key_inside(self, key: PartitionKey) -> PartitionKey:
        """By the aliases of the join, which compares the key."""
        return PartitionKey(
            {alias: self._code(alias, source.key_columns(key)) for alias, source in self.sources.items()}
        )

    def _code(self, alias: str, columns: frozenset[str]) -> Code:
        schema, known = self.join.inputs[alias].schema, self.join.layout.code_positions[alias]
        codes = [Code(alias, Column(alias, name, schema.field(name).type)) for name in sorted(columns)]
        return next((code for code in codes if code in known), Code(alias, Column(alias, "", pa.null())))

    def key_columns(self, key: PartitionKey) -> frozenset[str]:
        return self.join.key_columns(self._key_inside(key)) & {*self.schema.names}

    def divided(self, key: PartitionKey, keys_of: KeysOf | None = None) -> KeyedState:
        """keys_of: of combinations, where those do not tell their key."""
        state = KeyedState(latest={"next": self._next, "complete": self.complete})
        for alias, source in self.sources.items():
            state.put(f"sources.{alias}", source.divided(key))
        joined = self.join.divided(self._key_inside(key))
        for alias, source in self.sources.items():
            if source.gives_again:
                joined.rows.pop(f"window_stores.{alias}", None)
        state.put("join", joined)
        if not self._found_again:
            state.rows["held"] = self.expiry.keyed(keys_of or keys_in(min(self.key_columns(key), default=None)))
        return state

    def take_rows_over(self, state: KeyedState, **beside: KeyedRows) -> None:
        """beside: rows of inputs that somebody else knows by their serials, by alias."""
        self._next, self.complete = state.latest["next"], state.latest["complete"]
        joined, held = state.inside("join"), state.rows.get("held")
        for alias, source in self.sources.items():
            name = f"window_stores.{alias}"
            if alias in self.numbered and name in joined.rows:
                joined.rows[name] = _with_serials(joined.rows[name])
            known = (joined.rows.get(name), beside.get(alias)) if alias in self.numbered else ()
            numbered = [rows for rows in known if rows is not None]
            anew = source.take_rows_over(state.inside(f"sources.{alias}"), *numbered)
            if anew is None or alias not in self.numbered:
                continue
            self.anew[alias] = anew
            if name in joined.rows:
                joined.rows[name] = _told(anew.of(joined.rows[name]), SERIAL, "serials")
            if held is not None:
                held = self._renumbered(held, alias, anew)
        self.join.take_rows_over(joined)
        if held is not None:
            self._again = held_again(held, self.expiry, self.announced, self.complete - 1)
            self._next = max(self._next, len(held))

    def _renumbered(self, held: KeyedRows, alias: str, anew: NumberedAnew) -> KeyedRows:
        """Combinations with the new serials of their members of one input, where they are known by them."""
        if alias in self.announced:
            held = anew.of(held, serials_of(self.announced.index(alias)))
        if member_column(alias) not in held.data.schema.names:
            return held
        old = _int64s(held.data.column(member_column(alias)))
        numbers = {**held.numbers, "member": anew.numbers(held.origins, old)}
        return _told(replace(held, numbers=numbers), member_column(alias), "member")

    def _ends(self, found: pa.RecordBatch, place: int) -> Int64s:
        """When the members of one input leave their window."""
        one = self.ranged[place]
        if moves_in_steps(one.window):
            return _int64s(found.column(until_column(one.alias)))
        return death_times(_int64s(found.column(time_column(one.alias))), one.window, self.extra_us)


def _with_serials(rows: KeyedRows) -> KeyedRows:
    """Stored rows with the serials that results are told."""
    return replace(rows, numbers={**rows.numbers, "serials": _int64s(rows.data.column(SERIAL))})


def _told(rows: KeyedRows, column: str, name: str) -> KeyedRows:
    """Rows with some of their numbers in a column."""
    place = rows.data.schema.get_field_index(column)
    numbers = pa.array(rows.numbers[name])
    return replace(rows, data=rows.data.set_column(place, rows.data.schema.field(place), numbers))


def _known_deaths(serials: Int64s, lives: Lives) -> Int64s:
    """The deaths that this batch tells of the rows with these serials."""
    known = np.full(serials.size, FOREVER_US, np.int64)
    named = np.concatenate([lives.serials, lives.killed])
    at = np.concatenate([lives.deaths, lives.killed_at])
    if named.size:
        sorting = np.argsort(named)
        named, at = named[sorting], at[sorting]
        found = np.minimum(np.searchsorted(named, serials), named.size - 1)
        hit = named[found] == serials
        known[hit] = at[found[hit]]
    return known


def _int64s(column: pa.Array) -> Int64s:
    values: Int64s = column.view(pa.int64()).to_numpy(zero_copy_only=False)
    return values
