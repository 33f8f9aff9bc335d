"""W-EXPIRE: holds the rows of a window and says when each leaves it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Protocol

import numpy as np
import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.model.time import FOREVER_US
from watersmeet.operators.continuous.delta import Bools, Delta, Int64s, joined, no_changes
from watersmeet.operators.contract import Positions
from watersmeet.operators.few_rows import fresh
from watersmeet.operators.kernels.changes import merge_order
from watersmeet.operators.keyed_state import KeyedRows
from watersmeet.operators.partition_key import KeysOf
from watersmeet.operators.payload import moved, payload_column, picked

# A look for the dead goes through all runs, so there are few.
MAX_RUNS = 12
FIRST_ROOM = 1024


@dataclass(frozen=True)
class Born:
    """Rows that enter, in the order of their births. `serials` are those of the members whose deaths will be
    announced, by input."""

    data: pa.RecordBatch
    births: Int64s
    deaths: Int64s
    order: Int64s
    serials: Mapping[str, Int64s]

    def take(self, positions: Positions) -> Born:
        return Born(
            self.data.take(pa.array(positions)),
            self.births[positions],
            self.deaths[positions],
            self.order[positions],
            {alias: serials[positions] for alias, serials in self.serials.items()},
        )


class Expiry(Protocol):
    @property
    def held(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    def enter(self, born: Born) -> None: ...
    def kill(self, alias: str, serials: Int64s, at: Int64s) -> None: ...
    def leave(self, until: int) -> Delta: ...
    def next_death(self) -> int: ...
    def keyed(self, keys_of: KeysOf) -> KeyedRows:
        """The rows that are held."""
        ...


@dataclass
class DeathRun:
    """Rows in the order of their deaths."""

    STATE: ClassVar = ("data", "deaths", "order")

    data: pa.RecordBatch
    deaths: Int64s
    order: Int64s

    def split(self, until: int) -> tuple[DeathRun, DeathRun]:
        cut = int(np.searchsorted(self.deaths, until))
        return self._piece(0, cut), self._piece(cut, self.deaths.size)

    def _piece(self, start: int, stop: int) -> DeathRun:
        return DeathRun(self.data.slice(start, stop - start), self.deaths[start:stop], self.order[start:stop])


class KnownDeaths:
    """Rows whose deaths are known when they are born, as windows in time give them.

    Held as runs in the order of death. With one window, runs follow each other and never meet; otherwise small
    runs are merged. What never dies is not held at all.
    """

    STATE = ("_runs",)
    ITEMS: ClassVar = {"_runs": DeathRun}

    def __init__(self, schema: pa.Schema, *, in_turn: bool) -> None:
        self.schema = schema
        self.in_turn = in_turn
        self._runs: list[DeathRun] = []
        self._nobody = no_changes(schema)

    @property
    def held(self) -> int:
        return sum(run.deaths.size for run in self._runs)

    @property
    def nbytes(self) -> int:
        return sum(int(run.data.nbytes) + 16 * run.deaths.size for run in self._runs)

    def enter(self, born: Born) -> None:
        mortal = born.deaths < FOREVER_US
        if not bool(mortal.all()):
            born = born.take(np.flatnonzero(mortal))
        if born.deaths.size == 0:
            return
        if not self.in_turn and bool((np.diff(born.deaths) < 0).any()):
            born = born.take(np.argsort(born.deaths, kind="stable"))
        self._runs.append(DeathRun(born.data, born.deaths, born.order))
        if len(self._runs) > MAX_RUNS:
            self._merge()

    def orders_and_deaths(self) -> tuple[Int64s, Int64s]:
        """The numbers and deaths of all rows that are held."""
        nothing = np.empty(0, np.int64)
        numbers = np.concatenate([nothing, *(run.order for run in self._runs)])
        return numbers, np.concatenate([nothing, *(run.deaths for run in self._runs)])

    def keyed(self, keys_of: KeysOf) -> KeyedRows:
        data = joined([run.data for run in self._runs], self.schema)
        orders, deaths = self.orders_and_deaths()
        return KeyedRows.of(keys_of(data), data, deaths=deaths, order=orders)

    def entering_again(self, at: int) -> Delta:
        """The rows that are held, as if they entered at an instant: where they leave in turn, in that order."""
        orders, _ = self.orders_and_deaths()
        ones = np.ones(orders.size, np.int64)
        return Delta(joined([run.data for run in self._runs], self.schema), at * ones, ones, orders)

    def kill(self, alias: str, serials: Int64s, at: Int64s) -> None:
        raise AssertionError("deaths are known in advance here")

    def next_death(self) -> int:
        return min((int(run.deaths[0]) for run in self._runs), default=FOREVER_US)

    def leave(self, until: int) -> Delta:
        """The rows that die before an instant."""
        gone, left = [], []
        for run in self._runs:
            if run.deaths[0] >= until:
                left.append(run)
                continue
            dead, alive = run.split(until)
            gone.append(dead)
            if alive.deaths.size:
                left.append(alive)
        self._runs = left
        if not gone:
            return self._nobody
        one = _as_one(gone, self.schema, in_turn=self.in_turn)
        return Delta(one.data, one.deaths, np.full(one.deaths.size, -1, np.int64), one.order)

    def _merge(self) -> None:
        """Merge the newest runs that together are no smaller than the one before them."""
        start, size = len(self._runs) - 1, self._runs[-1].deaths.size
        while start and self._runs[start - 1].deaths.size <= 2 * size:
            start -= 1
            size += self._runs[start].deaths.size
        start = min(start, len(self._runs) - 2)
        self._runs[start:] = [_as_one(self._runs[start:], self.schema, in_turn=self.in_turn)]


def _as_one(runs: list[DeathRun], schema: pa.Schema, *, in_turn: bool) -> DeathRun:
    if len(runs) == 1:
        return runs[0]
    data = joined([run.data for run in runs], schema)
    deaths = np.concatenate([run.deaths for run in runs])
    order = np.concatenate([run.order for run in runs])
    if in_turn:
        return DeathRun(data, deaths, order)
    by_death = np.argsort(deaths, kind="stable")
    return DeathRun(data.take(pa.array(by_death)), deaths[by_death], order[by_death])


class AnnouncedDeaths:
    """Rows that die when one of their members is named dead, or at a death known before, whichever is first."""

    STATE = ("_room", "_head", "_gone", "_columns", "_deaths", "_order", "_alive", "_serials")

    def __init__(self, schema: pa.Schema, aliases: list[str]) -> None:
        self.schema = schema
        self._room = FIRST_ROOM
        self._head = self._gone = 0
        self._columns = [payload_column(field.type, self._room) for field in schema]
        self._deaths: Int64s = np.empty(self._room, np.int64)
        self._order: Int64s = np.empty(self._room, np.int64)
        self._alive: Bools = np.zeros(self._room, np.bool_)
        self._serials: dict[str, Int64s] = {alias: np.empty(self._room, np.int64) for alias in aliases}

    @property
    def held(self) -> int:
        return self._head - self._gone

    @property
    def nbytes(self) -> int:
        arrays = [self._deaths, self._order, self._alive, *self._serials.values()]
        return sum(array.nbytes for array in arrays) + sum(column.nbytes for column in self._columns)

    def enter(self, born: Born) -> None:
        count = born.deaths.size
        self._make_room(count)
        first, last = self._head, self._head + count
        self._deaths[first:last], self._order[first:last], self._alive[first:last] = born.deaths, born.order, True
        for alias, serials in self._serials.items():
            serials[first:last] = born.serials[alias]
        for column, values in zip(self._columns, born.data.columns, strict=True):
            column.append(values, first)
        self._head = last

    def kill(self, alias: str, serials: Int64s, at: Int64s) -> None:
        if serials.size == 0:
            return
        by_serial = np.argsort(serials)
        serials, at = serials[by_serial], at[by_serial]
        # A row may be a member of many, so each that is held is looked up among the dead.
        held = self._serials[alias][: self._head]
        found = np.minimum(np.searchsorted(serials, held), serials.size - 1)
        hit = np.flatnonzero(serials[found] == held)
        self._deaths[hit] = np.minimum(self._deaths[hit], at[found[hit]])

    def keyed(self, keys_of: KeysOf) -> KeyedRows:
        held = np.flatnonzero(self._alive[: self._head])
        data = pa.RecordBatch.from_arrays([one.gather(held) for one in self._columns], schema=self.schema)
        serials = {serials_of(place): numbers[held] for place, numbers in enumerate(self._serials.values())}
        return KeyedRows.of(keys_of(data), data, deaths=self._deaths[held], order=self._order[held], **serials)

    def next_death(self) -> int:
        alive = self._deaths[: self._head][self._alive[: self._head]]
        return int(alive.min(initial=FOREVER_US))

    def leave(self, until: int) -> Delta:
        dead = np.flatnonzero(self._alive[: self._head] & (self._deaths[: self._head] < until))
        dead = dead[np.argsort(self._deaths[dead], kind="stable")]
        arrays = [column.gather(dead) for column in self._columns]
        data = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        delta = Delta(data, self._deaths[dead], np.full(dead.size, -1, np.int64), self._order[dead])
        self._alive[dead] = False
        self._gone += dead.size
        return delta

    def _make_room(self, count: int) -> None:
        if self._head + count <= self._room:
            return
        if 2 * self._gone > self._head:
            self._squeeze(count)
        if self._head + count > self._room:
            room = 2 * (self._head + count)
            for column in self._columns:
                column.relocate(0, self._head, room)
            self._deaths = moved(self._deaths, 0, self._head, room)
            self._order = moved(self._order, 0, self._head, room)
            self._alive = moved(self._alive, 0, self._head, room)
            self._serials = {alias: moved(array, 0, self._head, room) for alias, array in self._serials.items()}
            self._room = room

    def _squeeze(self, count: int) -> None:
        kept = np.flatnonzero(self._alive[: self._head])
        room = max(FIRST_ROOM, 2 * (kept.size + count))
        for column in self._columns:
            column.keep(kept, room)
        self._deaths = picked(self._deaths, kept, room)
        self._order = picked(self._order, kept, room)
        self._alive = picked(self._alive, kept, room)
        self._serials = {alias: picked(array, kept, room) for alias, array in self._serials.items()}
        self._head, self._gone, self._room = int(kept.size), 0, room


def serials_of(place: int) -> str:
    """What the serials of an announced input are called where rows are held, by its place among them."""
    return f"serials_{place}"


def held_again(rows: KeyedRows, expiry: Expiry, announced: Sequence[str], at: int) -> Delta:
    """Hold rows that one or several others held, and give them as rows that enter at an instant."""
    rows = rows.with_order()
    numbers = rows.numbers
    serials = {alias: numbers[serials_of(place)] for place, alias in enumerate(announced)}
    births = np.full(len(rows), at, np.int64)
    born = Born(rows.data, births, numbers["deaths"], numbers["order"], serials)
    # Where rows go in turn, that is the order of their deaths.
    expiry.enter(born.take(np.argsort(born.deaths, kind="stable")))
    return entering(born)


def entering(born: Born) -> Delta:
    """The births as changes; a row that dies as it is born is never seen."""
    return Delta(born.data, born.births, np.ones(born.births.size, np.int64), born.order)


def entered_and_left(entered: Delta, left: Delta) -> Delta:
    """Both in one order."""
    if len(left) == 0:
        return entered
    if len(entered) == 0:
        return left
    noticed = None
    if left.noticed is not None:
        noticed = np.concatenate([left.noticed, entered.noticed_at])
    # What leaves stands first, as merge_order takes it first at each instant.
    everything = Delta(
        pa.concat_batches([left.data, entered.data]),
        np.concatenate([left.instants, entered.instants]),
        np.concatenate([left.diffs, entered.diffs]),
        np.concatenate([left.order, entered.order]),
        noticed,
    )
    order = fresh(len(everything))
    merge_order(left.instants, entered.instants, order)
    return everything.take(order)
