"""FROM with several inputs (W-JOIN): combinations whose members are in their windows together, while they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pyarrow as pa

from watersmeet.model.catalog import Stream
from watersmeet.model.time import BEGINNING_US, FOREVER_US
from watersmeet.model.windows import Unbounded
from watersmeet.operators.continuous.delta import Delta, Int64s, no_changes
from watersmeet.operators.continuous.expiry import (
    AnnouncedDeaths,
    Born,
    Expiry,
    KnownDeaths,
    entered_and_left,
    entering,
)
from watersmeet.operators.continuous.lives import Lives, death_times
from watersmeet.operators.continuous.node import Node, next_event_below
from watersmeet.operators.continuous.sources import Source
from watersmeet.operators.continuous.triggers import Trigger
from watersmeet.operators.contract import Rows
from watersmeet.operators.join.window_join import WindowJoin
from watersmeet.operators.row_windows import Deaths
from watersmeet.physical.strategy import JoinStrategy
from watersmeet.plan.expressions import Column, Expression
from watersmeet.plan.nodes import Input, Join

SERIAL = "__serial"
SINCE = "__since"  # the event time that a row of a changing answer has in the join


class FromMany:
    """Joins the inputs as their rows are born. A combination is born with its youngest member and dies with the
    first that leaves its window."""

    STATE: ClassVar[tuple[str, ...]] = ("sources", "trigger", "join", "expiry", "_next", "complete")

    netted = False

    def __init__(
        self,
        join: Join,
        sources: Mapping[str, Source],
        columns: Sequence[tuple[str, Expression]],
        trigger: Trigger,
        optimize: Callable[[Join], JoinStrategy],
        *,
        ordered: bool = False,
    ) -> None:
        """ordered: whether combinations of one instant must be told apart by the order of their members, as FIRST
        and LAST do."""
        self.sources = sources
        self.trigger = trigger
        self.schema = pa.schema([pa.field(name, e.type) for name, e in columns])
        self.announced = [alias for alias, source in sources.items() if source.announced]
        self.numbered = list(sources) if ordered else self.announced
        self.extra_us = 0 if join.boundary == "half_open" else 1
        self.ranged = [one for one in join.streams if one.alias in sources and not sources[one.alias].announced]
        inside = replace(join, inputs=tuple(self._inside(one) for one in join.inputs))
        asked = (*columns, *self._hidden(inside))
        views = [one.alias for one in join.views]
        self.join = WindowJoin(optimize(inside), tuple(asked), announced=self.announced, timeless=views)
        self.expiry: Expiry = (
            AnnouncedDeaths(self.schema, self.announced) if self.announced else KnownDeaths(self.schema, in_turn=False)
        )
        self._next = 0
        self.complete = BEGINNING_US

    def _inside(self, one: Input) -> Input:
        """An input as the join sees it: with serial numbers where deaths are announced, and a time in any case."""
        if one.alias not in self.numbered:
            return one
        schema = one.schema.append(pa.field(SERIAL, pa.int64()))
        time = one.time
        if one.alias not in self.announced:
            assert time is not None
            return replace(one, relation=Stream(one.alias, schema, time))
        if time is None:
            time = SINCE
            schema = schema.append(pa.field(SINCE, pa.timestamp("us")))
        return replace(one, relation=Stream(one.alias, schema, time), window=Unbounded())

    def _hidden(self, join: Join) -> Iterator[tuple[str, Expression]]:
        for one in join.streams:
            assert one.time is not None
            yield f"__time_{one.alias}", Column(one.alias, one.time, one.schema.field(one.time).type)
        for alias in self.numbered:
            yield f"__serial_{alias}", Column(alias, SERIAL, pa.int64())

    @property
    def held_rows(self) -> int:
        return self.expiry.held + self.join.window_rows

    @property
    def nbytes(self) -> int:
        return self.expiry.nbytes + self.join.state_bytes

    def inputs(self) -> Iterator[Node]:
        for source in self.sources.values():
            yield from source.inputs()

    def next_event(self) -> int:
        return min(self.expiry.next_death(), next_event_below(self))

    def take(self, until: int) -> Delta:
        lives = self._taken(until)
        found = list(self._combinations(lives))
        for _ in self.join.advance(dict.fromkeys(self.join.windows.streams, until)):
            raise AssertionError("a join gives no results when time passes")
        entered = no_changes(self.schema)
        for alias, one in lives.items():
            if one.killed.size:
                self.expiry.kill(alias, one.killed, one.killed_at)
        if found:
            born = self._born(pa.concat_batches(found), lives)
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
        if alias not in self.numbered:
            return lives.rows
        data = lives.rows.data.append_column(pa.field(SERIAL, pa.int64()), pa.array(lives.serials))
        if SINCE in self.join.inputs[alias].schema.names:
            since = pa.array(lives.rows.times, pa.timestamp("us"))
            data = data.append_column(pa.field(SINCE, pa.timestamp("us")), since)
        return Rows(data, lives.rows.times)

    def _born(self, found: pa.RecordBatch, lives: Mapping[str, Lives]) -> Born:
        births = np.maximum.reduce([_int64s(found.column(f"__time_{alias}")) for alias in self.sources])
        deaths = np.full(births.size, FOREVER_US, np.int64)
        for place in range(len(self.ranged)):
            deaths = np.minimum(deaths, self._ends(found, place))
        serials = {alias: _int64s(found.column(f"__serial_{alias}")) for alias in self.numbered}
        for alias in self.announced:
            if alias in lives:
                deaths = np.minimum(deaths, _known_deaths(serials[alias], lives[alias]))
        order = np.arange(self._next, self._next + births.size)
        self._next += births.size
        data = found.select(self.schema.names)
        born = Born(data, births, deaths, order, serials)
        # By birth, and among combinations of one instant by their members, the first input's before the others'.
        by_birth = np.lexsort([*reversed(serials.values()), births])
        return replace(born.take(by_birth), order=order)

    def _ends(self, found: pa.RecordBatch, place: int) -> Int64s:
        """When the members of one input leave their window."""
        one = self.ranged[place]
        return death_times(_int64s(found.column(f"__time_{one.alias}")), one.window, self.extra_us)


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
