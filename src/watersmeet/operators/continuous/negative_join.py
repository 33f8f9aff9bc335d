"""W-JOIN under negative tuples: no result is kept; when a row expires, what it was joined with is found again.

W-EXPIRE is part of the join's buffers (H04, section 6.4): the rows that a window holds are those that the join stores,
once. Of each it is noted, by its time, whether a combination has it as the first member to leave; only then is it sent
again, as no operator above has seen anything that ends with another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from watersmeet.model.time import FOREVER_US
from watersmeet.operators.continuous.delta import Delta, Int64s, in_order, joined, no_changes
from watersmeet.operators.continuous.expiry import Born, KnownDeaths, entered_and_left, entering, held_again
from watersmeet.operators.continuous.from_many import FromMany
from watersmeet.operators.continuous.instants import Instants, among
from watersmeet.operators.continuous.lives import Lives, death_times
from watersmeet.operators.continuous.node import next_event_below
from watersmeet.operators.continuous.sources import LivesSource
from watersmeet.operators.continuous.triggers import Trigger
from watersmeet.operators.contract import Positions, Rows
from watersmeet.operators.join.combinations import Combinations
from watersmeet.operators.join.window_join import WindowJoin
from watersmeet.operators.keyed_state import KeyedRows, KeyedState
from watersmeet.operators.partition_key import KeysOf, PartitionKey, keys_in
from watersmeet.plan.expressions import Column
from watersmeet.plan.nodes import Input


class NegativeJoin(FromMany):
    """Every stream has a window in time. A row that leaves is joined once more, and the combinations of which it is the
    first to leave are withdrawn. Rows that are withdrawn have no numbers. With `every` all rows are sent again, also
    those that their own conditions keep out of the join, from a window of their own: so H04 prints it.

    `beside` holds rows that the join does not store, those of a stream that only meets tables; with `every` all rows.
    """

    STATE = (*FromMany.STATE, "beside", "ending")

    def __init__(
        self,
        join: WindowJoin,
        sources: Mapping[str, LivesSource],
        schema: pa.Schema,
        trigger: Trigger,
        *,
        ranged: Sequence[Input],
        held: Mapping[str, pa.Schema],
    ) -> None:
        """held: by stream, the columns that joining a row once more takes."""
        super().__init__(join, sources, schema, trigger, ranged=ranged)
        assert not self.announced
        self.every = False
        self.sent_again = 0
        self.held = held
        self.beside = {alias: KnownDeaths(columns, in_turn=True) for alias, columns in held.items()}
        self.ending = {alias: Instants() for alias in held}

    @property
    def held_rows(self) -> int:
        return self.join.kept_rows + sum(rows.held for rows in self.beside.values())

    @property
    def nbytes(self) -> int:
        noted = sum(instants.nbytes for instants in self.ending.values())
        return self.join.state_bytes + noted + sum(rows.nbytes for rows in self.beside.values())

    def next_event(self) -> int:
        stored = (self._oldest(one) for one in self.ranged)
        return min(next_event_below(self), *stored, *(rows.next_death() for rows in self.beside.values()))

    def _oldest(self, one: Input) -> int:
        """When the first of the stored rows leaves."""
        store = self.join.stores.get(one.alias)
        return int(store.times[store.tail]) + self._lasts(one) if store is not None and len(store) else FOREVER_US

    def divided(self, key: PartitionKey, keys_of: KeysOf | None = None) -> KeyedState:
        state = super().divided(key, keys_of)
        inside = self._key_inside(key)
        for alias, rows in self.beside.items():
            if alias not in self.join.stores:
                state.rows[f"held.{alias}"] = rows.keyed(keys_in(inside.column(alias)))
        return state

    def take_rows_over(self, state: KeyedState, **beside: KeyedRows) -> None:
        """What is in the answer is found by joining the rows of one input once more."""
        super().take_rows_over(state, **beside)
        for alias, rows in self.beside.items():
            if alias not in self.join.stores:
                held_again(state.rows[f"held.{alias}"], rows, [], self.complete - 1)
        first = self.ranged[0]
        store = self.join.stores.get(first.alias)
        if store is None:
            held = state.rows[f"held.{first.alias}"]
            again = Rows(held.data, held.numbers["deaths"] - self._lasts(first))
        else:
            again = self._stored(first.alias, np.arange(store.tail, store.head))
        found = list(self.join.probe(first.alias, again))
        if found:
            together = pa.concat_batches(found)
            self._note(together)
            born = self._born(together, {})
            born = born.take(np.flatnonzero(born.deaths >= self.complete))
            self._again = entering(replace(born, births=np.full(born.deaths.size, self.complete - 1)))

    def _lasts(self, one: Input) -> int:
        """How long a row is in its window."""
        return int(death_times(np.zeros(1, np.int64), one.window, self.extra_us)[0])

    def take(self, until: int) -> Delta:
        lives = self._taken(until)
        if self._again is not None:
            again, self._again = self._again, None
            return again
        found = list(self._combinations(lives))
        for alias, one in lives.items():
            self._hold_beside(alias, one)
        entered = no_changes(self.schema)
        if found:
            together = pa.concat_batches(found)
            self._note(together)
            entered = entering(self._born(together, lives))
        self.complete = self.trigger.reach(until, entered)
        left = self._withdrawn(self.complete)
        self._forget(self.complete)
        self.join.reconsider()
        return entered_and_left(entered, self.trigger.noticed(left, entered))

    def _hold_beside(self, alias: str, one: Lives) -> None:
        """Hold the new rows that the join does not, or all of them."""
        if alias in self.join.stores and not self.every:
            return
        born = Born(one.rows.data.select(self.held[alias].names), one.rows.times, one.deaths, one.serials, {})
        _, kept = (one.rows, None) if self.every else self.join.door.admissions[alias].filtered(one.rows)
        self.beside[alias].enter(born if kept is None else born.take(kept))

    def _note(self, found: pa.RecordBatch) -> None:
        """Which rows are the first to leave of combinations."""
        if not self.every:
            first, ends = self._first_to_leave(found)
            for place, one in enumerate(self.ranged):
                self.ending[one.alias].add(ends[first == place] - self._lasts(one))

    def _forget(self, until: int) -> None:
        """A row stays while it is in its window, also if no row to come can meet it: what it was joined with may still
        be withdrawn, by another member that leaves first."""
        for one in self.ranged:
            if one.alias in self.join.stores:
                self.join.counters.expired_rows += self.join.stores[one.alias].expire(until - self._lasts(one))

    def _withdrawn(self, until: int) -> Delta:
        parts: list[pa.RecordBatch] = []
        instants: list[Int64s] = []
        for place, one in enumerate(self.ranged):
            again = self._sent_again(one, until)
            if len(again) == 0:
                continue
            # All members are still stored: who leaves is forgotten after this.
            for batch in self.join.probe(one.alias, again):
                first, deaths = self._first_to_leave(batch)
                mine = np.flatnonzero(first == place)
                parts.append(batch.select(self.schema.names).take(pa.array(mine)))
                instants.append(deaths[mine])
        if not parts:
            return no_changes(self.schema)
        data, at = joined(parts, self.schema), np.concatenate(instants)
        signs = np.full(at.size, -1, np.int64)
        return Delta(data, at, signs, np.full(at.size, -1, np.int64)).take(in_order(at, signs))

    def _sent_again(self, one: Input, until: int) -> Rows:
        """The rows that leave a window before an instant, and end a combination."""
        lasts, store = self._lasts(one), self.join.stores.get(one.alias)
        # A death less the length of the window is the row's own time.
        ending = self.ending[one.alias].take(until - lasts)
        if store is None or self.every:
            gone = self.beside[one.alias].leave(until)
            rows = Rows(gone.data, gone.instants - lasts)
            if not self.every:
                rows = rows.take(np.flatnonzero(among(rows.times, ending)))
        else:
            rows = self._stored(one.alias, store.tail + np.arange(store.old_rows(store.tail, until - lasts)), ending)
        self.sent_again += len(rows)
        return rows

    def _stored(self, alias: str, positions: Positions, ending: Int64s | None = None) -> Rows:
        """Rows as the join stores them; of those at certain times, if not every one is wanted."""
        times = self.join.stores[alias].times[positions]
        if ending is not None:
            wanted = np.flatnonzero(among(times, ending))
            positions, times = positions[wanted], times[wanted]
        join = self.join
        stored = Combinations(
            [alias], positions[np.newaxis], None, join.stores, join.inputs, join.layout.code_positions, join.timeless
        )
        columns = [stored.column(Column(alias, field.name, field.type)) for field in self.held[alias]]
        return Rows(pa.RecordBatch.from_arrays(columns, schema=self.held[alias]), times)

    def _first_to_leave(self, found: pa.RecordBatch) -> tuple[Int64s, Int64s]:
        """Which member of each combination leaves first, the earlier in FROM if several do at once, and when."""
        ends = self._ends(found, 0)
        first = np.zeros(ends.size, np.int64)
        for place in range(1, len(self.ranged)):
            others = self._ends(found, place)
            first[others < ends] = place
            ends = np.minimum(ends, others)
        return first, ends
