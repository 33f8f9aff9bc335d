"""ASOF JOIN: for each row of one side the partner nearest in time to an instant, given when no nearer one can come.

The latest partner up to an instant is the nearest where none may be later, the earliest from it on where none may be
older. Of the other side only that is kept which may still be asked for: of every key the last row before the earliest
row to come, and all rows after it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import partial
from typing import ClassVar

import numpy as np
import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.model.time import BEGINNING_US, FOREVER_US
from watersmeet.operators.codes import Mask
from watersmeet.operators.continuous.delta import Int64s, empty_batch, joined
from watersmeet.operators.continuous.row_ids import RowIds
from watersmeet.operators.continuous.row_table import RowTable
from watersmeet.operators.continuous.value_order import value_order
from watersmeet.operators.contract import Counters, End, Positions, Rows, WaitingRows
from watersmeet.operators.counted_elsewhere import NONE, CountedElsewhere
from watersmeet.operators.evaluate import evaluate, evaluate_predicate
from watersmeet.operators.keyed_state import KeyedRows, KeyedState
from watersmeet.operators.outer.changes_of_table import ChangesOfTable
from watersmeet.operators.outer.sides import Side, Sided, all_streams, passed_on, split_watermarks
from watersmeet.operators.partition_key import KeysOf, PartitionKey
from watersmeet.physical.nodes import LookedUp
from watersmeet.plan.expressions import Column, Expression, columns_of
from watersmeet.plan.nodes import Join

AT, KEY = "__at", "__key"


@dataclass(frozen=True)
class Nearest:
    """Of rows that ask: where their partner stands among the recent ones (-1: it is the one kept for the key), whether
    there is one, and the instant at which that is certain."""

    position: Positions
    has: Mask
    sure: Int64s

    def take(self, places: Positions) -> Nearest:
        return Nearest(self.position[places], self.has[places], self.sure[places])


@dataclass(frozen=True)
class Asked:
    """Rows that ask, the numbers of their keys, and what was found for them."""

    rows: Rows
    ids: Int64s
    found: Nearest

    def take(self, places: Positions) -> Asked:
        return Asked(self.rows.take(places), self.ids[places], self.found.take(places))


class Latest:
    """The rows of the side that is looked up: of each key the last one before an instant, and all after it.

    Those after it are in the order of their times, and of equal times in that of their values, or of their arrival.
    """

    STATE = ("_ids", "_base", "_base_at", "_recent", "_touched")

    def __init__(
        self,
        schema: pa.Schema,
        keys: Sequence[Expression],
        only: Sequence[Expression],
        changes: ChangesOfTable | None = None,
    ) -> None:
        """keys: what must be equal. only: conditions on these rows alone. changes: the rows are changes of a table, of
        which the last to arrive is the latest of equal times, and a deletion is no partner."""
        self.schema = schema
        self.changes = changes
        self.keys = list(keys)
        self.only = list(only)
        self._ids = RowIds()
        self._base = RowTable(schema)
        self._base_at: Int64s = np.empty(0, np.int64)  # by number of the key
        held = pa.schema([*schema, pa.field(AT, pa.int64()), pa.field(KEY, pa.int64())])
        self._recent = empty_batch(held)
        self._touched: Int64s = np.empty(0, np.int64)  # keys that were numbered, of which perhaps nothing is held

    @property
    def rows(self) -> int:
        held = int(np.count_nonzero(self._base_at > BEGINNING_US))
        return held + int(self._recent.num_rows)

    @property
    def nbytes(self) -> int:
        return self._ids.nbytes + self._base.nbytes + self._base_at.nbytes + int(self._recent.nbytes)

    def add(self, rows: Rows) -> None:
        kept = np.ones(len(rows), np.bool_)
        for condition in self.only:
            kept &= evaluate_predicate(condition, lambda column: rows.data.column(column.name), len(rows))
        if self.changes is not None:
            self.changes.check(rows.data)
        self._hold(rows, kept)

    def take_over(self, rows: KeyedRows) -> None:
        """Rows that one or several others held; conditions on them alone they have passed."""
        self._hold(Rows(rows.data, rows.numbers["times"]), np.ones(len(rows), np.bool_))

    @property
    def tells_keys(self) -> bool:
        """Whether the rows that are held still have the columns that their keys are made of."""
        return {column.name for key in self.keys for column in columns_of(key)} <= {*self.schema.names}

    def _hold(self, rows: Rows, kept: Mask) -> None:
        ids, known = self.numbers(rows.data)
        chosen = np.flatnonzero(kept & known)
        if chosen.size == 0:
            return
        data = rows.data.select(self.schema.names).take(pa.array(chosen))
        arrays = [*data.columns, pa.array(rows.times[chosen]), pa.array(ids[chosen])]
        more = pa.RecordBatch.from_arrays(arrays, schema=self._recent.schema)
        self._recent = joined([self._recent, more], self._recent.schema)
        self._recent = self._recent.take(pa.array(self._order()))

    def _order(self) -> Positions:
        if self.changes is not None:
            arrived: Positions = np.argsort(int64s(self._recent, AT), kind="stable")
            return arrived
        columns = [self._recent.column(AT), *self._columns()]
        return value_order([(column, False, False) for column in columns])

    def _columns(self) -> list[pa.Array]:
        return [self._recent.column(name) for name in self.schema.names]

    def numbers(self, data: pa.RecordBatch, keys: Sequence[Expression] | None = None) -> tuple[Int64s, Mask]:
        """The numbers of the rows' keys, and whether they have one: a NULL is equal to nothing."""
        asked = self.keys if keys is None else keys
        columns = [evaluate(key, lambda column: data.column(column.name), data.num_rows) for key in asked]
        known = self._is_known(columns, data.num_rows)
        ids = self._ids.of(columns, data.num_rows)
        self._touch(ids)
        if self._ids.room > self._base_at.size:
            grown = np.full(self._ids.room, BEGINNING_US, np.int64)
            grown[: self._base_at.size] = self._base_at
            self._base_at = grown
        return ids, known

    def _is_known(self, columns: Sequence[pa.Array], length: int) -> Mask:
        known = np.ones(length, np.bool_)
        for column in columns:
            if column.null_count:
                known &= column.is_valid().to_numpy(zero_copy_only=False)
        return known

    def _touch(self, ids: Int64s) -> None:
        if 8 * ids.size < self._ids.room:
            self._touched = np.union1d(self._touched, ids)
            return
        touched = np.zeros(self._ids.room, np.bool_)
        touched[self._touched] = touched[ids] = True
        self._touched = np.flatnonzero(touched)

    def nearest(self, ids: Int64s, instants: Int64s, back_us: int | None, ahead_us: int | None) -> Nearest:
        """For each key the row that is nearest to an instant, at most so much older or later."""
        position = self._among_recent(ids, instants)
        when = self._times(position, self._base_at[ids])
        older = np.where(when > BEGINNING_US, instants - when, FOREVER_US)
        if back_us is not None:
            older[older > back_us] = FOREVER_US
        if ahead_us == 0:
            return Nearest(position, older < FOREVER_US, instants)
        first = self._among_recent(ids, instants, after=True)
        next_us = self._times(first, FOREVER_US)
        later = np.where(first >= 0, next_us - instants, FOREVER_US)
        most = FOREVER_US if ahead_us is None else ahead_us
        later[later > most] = FOREVER_US
        ahead = np.flatnonzero(later < older)
        # Of equal times the greatest, which is the last.
        position[ahead] = self._among_recent(ids[ahead], next_us[ahead])
        # Nothing nearer comes once time has passed all that would be; one as near that is later does not count.
        nearer = np.where(older < FOREVER_US, np.maximum(older - 1, 0), FOREVER_US)
        wait = np.minimum(np.minimum(later, nearer), most)
        sure = np.where(wait < FOREVER_US, instants + wait, FOREVER_US)
        return Nearest(position, np.minimum(older, later) < FOREVER_US, sure)

    def _times(self, position: Positions, otherwise: Int64s | int) -> Int64s:
        """The times of recent rows, something else where there is none."""
        at = int64s(self._recent, AT)
        if at.size == 0:
            return np.broadcast_to(np.asarray(otherwise, np.int64), position.shape)
        times: Int64s = np.where(position >= 0, at[np.maximum(position, 0)], otherwise)
        return times

    def partners(self, position: Positions, ids: Int64s) -> tuple[Positions, pa.RecordBatch]:
        """The rows that were found, and whose they are: a deletion is no partner."""
        rows = self._gathered(position, ids)
        if self.changes is None:
            return np.arange(ids.size), rows
        there = np.flatnonzero(~self.changes.deletes(rows))
        return there, rows.take(pa.array(there))

    def _among_recent(self, ids: Int64s, instants: Int64s, *, after: bool = False) -> Positions:
        """The position of the last recent row of each key up to an instant, or of the first after it; -1 where there is
        none."""
        at, key = int64s(self._recent, AT), int64s(self._recent, KEY)
        held = at.size
        keys = np.concatenate([key, ids])
        # In one number the key, then the place in time: who asks stands behind all rows up to its instant.
        asked = 2 * np.searchsorted(at, instants, side="right") - 1
        order = np.argsort(keys * (2 * held + 2) + np.concatenate([2 * np.arange(held), asked]))
        if after:
            order = order[::-1]
        row = np.where(order < held, np.arange(order.size), -1)
        last = np.maximum.accumulate(row)
        before = order[np.maximum(last, 0)]
        mine = (last >= 0) & (keys[before] == keys[order])
        asks = order >= held
        position = np.full(ids.size, -1, np.int64)
        position[order[asks] - held] = np.where(mine[asks], before[asks], -1)
        return position

    def _gathered(self, position: Positions, ids: Int64s) -> pa.RecordBatch:
        """Rows from those that are recent, or the one kept for a key."""
        fresh, old = np.flatnonzero(position >= 0), np.flatnonzero(position < 0)
        recent = pa.RecordBatch.from_arrays(self._columns(), schema=self.schema).take(pa.array(position[fresh]))
        kept = pa.RecordBatch.from_arrays(self._base.get(ids[old]), schema=self.schema)
        back = np.empty(position.size, np.int64)
        back[np.concatenate([fresh, old])] = np.arange(position.size)
        return joined([recent, kept], self.schema).take(pa.array(back))

    def keyed(self, keys_of: KeysOf) -> KeyedRows:
        """The rows that may still be asked for, those first that stand for all before an instant."""
        kept = np.flatnonzero(self._base_at > BEGINNING_US)
        base = pa.RecordBatch.from_arrays(self._base.get(kept), schema=self.schema)
        recent = pa.RecordBatch.from_arrays(self._columns(), schema=self.schema)
        data = joined([base, recent], self.schema)
        times = np.concatenate([self._base_at[kept], int64s(self._recent, AT)])
        return KeyedRows.of(keys_of(data), data, times=times)

    def settle(self, until_us: int, oldest_us: int | None) -> None:
        """Nobody asks for what lies before an instant any more, but for the last row of each key, if that is not too
        old."""
        at, key = int64s(self._recent, AT), int64s(self._recent, KEY)
        past = int(np.searchsorted(at, until_us))
        if past:
            # From the end, as the last of a key is the greatest of its time; what was kept for it is older.
            _, back = np.unique(key[:past][::-1], return_index=True)
            last = past - 1 - back
            rows = pa.RecordBatch.from_arrays(self._columns(), schema=self.schema).take(pa.array(last))
            self._base.put(key[last], rows.columns)
            self._base_at[key[last]] = at[last]
            self._forget_deleted(key[last], rows)
            self._recent = self._recent.slice(past)
        if oldest_us is not None:
            gone = np.flatnonzero((self._base_at > BEGINNING_US) & (self._base_at < oldest_us))
            self._base.drop(gone)
            self._base_at[gone] = BEGINNING_US
            self._touched = np.union1d(self._touched, gone)
        self._forget_keys()

    def _forget_deleted(self, keys: Int64s, rows: pa.RecordBatch) -> None:
        """Of a key whose last row deletes it there is nothing to keep."""
        if self.changes is None:
            return
        gone = keys[self.changes.deletes(rows)]
        self._base.drop(gone)
        self._base_at[gone] = BEGINNING_US
        self._touched = np.union1d(self._touched, gone)

    def _forget_keys(self) -> None:
        """Numbers of keys of which nothing is held are given to others."""
        idle = self._touched[self._base_at[self._touched] == BEGINNING_US]
        recent = int64s(self._recent, KEY)
        if 8 * recent.size < self._ids.room:
            idle = np.setdiff1d(idle, recent)
        else:
            held = np.zeros(self._ids.room, np.bool_)
            held[recent] = True
            idle = idle[~held[idle]]
        self._ids.forget(idle)
        self._touched = np.empty(0, np.int64)


class AsofJoin(Sided):
    """Rows of the first side wait until the watermark of the other has passed the instant they ask for."""

    STATE = ("latest", "side_operators", "counters", "_waiting", "_answered_us")
    ITEMS: ClassVar = {"_waiting": Rows}

    def __init__(
        self,
        written: Join,
        columns: Sequence[tuple[str, Expression]],
        latest: Latest,
        keys: Sequence[Expression],
        only: Sequence[Expression],
        sides: Mapping[str, Side],
        remembered_us: int,
        looked_up: Sequence[LookedUp] = (),
        elsewhere: CountedElsewhere = NONE,
    ) -> None:
        """keys: of the first side. only: conditions on its rows alone. elsewhere: which rows of streams another
        join has as well, which counts them."""
        assert written.asof is not None
        self.written, self.asof = written, written.asof
        self.columns = list(columns)
        self.schema = pa.schema([pa.field(name, e.type) for name, e in self.columns])
        self.left, self.right = (one.alias for one in written.inputs)
        self.latest = latest
        self.keys, self.only = list(keys), list(only)
        self.sides = dict(sides)
        self.remembered_us = remembered_us
        self.looked_up = {one.name: one for one in looked_up}
        self.counters = Counters()
        self._elsewhere = elsewhere
        self._owner = {stream: alias for alias, side in self.sides.items() for stream in side.streams}
        self._waiting: list[Rows] = []
        self._answered_us = BEGINNING_US
        self._due_us: int | None = None  # before that no row that waits is certain; None: to be found out

    @property
    def goes_on(self) -> bool:
        return self.asof.ahead_us is None

    @property
    def is_kept_whole(self) -> bool:
        """A row that waits for any partner to come may be older than all that is kept by time; so may the last row of a
        key that a query has made, and by which rows of its streams it is kept nobody can tell."""
        made_below = self.right in self.sides and self.asof.within_us is None
        return self.asof.ahead_us is None or made_below or super().is_kept_whole

    @property
    def wake_us(self) -> int | None:
        times = [sure + 1 for sure in map(self._first_sure_us, self._waiting) if sure < FOREVER_US]
        times += [wake for side in self.sides.values() if (wake := side.operator.wake_us) is not None]
        return min(times, default=None)

    def _first_sure_us(self, rows: Rows) -> int:
        """When the first of some rows is answered, if nothing else comes."""
        instants = self._instants(rows)
        return int((instants if self.asof.ahead_us == 0 else self._asked(rows, instants).found.sure).min())

    @property
    def kept_rows(self) -> int:
        inside = sum(side.operator.kept_rows for side in self.sides.values())
        return inside + self.latest.rows + sum(map(len, self._waiting))

    @property
    def state_bytes(self) -> int:
        inside = sum(side.operator.state_bytes for side in self.sides.values())
        return inside + self.latest.nbytes + sum(int(rows.data.nbytes) for rows in self._waiting)

    def waiting_rows(self) -> dict[str, WaitingRows]:
        waiting = {name: one for side in self.sides.values() for name, one in side.operator.waiting_rows().items()}
        if self._waiting and self.left not in self.sides:
            times = np.concatenate([rows.times for rows in self._waiting])
            waiting[self.left] = WaitingRows(int(times.size), int(times.min()), int(times.max()))
        return waiting

    def push(self, alias: str, rows: Rows) -> Iterator[pa.RecordBatch]:
        self.counters.stored_rows += len(rows) - self._elsewhere.in_rows(alias, rows.data)
        owner = self._owner.get(alias)
        if owner is not None:
            for made in passed_on(self.sides[owner], self.sides[owner].operator.push(alias, rows)):
                self._take_in(owner, made)
        else:
            self._take_in(alias, rows)
        yield from ()

    def _take_in(self, alias: str, rows: Rows) -> None:
        self._due_us = None
        if alias == self.right:
            self.latest.add(rows)
        elif len(rows):
            self._waiting.append(rows)

    def _instants(self, rows: Rows) -> Int64s:
        """To what time the partner of each row is the nearest."""
        found = evaluate(self.asof.instant, lambda column: rows.data.column(column.name), len(rows))
        instants: Int64s = found.to_numpy(zero_copy_only=False)
        return instants

    def advance(self, watermarks: Mapping[str, int]) -> Iterator[pa.RecordBatch]:
        own = yield from self._given(watermarks)
        to_come = own[self.left] + self.asof.up_to_us - self.asof.behind_us
        # Rows that are still to come must find what is kept to be older. Those that wait would have been answered by
        # what lies between their instant and now.
        first = min(max(min(to_come, own[self.right]), BEGINNING_US), FOREVER_US)
        self.latest.settle(first, self._oldest_us(first))

    def _given(self, watermarks: Mapping[str, int]) -> Generator[pa.RecordBatch, None, dict[str, int]]:
        """Give what is certain; the watermarks of both sides."""
        own, inside = split_watermarks([self.left, self.right], self.sides, watermarks)
        for alias, marks in inside.items():
            for made in passed_on(self.sides[alias], self.sides[alias].operator.advance(marks)):
                self._take_in(alias, made)
        ready = self._released(own[self.right])
        if ready is not None:
            batch = self._answered(ready)
            if batch.num_rows:
                self.counters.results += batch.num_rows
                yield batch
        return own

    def _oldest_us(self, first: int) -> int | None:
        """What is older nobody asks for, not even as the last of its key."""
        back_us = self.asof.back_us
        if back_us is None:
            return None
        waiting = [int(self._instants(rows).min()) for rows in self._waiting] if back_us else []
        return min(first, *waiting, first) - back_us

    def _released(self, until_us: int) -> Asked | None:
        """The rows for which no nearer partner can come, with what was found for them."""
        if not self._waiting or (self._due_us is not None and self._due_us >= until_us):
            return None
        everything = Rows.together(self._waiting)
        instants = self._instants(everything)
        # Rows of the other side at the very instant count, so time must have passed it.
        passed = np.flatnonzero(instants < until_us)
        if passed.size == 0:
            self._due_us = int(instants.min())
            return None
        asking = everything if passed.size == len(everything) else everything.take(passed)
        asked = self._asked(asking, instants[passed])
        sure = instants.copy()
        sure[passed] = asked.found.sure
        ready = sure < until_us
        self._due_us = int(sure[~ready].min(initial=FOREVER_US))
        if not bool(ready.any()):
            return None
        self._waiting = [] if bool(ready.all()) else [everything.take(np.flatnonzero(~ready))]
        self._answered_us = max(self._answered_us, int(sure[ready].max()))
        return asked if bool(ready[passed].all()) else asked.take(np.flatnonzero(ready[passed]))

    def _asked(self, rows: Rows, instants: Int64s) -> Asked:
        matches = np.ones(len(rows), np.bool_)
        for condition in self.only:
            matches &= evaluate_predicate(condition, lambda column: rows.data.column(column.name), len(rows))
        ids, known = self.latest.numbers(rows.data, self.keys)
        found = self.latest.nearest(ids, instants, self.asof.back_us, self.asof.ahead_us)
        never = ~(matches & known)
        # Without a partner to wait for: in an inner join such a row is done with.
        ends = instants if self.written.kind == "asof" else instants + (self.asof.ahead_us or 0)
        return Asked(rows, ids, Nearest(found.position, found.has & ~never, np.where(never, ends, found.sure)))

    def _answered(self, asked: Asked) -> pa.RecordBatch:
        rows, found = asked.rows, asked.found
        having, partners = self._found(asked)
        made, kept = self._selected(rows.take(having), found.sure[having], partners)
        if self.written.kind == "asof":
            return made
        without = np.ones(len(rows), np.bool_)
        without[having] = False
        alone = np.flatnonzero(without)
        others, left_alone = self._selected(rows.take(alone), found.sure[alone], None)
        # In the order in which the rows came.
        order = np.argsort(np.concatenate([having[kept], alone[left_alone]]), kind="stable")
        return joined([made, others], self.schema).take(pa.array(order))

    def _found(self, asked: Asked) -> tuple[Positions, pa.RecordBatch]:
        """The rows that have a partner, and these."""
        with_one = np.flatnonzero(asked.found.has)
        there, partners = self.latest.partners(asked.found.position[with_one], asked.ids[with_one])
        return self._holding(asked.rows, with_one[there], partners)

    def _holding(self, rows: Rows, having: Positions, partners: pa.RecordBatch) -> tuple[Positions, pa.RecordBatch]:
        """Those rows whose partner is what is asked of it."""
        if not self.asof.holding or having.size == 0:
            return having, partners
        column = self._columns_of(rows.take(having), partners)
        holds = np.ones(having.size, np.bool_)
        for condition in self.asof.holding:
            holds &= evaluate_predicate(condition, column, having.size)
        kept = np.flatnonzero(holds)
        return having[kept], partners.take(pa.array(kept))

    def _columns_of(self, rows: Rows, partners: pa.RecordBatch | None) -> Callable[[Column], pa.Array]:
        def column(asked: Column) -> pa.Array:
            if asked.stream == self.left:
                return rows.data.column(asked.name)
            return pa.nulls(len(rows), asked.type) if partners is None else partners.column(asked.name)

        return column

    def _selected(self, rows: Rows, sure: Int64s, partners: pa.RecordBatch | None) -> tuple[pa.RecordBatch, Positions]:
        """What is given of rows and their partners, and of which of them: WHERE comes after the join."""
        column = self._columns_of(rows, partners)

        def times() -> pa.Array:
            # Not before it was certain what the row is joined with.
            return pa.array(np.maximum(rows.times, sure), pa.timestamp("us"))

        arrays = [evaluate(e, column, len(rows), times) for _, e in self.columns]
        made = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        kept = np.ones(len(rows), np.bool_)
        for condition in self.written.where:
            kept &= evaluate_predicate(condition, column, len(rows), times)
        places = np.flatnonzero(kept)
        return (made if places.size == len(rows) else made.take(pa.array(places))), places

    # ---- how its state divides --------------------------------------------------------------------------------------

    @property
    def inputs(self) -> dict[str, pa.Schema]:
        return {one.alias: one.schema for one in self.written.inputs}

    def undivided(self, key: PartitionKey) -> str | None:
        why = self.undivided_sides(key)
        if why is None and not self.latest.tells_keys:
            why = f"the rows of {self.right} that are looked up do not tell the key"
        return why

    def key_columns(self, key: PartitionKey) -> frozenset[str]:
        inside = self.key_inside(key)
        return frozenset() if inside is None else inside.shown_in(self.columns, [self.left])

    def divided(self, key: PartitionKey) -> KeyedState:
        state, inside = self.divided_sides(key), self.key_inside(key)
        assert inside is not None
        looked_up, asking = ((state.rows, state.copies)[one in inside.copied] for one in (self.right, self.left))
        looked_up["latest"] = self.latest.keyed(partial(inside.codes_of, self.right))
        if self._waiting:
            rows = Rows.together(self._waiting)
            asking["waiting"] = KeyedRows.of(inside.codes_of(self.left, rows.data), rows.data, times=rows.times)
        return state

    def take_rows_over(self, state: KeyedState) -> None:
        self.take_sides_over(state)
        waiting = state.rows.get("waiting")
        self.latest.take_over(state.rows["latest"])
        if waiting is not None and len(waiting):
            self._waiting = [Rows(waiting.data, waiting.numbers["times"])]
            self._due_us = None

    def finish(self, newest_us: int) -> Generator[pa.RecordBatch, None, End]:
        # Nothing is forgotten: more may come after an end, and rows without a partner yet go on to wait for it.
        yield from self._given(dict.fromkeys(all_streams([self.left, self.right], self.sides), FOREVER_US))
        return End(self.answered_us)

    def restore(self, log: Mapping[str, Rows], complete_until: int, ends: Sequence[End] = ()) -> None:
        for alias, rows in log.items():
            for _ in self.push(alias, rows):
                pass
        for _ in self.advance(dict.fromkeys(all_streams([self.left, self.right], self.sides), complete_until)):
            pass
        self.counters = Counters()


def int64s(batch: pa.RecordBatch, name: str) -> Int64s:
    values: Int64s = batch.column(name).to_numpy(zero_copy_only=False)
    return values
