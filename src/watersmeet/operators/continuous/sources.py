"""The inputs of FROM in a continuous query: streams, streams made by a query, and answers that change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Protocol

import numpy as np
import pyarrow as pa

from watersmeet.model.time import BEGINNING_US, FOREVER_US, normalize_time_column, times_of
from watersmeet.model.windows import Boundary, Window
from watersmeet.operators.continuous.delta import Delta, Int64s, no_changes, signs
from watersmeet.operators.continuous.departures import Departures
from watersmeet.operators.continuous.lives import NOTHING, EntryLifetimes, Lifetimes, Lives, lifetimes_of
from watersmeet.operators.continuous.node import Node, keys_below
from watersmeet.operators.continuous.value_order import value_order
from watersmeet.operators.contract import Operator, Rows
from watersmeet.operators.evaluate import evaluate
from watersmeet.operators.keyed_state import KeyedRows, KeyedState, NumberedAnew
from watersmeet.operators.partition_key import PartitionKey, keys_in
from watersmeet.operators.waiting import Waiting
from watersmeet.plan.expressions import Expression
from watersmeet.plan.nodes import OP, ChangesKind


class LivesSource(Protocol):
    """Gives the rows of one input with their lives."""

    @property
    def announced(self) -> bool:
        """Whether deaths become known only later."""
        ...

    @property
    def in_turn(self) -> bool:
        """Whether rows die in the order they were born."""
        ...

    @property
    def complete(self) -> int: ...

    def take(self, until: int) -> Lives | None:
        """The rows born before an instant, in order, and who of the older ones died before it."""
        ...

    def inputs(self) -> Iterator[Node]: ...

    @property
    def held_rows(self) -> int:
        """The rows that have come and wait for the step at which they enter their window."""
        ...

    @property
    def nbytes(self) -> int: ...

    def next_birth(self) -> int:
        """When the next of those enters; FOREVER_US if that is not known, or there are none."""
        ...

    @property
    def gives_again(self) -> bool:
        """Whether its rows follow from what is held below it, so that who takes over is given them once more."""
        ...

    def undivided(self, key: PartitionKey) -> str | None:
        """Why one part holds all that it holds, where rows are placed by a key; None if that divides."""
        ...

    def key_columns(self, key: PartitionKey) -> frozenset[str]:
        """The columns in each of which every row has its key."""
        ...

    def divided(self, key: PartitionKey) -> KeyedState: ...

    def take_rows_over(self, state: KeyedState, *numbered: KeyedRows) -> NumberedAnew | None:
        """Returns the new serials of rows whose deaths are announced. numbered: who else has such rows."""
        ...

    @property
    def endless(self) -> bool:
        """Whether rows never leave."""
        ...


class Windowed:
    """What a source has whose rows live by a window."""

    lifetimes: Lifetimes | EntryLifetimes

    announced = property(lambda self: self.lifetimes.announced)
    in_turn = property(lambda self: self.lifetimes.in_turn)
    held_rows = property(lambda self: self.lifetimes.held_rows)
    nbytes = property(lambda self: self.lifetimes.nbytes)

    gives_again = False

    def next_birth(self) -> int:
        return self.lifetimes.next_birth()

    def undivided(self, key: PartitionKey) -> str | None:
        return f"the rows of {type(self).__name__} do not divide by key"

    def key_columns(self, key: PartitionKey) -> frozenset[str]:
        raise NotImplementedError

    def divided(self, key: PartitionKey) -> KeyedState:
        raise NotImplementedError

    def take_rows_over(self, state: KeyedState, *numbered: KeyedRows) -> NumberedAnew | None:
        raise NotImplementedError

    @property
    def endless(self) -> bool:
        return self.lifetimes.endless


class StreamSource(Windowed):
    """Rows as they were pushed, through their window."""

    STATE = ("waiting", "lifetimes", "complete", "_departures")

    def __init__(
        self, name: str, window: Window | None, boundary: Boundary, made: Sequence[tuple[str, Expression]] = ()
    ) -> None:
        """name: under which rows are pushed. made: columns that rows get as they come."""
        self.name = name
        self.made = made
        self.waiting = Waiting()
        self.lifetimes = lifetimes_of(window, boundary)
        self.complete = BEGINNING_US
        self._departures = Departures(announced=self.lifetimes.announced, in_turn=self.lifetimes.in_turn)

    def take(self, until: int) -> Lives | None:
        self.complete = until
        rows = self.waiting.release(until)
        lives = self.lifetimes.of(rows if rows is None else self._with_made(rows), until)
        if lives is not None:
            self._departures.add(lives)
        self._departures.count(until)
        return lives

    @property
    def span_us(self) -> int | None:
        """For how long a row lives from its time on, if that is the same for all and they have no columns but their
        own."""
        return None if self.made or not isinstance(self.lifetimes, Lifetimes) else self.lifetimes.span_us

    def took(self, deaths: Int64s, until: int) -> None:
        """What `take` does beside giving rows, of those that were looked at where they wait; their deaths in order."""
        self.complete = until
        if deaths.size:
            assert isinstance(self.lifetimes, Lifetimes)
            self.lifetimes.passed(deaths.size)
            self._departures.await_deaths(deaths)
        self._departures.count(until)

    def _with_made(self, rows: Rows) -> Rows:
        data = rows.data
        for name, expression in self.made:
            values = evaluate(expression, lambda column: rows.data.column(column.name), len(rows))
            data = data.append_column(pa.field(name, expression.type), values)
        return Rows(data, rows.times) if self.made else rows

    def undivided(self, key: PartitionKey) -> str | None:
        return self.lifetimes.counts_together(key.column(self.name))

    def key_columns(self, key: PartitionKey) -> frozenset[str]:
        column = key.column(self.name)
        return frozenset() if column is None else frozenset({column})

    def divided(self, key: PartitionKey) -> KeyedState:
        keys_of = partial(key.codes_of, self.name)
        state = KeyedState(latest={"complete": self.complete})
        state.put("waiting", self.waiting.divided(keys_of))
        state.put("lifetimes", self.lifetimes.divided(keys_of))
        state.put("departures", self._departures.divided())
        return state

    def take_rows_over(self, state: KeyedState, *numbered: KeyedRows) -> NumberedAnew | None:
        self.complete = state.latest["complete"]
        self.waiting.take_rows_over(state.inside("waiting"))
        self._departures.take_rows_over(state.inside("departures"))
        return self.lifetimes.take_rows_over(state.inside("lifetimes"), *numbered)

    @property
    def expired_rows(self) -> int:
        """How many rows have left the window."""
        return self._departures.expired_rows

    def inputs(self) -> Iterator[Node]:
        yield from ()


class ChangesSource(Windowed):
    """SELECT ISTREAM or DSTREAM … as a stream: the rows that enter, or leave, an answer, at their instants; or CHANGES,
    both with their signs."""

    STATE: tuple[str, ...] = ("node", "lifetimes")

    def __init__(
        self,
        node: Node,
        kind: ChangesKind,
        time: str,
        window: Window | None,
        boundary: Boundary,
        *,
        ordered: bool = False,
    ) -> None:
        """ordered: rows of one instant stay in the order in which they come."""
        self.node = node
        self._ordered = ordered
        self._seen = False  # whether what is given next was seen before another took over
        self._logged = kind == "log"
        self.diff = -1 if kind == "dstream" else 1
        self.time = time
        self.lifetimes = lifetimes_of(window, boundary)
        # Of windows that are complete: rows come just before the end of the window, which is their time and a column.
        self._ended = Waiting() if kind == "complete" else None
        if self._ended is not None:
            self.STATE = (*ChangesSource.STATE, "_ended")

    @property
    def complete(self) -> int:
        return self.node.complete

    def take(self, until: int) -> Lives | None:
        delta = self.node.take(until)
        if self._seen:
            self._seen, delta = False, no_changes(delta.data.schema)
        if not self._logged:
            delta = delta.where(delta.diffs == self.diff)
        until = min(until, self.complete)
        if self._ended is None:
            rows = self._at_instants(delta) if len(delta) else None
        else:
            self._ended.add(Rows(delta.data, times_of(normalize_time_column(delta.data.column(self.time)))))
            ready = self._ended.release(until)
            rows = None if ready is None else _by_values(ready)
        return self.lifetimes.of(rows, until)

    def _at_instants(self, delta: Delta) -> Rows:
        rows = _timed(delta, self.time)
        if not self._logged:
            return rows if self._ordered else _by_values(rows)
        signed = rows.data.append_column(pa.field(OP, pa.string()), signs(delta))
        # At one instant rows leave before others enter.
        return _by_values(Rows(signed, rows.times), pa.array(delta.diffs))

    def next_birth(self) -> int:
        waits = None if self._ended is None else self._ended.oldest_us
        return super().next_birth() if waits is None else min(waits, super().next_birth())

    def inputs(self) -> Iterator[Node]:
        yield self.node

    def undivided(self, key: PartitionKey) -> str | None:
        return self.lifetimes.counts_together(_first(self.key_columns(key)))

    def key_columns(self, key: PartitionKey) -> frozenset[str]:
        return keys_below(self.node, key)

    def divided(self, key: PartitionKey) -> KeyedState:
        keys_of = keys_in(_first(self.key_columns(key)))
        state = KeyedState()
        state.put("lifetimes", self.lifetimes.divided(keys_of))
        if self._ended is not None:
            state.put("ended", self._ended.divided(keys_of))
        return state

    def take_rows_over(self, state: KeyedState, *numbered: KeyedRows) -> NumberedAnew | None:
        self._seen = True
        if self._ended is not None:
            self._ended.take_rows_over(state.inside("ended"))
        return self.lifetimes.take_rows_over(state.inside("lifetimes"), *numbered)


def _first(columns: frozenset[str]) -> str | None:
    return min(columns, default=None)


def _timed(delta: Delta, time: str) -> Rows:
    instants = pa.array(delta.instants, pa.timestamp("us"))
    return Rows(delta.data.append_column(pa.field(time, pa.timestamp("us")), instants), delta.instants)


def _by_values(rows: Rows, *first: pa.Array) -> Rows:
    """The rows in time order; those of one instant, which came into being together, in the order of their values, or of
    others before those."""
    times = pa.array(rows.times)
    return rows.take(value_order([(column, False, False) for column in (times, *first, *rows.data.columns)]))


class JoinSource(Windowed):
    """A plain join or selection inside FROM as a stream, its rows in the order of their event times."""

    STATE: tuple[str, ...] = ("operator", "streams", "lifetimes", "complete")

    def __init__(
        self,
        operator: Operator,
        names: Mapping[str, str],
        time: str,
        window: Window | None,
        boundary: Boundary,
        *,
        up_to_now: bool = False,
        in_turn_of_arrival: bool = False,
    ) -> None:
        """names: under which the rows of each alias are pushed. up_to_now: what it gives when time has come to an
        instant may be of that instant, and not before it.
        in_turn_of_arrival: its rows are those of a stream, and at equal times have the order in which they came."""
        self._arrived = in_turn_of_arrival
        self._given = Waiting() if up_to_now else None
        if self._given is not None:
            self.STATE = (*JoinSource.STATE, "_given")
        self.operator = operator
        self.time = time
        self.names = dict(names)
        self.streams = {alias: Waiting() for alias in names}
        self.lifetimes = lifetimes_of(window, boundary)
        self.complete = BEGINNING_US

    def take(self, until: int) -> Lives | None:
        return self.lifetimes.of(self.rows_before(until), until)

    def rows_before(self, until: int) -> Rows | None:
        """What comes of the join before an instant and was not given yet: rows before it are all there."""
        self.complete = until
        found: list[pa.RecordBatch] = []
        for alias, waiting in self.streams.items():
            rows = waiting.release(until)
            if rows is not None:
                found += self.operator.push(alias, rows)
        found += self.operator.advance(dict.fromkeys(self.streams, until))
        found = [batch for batch in found if batch.num_rows]
        made: Rows | None = None
        if found:
            data = pa.concat_batches(found)
            times = data.column(self.time).cast(pa.timestamp("us")).view(pa.int64()).to_numpy(zero_copy_only=False)
            made = Rows(data, times)
        if self._given is not None:
            if made is not None:
                self._given.add(made)
            made = self._given.release(until)
        if made is not None and not self._arrived:
            made = _by_values(made)
        return made

    def next_birth(self) -> int:
        waits = None if self._given is None else self._given.oldest_us
        return super().next_birth() if waits is None else min(waits, super().next_birth())

    def undivided(self, key: PartitionKey) -> str | None:
        inside = self._key_inside(key)
        return self.operator.undivided(inside) or self.lifetimes.counts_together(_first(self.key_columns(key)))

    def _key_inside(self, key: PartitionKey) -> PartitionKey:
        """By the aliases of the join."""
        return key.under({name: alias for alias, name in self.names.items()})

    def key_columns(self, key: PartitionKey) -> frozenset[str]:
        return self.operator.key_columns(self._key_inside(key))

    def divided(self, key: PartitionKey) -> KeyedState:
        inside, keys_of = self._key_inside(key), keys_in(_first(self.key_columns(key)))
        state = KeyedState(latest={"complete": self.complete})
        state.put("operator", self.operator.divided(inside))
        for alias, waiting in self.streams.items():
            state.put(f"streams.{alias}", waiting.divided(partial(inside.codes_of, alias)))
        state.put("lifetimes", self.lifetimes.divided(keys_of))
        if self._given is not None:
            state.put("given", self._given.divided(keys_of))
        return state

    def take_rows_over(self, state: KeyedState, *numbered: KeyedRows) -> NumberedAnew | None:
        self.complete = state.latest["complete"]
        self.operator.take_rows_over(state.inside("operator"))
        for alias, waiting in self.streams.items():
            waiting.take_rows_over(state.inside(f"streams.{alias}"))
        if self._given is not None:
            self._given.take_rows_over(state.inside("given"))
        return self.lifetimes.take_rows_over(state.inside("lifetimes"), *numbered)

    @property
    def expired_rows(self) -> int:
        """How many rows of the streams have left the windows of the join."""
        return self.operator.counters.expired_rows

    def inputs(self) -> Iterator[Node]:
        yield from ()


class ViewSource:
    """An answer that changes, as an input: its rows live while they are in it."""

    STATE = ("node", "_next_serial", "_live_orders", "_live_serials")

    announced = True
    in_turn = False
    held_rows = 0
    nbytes = 0
    gives_again = True
    endless = False

    def __init__(self, node: Node) -> None:
        self.node = node
        self._next_serial = 0
        self._live_orders: Int64s = NOTHING  # ascending
        self._live_serials: Int64s = NOTHING

    @property
    def complete(self) -> int:
        return self.node.complete

    def take(self, until: int) -> Lives | None:
        delta = self.node.take(until)
        if len(delta) == 0:
            return None
        enters, leaves = np.flatnonzero(delta.diffs > 0), np.flatnonzero(delta.diffs < 0)
        born = delta.take(enters)
        serials = np.arange(self._next_serial, self._next_serial + enters.size)
        self._next_serial += enters.size
        killed, killed_at = self._serials_of_leaving(born.order, serials, delta.order[leaves]), delta.instants[leaves]
        # Rows that enter and leave within this batch have a known death.
        deaths = np.full(enters.size, FOREVER_US, np.int64)
        known = killed >= self._next_serial - enters.size
        deaths[killed[known] - (self._next_serial - enters.size)] = killed_at[known]
        return Lives(Rows(born.data, born.instants), deaths, serials, killed[~known], killed_at[~known])

    def next_birth(self) -> int:
        return FOREVER_US

    def _serials_of_leaving(self, entered: Int64s, serials: Int64s, leaving: Int64s) -> Int64s:
        # With the new rows, as those that enter may leave within the batch.
        orders = np.concatenate([self._live_orders, entered])
        numbers = np.concatenate([self._live_serials, serials])
        sorting = np.argsort(orders, kind="stable")
        orders, numbers = orders[sorting], numbers[sorting]
        found = np.searchsorted(orders, leaving)
        stays = np.ones(orders.size, np.bool_)
        stays[found] = False
        self._live_orders, self._live_serials = orders[stays], numbers[stays]
        return numbers[found]

    def inputs(self) -> Iterator[Node]:
        yield self.node

    def undivided(self, key: PartitionKey) -> str | None:
        return None

    def key_columns(self, key: PartitionKey) -> frozenset[str]:
        return keys_below(self.node, key)

    def divided(self, key: PartitionKey) -> KeyedState:
        return KeyedState()

    def take_rows_over(self, state: KeyedState, *numbered: KeyedRows) -> NumberedAnew | None:
        return None
