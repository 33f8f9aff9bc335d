"""W-JOIN under negative tuples: no result is kept; when a row expires, what it was joined with is found again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from watersmeet.operators.continuous.delta import Delta, Int64s, in_order, joined, no_changes
from watersmeet.operators.continuous.expiry import Born, KnownDeaths, entered_and_left, entering, held_again
from watersmeet.operators.continuous.from_many import FromMany
from watersmeet.operators.continuous.lives import death_times
from watersmeet.operators.continuous.node import next_event_below
from watersmeet.operators.continuous.sources import LivesSource
from watersmeet.operators.continuous.triggers import Trigger
from watersmeet.operators.contract import Rows
from watersmeet.operators.join.window_join import WindowJoin
from watersmeet.operators.keyed_state import KeyedRows, KeyedState
from watersmeet.operators.partition_key import KeysOf, PartitionKey, keys_in
from watersmeet.plan.nodes import Input


class NegativeJoin(FromMany):
    """Every stream has a window in time. The rows of each are held until they leave it; then each is joined once more,
    and the combinations of which it is the first to leave are withdrawn. Rows that are withdrawn have no numbers. Rows
    that their own conditions keep out of the join are not sent again, unless `every` is set: so H04 has it."""

    STATE = (*FromMany.STATE, "held")

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
        self.held = {alias: KnownDeaths(columns, in_turn=True) for alias, columns in held.items()}

    @property
    def held_rows(self) -> int:
        return self.join.kept_rows + sum(held.held for held in self.held.values())

    @property
    def nbytes(self) -> int:
        return self.join.state_bytes + sum(held.nbytes for held in self.held.values())

    def next_event(self) -> int:
        return min(next_event_below(self), *(held.next_death() for held in self.held.values()))

    def divided(self, key: PartitionKey, keys_of: KeysOf | None = None) -> KeyedState:
        state = super().divided(key, keys_of)
        inside = self._key_inside(key)
        for alias, held in self.held.items():
            state.rows[f"held.{alias}"] = held.keyed(keys_in(inside.column(alias)))
        return state

    def take_rows_over(self, state: KeyedState, **beside: KeyedRows) -> None:
        """What is in the answer is found by joining the rows of one input once more."""
        super().take_rows_over(state, **beside)
        for alias, held in self.held.items():
            held_again(state.rows[f"held.{alias}"], held, [], self.complete - 1)
        first = self.ranged[0]
        rows = state.rows[f"held.{first.alias}"]
        times = rows.numbers["deaths"] - self._lasts(first)
        found = list(self.join.probe(first.alias, Rows(rows.data, times)))
        if found:
            born = self._born(pa.concat_batches(found), {})
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
            data = one.rows.data.select(self.held[alias].schema.names)
            born = Born(data, one.rows.times, one.deaths, one.serials, {})
            _, kept = (one.rows, None) if self.every else self.join.door.admissions[alias].filtered(one.rows)
            self.held[alias].enter(born if kept is None else born.take(kept))
        entered = entering(self._born(pa.concat_batches(found), lives)) if found else no_changes(self.schema)
        self.complete = self.trigger.reach(until, entered)
        left = self._withdrawn(self.complete)
        self._forget(self.complete)
        self.join.reconsider()
        return entered_and_left(entered, self.trigger.noticed(left, entered))

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
            gone = self.held[one.alias].leave(until)
            if len(gone) == 0:
                continue
            self.sent_again += len(gone)
            # A death less the length of the window is the row's own time.
            times = gone.instants - self._lasts(one)
            # All members are still stored: who leaves is forgotten after this.
            for batch in self.join.probe(one.alias, Rows(gone.data, times)):
                first, deaths = self._first_to_leave(batch)
                mine = np.flatnonzero(first == place)
                parts.append(batch.select(self.schema.names).take(pa.array(mine)))
                instants.append(deaths[mine])
        if not parts:
            return no_changes(self.schema)
        data, at = joined(parts, self.schema), np.concatenate(instants)
        signs = np.full(at.size, -1, np.int64)
        return Delta(data, at, signs, np.full(at.size, -1, np.int64)).take(in_order(at, signs))

    def _first_to_leave(self, found: pa.RecordBatch) -> tuple[Int64s, Int64s]:
        """Which member of each combination leaves first, the earlier in FROM if several do at once, and when."""
        ends = np.stack([self._ends(found, place) for place in range(len(self.ranged))])
        return ends.argmin(axis=0), ends.min(axis=0)
