"""FROM with one input: select, project, and let rows go when their window does (W-SELECT, W-PROJECT, W-EXPIRE)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from watersmeet.model.time import BEGINNING_US
from watersmeet.operators.continuous.delta import Bools, Delta, Int64s, no_changes
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
from watersmeet.operators.continuous.lives import Lives
from watersmeet.operators.continuous.node import Divides, Node, next_event_below, shown_keys
from watersmeet.operators.continuous.sources import LivesSource
from watersmeet.operators.continuous.triggers import Timely, Trigger
from watersmeet.operators.contract import Positions
from watersmeet.operators.evaluate import columns_in, evaluate_all, evaluate_predicate
from watersmeet.operators.keyed_state import KeyedState
from watersmeet.operators.partition_key import PartitionKey, keys_in
from watersmeet.plan.expressions import Expression

ONLY = ""
# A row that is chosen once more as it leaves has the event_time() it was born with, so that is held too.
BORN = pa.field("__born", pa.int64())


class FromOne(Divides):
    """The rows of one input that satisfy the predicates, as the columns asked for, while they live.

    Rows are held until they die: those chosen, as the columns asked for. With `negative` they are held as they came,
    and when they die they are sent and chosen once more (negative tuples). Those not chosen are not sent, as no
    operator above has seen them, unless `every` is set: so H04 has it.
    """

    STATE = ("source", "trigger", "expiry", "_next", "complete")

    netted = False

    def __init__(
        self,
        source: LivesSource,
        schema: pa.Schema,
        predicates: Sequence[Expression],
        columns: Sequence[tuple[str, Expression]],
        trigger: Trigger,
        *,
        negative: bool = False,
    ) -> None:
        """schema: the columns of the input that are read."""
        self.source = source
        self.predicates = list(predicates)
        self.columns = list(columns)
        self.trigger = trigger
        self.negative = negative
        self.schema = pa.schema([pa.field(name, e.type) for name, e in columns])
        self.held = schema.append(BORN) if negative else self.schema
        self.expiry: Expiry = (
            AnnouncedDeaths(self.held, [ONLY]) if source.announced else KnownDeaths(self.held, in_turn=source.in_turn)
        )
        self._next = 0
        self.complete = BEGINNING_US
        self.every = False
        self.sent_again = 0
        self._again: Delta | None = None  # what it held before another took over

    @property
    def held_rows(self) -> int:
        return self.expiry.held + self.source.held_rows

    @property
    def nbytes(self) -> int:
        return self.expiry.nbytes + self.source.nbytes

    def inputs(self) -> Iterator[Node]:
        yield from self.source.inputs()

    def next_event(self) -> int:
        return min(self.expiry.next_death(), self.source.next_birth(), next_event_below(self))

    def take(self, until: int) -> Delta:
        entered = self.enter(until)
        if self._again is not None:
            again, self._again = self._again, None
            return again
        left = self.expiry.leave(self.complete)
        if self.negative:
            self.sent_again += len(left)
            left, _ = self._chosen(left, left.data.column(BORN.name).to_numpy(zero_copy_only=False))
        return entered_and_left(entered, self.trigger.noticed(left, entered))

    @property
    def in_turn(self) -> bool:
        """Whether rows leave in the order they came, as soon as it is time."""
        lasting = self.source.announced or self.source.endless or self.negative
        return self.source.in_turn and not lasting and isinstance(self.trigger, Timely)

    @property
    def gives_held(self) -> bool:
        """Whether what others held is given next."""
        return self._again is not None

    def enter(self, until: int) -> Delta:
        """Hold the rows that come before an instant."""
        lives = self.source.take(until)
        if self._again is not None:
            return no_changes(self.schema)
        # An answer below may be complete for less (pipeline = 'ita').
        until = min(until, self.source.complete)
        if lives is None:
            entered = no_changes(self.schema)
        else:
            # Who is named here was born before. New rows that have died already say so in their deaths.
            if lives.killed.size:
                self.expiry.kill(ONLY, lives.killed, lives.killed_at)
            born = self._born(lives)
            entered, kept = self._chosen(entering(born), born.births)
            self.expiry.enter(self._as_held(born, entered, kept))
        self.complete = self.trigger.reach(until, entered)
        return entered

    @property
    def next_number(self) -> int:
        """That of the next row to come."""
        return self._next

    def entered(self, rows: int, until: int) -> None:
        """What `enter` does beside holding rows."""
        self._next += rows
        self.complete = until

    # ---- how its state divides --------------------------------------------------------------------------------------

    def undivided(self, key: PartitionKey) -> str | None:
        return self.source.undivided(key)

    @property
    def gives_all_again(self) -> bool:
        return not self.source.endless

    @property
    def needs_all_again(self) -> bool:
        return self.source.gives_again

    def key_columns(self, key: PartitionKey) -> frozenset[str]:
        return shown_keys(self.columns, self.source.key_columns(key))

    def divided(self, key: PartitionKey) -> KeyedState:
        state = KeyedState(latest={"next": self._next, "complete": self.complete})
        state.put("source", self.source.divided(key))
        if not self.source.gives_again:
            held = self.source.key_columns(key) & {*self.held.names} if self.negative else self.key_columns(key)
            state.rows["held"] = self.expiry.keyed(keys_in(min(held, default=None)))
        return state

    def take_rows_over(self, state: KeyedState) -> None:
        anew = self.source.take_rows_over(state.inside("source"))
        self.complete = state.latest["complete"]
        if self.source.gives_again:
            return
        rows = state.rows["held"]
        if self.source.announced and anew is not None:
            rows = anew.of(rows, serials_of(0))
        again = held_again(rows, self.expiry, [ONLY] if self.source.announced else [], self.complete - 1)
        self._next = max(state.latest["next"], len(again))
        births = again.data.column(BORN.name).to_numpy(zero_copy_only=False) if self.negative else again.instants
        self._again = self._chosen(again, births)[0] if self.negative else again

    def _as_held(self, born: Born, entered: Delta, kept: Positions | None) -> Born:
        if self.negative:
            born = born if kept is None or self.every else born.take(kept)
            columns = [*(born.data.column(name) for name in self.held.names[:-1]), pa.array(born.births)]
            return replace(born, data=pa.RecordBatch.from_arrays(columns, schema=self.held))
        kept_of = born if kept is None else born.take(kept)
        return Born(entered.data, kept_of.births, kept_of.deaths, kept_of.order, kept_of.serials)

    def _born(self, lives: Lives) -> Born:
        """The rows that live at all, numbered."""
        order = np.arange(self._next, self._next + len(lives.rows))
        self._next += len(lives.rows)
        born = Born(lives.rows.data, lives.rows.times, lives.deaths, order, {ONLY: lives.serials})
        living = lives.deaths > lives.rows.times
        return born if bool(living.all()) else born.take(np.flatnonzero(living))

    def _chosen(self, delta: Delta, births: Int64s) -> tuple[Delta, Positions | None]:
        """The changes of rows that satisfy the predicates, as the columns asked for; and which rows, if not all."""
        data = delta.data

        def times() -> pa.Array:
            return pa.array(births, pa.timestamp("us"))

        kept = None
        passed = self._passed(data, times) if self.predicates else None
        if passed is not None and not bool(passed.all()):
            kept = np.flatnonzero(passed)
            delta, births = delta.take(kept), births[kept]
            data = delta.data
        arrays = evaluate_all((e for _, e in self.columns), columns_in(data), data.num_rows, times)
        return delta.with_data(pa.RecordBatch.from_arrays(arrays, schema=self.schema)), kept

    def _passed(self, data: pa.RecordBatch, times: Callable[[], pa.Array]) -> Bools:
        passed = np.ones(data.num_rows, np.bool_)
        for predicate in self.predicates:
            passed &= evaluate_predicate(predicate, columns_in(data), data.num_rows, times)
        return passed
