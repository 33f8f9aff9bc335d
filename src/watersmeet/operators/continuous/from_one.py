"""FROM with one input: select, project, and let rows go when their window does (W-SELECT, W-PROJECT, W-EXPIRE)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from watersmeet.model.time import BEGINNING_US
from watersmeet.operators.continuous.delta import Delta, no_changes
from watersmeet.operators.continuous.expiry import (
    AnnouncedDeaths,
    Born,
    Expiry,
    KnownDeaths,
    entered_and_left,
    entering,
)
from watersmeet.operators.continuous.lives import Lives
from watersmeet.operators.continuous.node import Node
from watersmeet.operators.continuous.sources import Source
from watersmeet.operators.continuous.triggers import Trigger
from watersmeet.operators.evaluate import evaluate, evaluate_predicate
from watersmeet.plan.expressions import Expression

ONLY = ""


class FromOne:
    """The rows of one input that satisfy the predicates, as the columns asked for, while they live."""

    netted = False

    def __init__(
        self,
        source: Source,
        predicates: Sequence[Expression],
        columns: Sequence[tuple[str, Expression]],
        trigger: Trigger,
    ) -> None:
        self.source = source
        self.predicates = list(predicates)
        self.columns = list(columns)
        self.trigger = trigger
        self.schema = pa.schema([pa.field(name, e.type) for name, e in columns])
        self.expiry: Expiry = (
            AnnouncedDeaths(self.schema, [ONLY])
            if source.announced
            else KnownDeaths(self.schema, in_turn=source.in_turn)
        )
        self._next = 0
        self.complete = BEGINNING_US

    @property
    def held_rows(self) -> int:
        return self.expiry.held

    @property
    def nbytes(self) -> int:
        return self.expiry.nbytes

    def inputs(self) -> Iterator[Node]:
        yield from self.source.inputs()

    def next_event(self) -> int:
        return self.expiry.next_death()

    def take(self, until: int) -> Delta:
        lives = self.source.take(until)
        until = min(until, self.source.complete)
        entered = no_changes(self.schema)
        if lives is not None:
            born = self._born(lives)
            self.expiry.kill(ONLY, lives.killed, lives.killed_at) if lives.killed.size else None
            self.expiry.enter(born)
            entered = entering(born)
        self.complete = self.trigger.reach(until, entered)
        left = self.trigger.noticed(self.expiry.leave(self.complete), entered)
        return entered_and_left(entered, left)

    def _born(self, lives: Lives) -> Born:
        rows, deaths, serials = lives.rows, lives.deaths, lives.serials
        order = np.arange(self._next, self._next + len(rows))
        self._next += len(rows)
        data, births = rows.data, rows.times
        keep = deaths > births
        for predicate in self.predicates:
            times = pa.array(births, pa.timestamp("us"))
            keep &= evaluate_predicate(predicate, lambda c: data.column(c.name), data.num_rows, times)
        if not bool(keep.all()):
            kept = np.flatnonzero(keep)
            data, births, deaths, serials = data.take(pa.array(kept)), births[kept], deaths[kept], serials[kept]
            order = order[kept]
        times = pa.array(births, pa.timestamp("us"))
        arrays = [evaluate(e, lambda c: data.column(c.name), data.num_rows, times) for _, e in self.columns]
        chosen = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        return Born(chosen, births, deaths, order, {ONLY: serials})
