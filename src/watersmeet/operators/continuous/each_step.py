"""HOP and CUMULATE: at every step all groups of the window that ends there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from watersmeet.model.time import FOREVER_US
from watersmeet.model.windows import WINDOW_COLUMNS, Hop
from watersmeet.operators.continuous.delta import Delta, Int64s, no_changes
from watersmeet.operators.continuous.multiset import Multiset
from watersmeet.operators.continuous.node import Divides, Node, Unary, keys_below, shown_keys
from watersmeet.operators.evaluate import evaluate, evaluate_predicate
from watersmeet.operators.kernels import changes as kernel
from watersmeet.operators.keyed_state import KeyedState
from watersmeet.operators.partition_key import PartitionKey
from watersmeet.physical.nodes import Columns
from watersmeet.plan.expressions import Column, Expression

NOBODY = np.empty(0, np.int64)


class EachStep(Divides, Unary):
    """The child gives the groups as rows enter and leave at the last instants before windows end. At each of them that
    holds any, all groups are given, as rows that enter; a row costs the same however many windows it is in."""

    STATE = ("child", "_groups", "_next", "_number")

    netted = True

    def __init__(self, child: Node, window: Hop, having: Expression | None, columns: Columns) -> None:
        """having, columns: over the child's columns and those of the window."""
        super().__init__(child, pa.schema([pa.field(name, e.type) for name, e in columns]))
        self.window = window
        self.having = having
        self.columns = columns
        self._groups = Multiset(child.schema, kernel.UNION_ALL)
        self._next = FOREVER_US  # the next step, while there are groups
        self._number = 0

    @property
    def pace_us(self) -> int:
        return self.window.slide_us

    @property
    def held_rows(self) -> int:
        return self._groups.ids.live

    @property
    def nbytes(self) -> int:
        return self._groups.nbytes

    def next_event(self) -> int:
        return min(self.child.next_event(), self._next)

    def to_come(self, until: int) -> int:
        """How many groups are given before an instant if nothing changes."""
        stop = min(until, self.child.next_event())
        steps = -(-(stop - self._next) // self.window.slide_us) if self._next < stop else 0
        return steps * self._groups.ids.live

    def take(self, until: int) -> Delta:
        delta = self.child.take(until)
        stop = min(until, self.child.complete)
        groups = self._groups.number(delta) if len(delta) else NOBODY
        counts, entered = self._groups.left, 0
        steps: list[int] = []
        there: list[Int64s] = []
        # Groups change at steps only, so where there are none the next step is the next change.
        moment = min(self._next, _first(delta.instants))
        while moment < stop:
            before, entered = entered, int(np.searchsorted(delta.instants, moment + 1))
            np.add.at(counts, groups[before:entered], delta.diffs[before:entered])
            now = np.flatnonzero(counts > 0)
            if now.size:
                steps.append(moment)
                there.append(now)
                moment += self.window.slide_us
            else:
                moment = _first(delta.instants[entered:])
        self._next = moment
        answer = self._whole(steps, there) if steps else no_changes(self.schema)
        # After the answer, which shows groups that are gone since.
        self._groups.forget(groups)
        return answer

    def key_columns(self, key: PartitionKey) -> frozenset[str]:
        return shown_keys(self.columns, keys_below(self.child, key))

    def divided(self, key: PartitionKey) -> KeyedState:
        return KeyedState(earliest={"next": self._next})

    def given_again(self, state: KeyedState) -> None:
        """All groups are given at the same steps."""
        self._next = state.earliest["next"] if self._groups.ids.live else FOREVER_US

    def _whole(self, steps: list[int], there: list[Int64s]) -> Delta:
        """All groups that are there at each of some steps."""
        sizes, ids = [one.size for one in there], np.concatenate(there)
        instants, ends = np.repeat(steps, sizes), np.array(steps) + 1
        values = dict(zip(self.child.schema.names, self._groups.rows.get(ids), strict=True))
        for name, times in zip(WINDOW_COLUMNS, (self.window.starts(self.window.last_over(ends)), ends), strict=True):
            values[name] = pa.array(np.repeat(times, sizes), pa.timestamp("us", self.window.zone))

        def column(one: Column) -> pa.Array:
            return values[one.name]

        kept = np.ones(ids.size, np.bool_)
        if self.having is not None:
            kept = evaluate_predicate(self.having, column, ids.size)
        data = pa.RecordBatch.from_arrays([evaluate(e, column, ids.size) for _, e in self.columns], schema=self.schema)
        answer = Delta(data, instants, np.ones(ids.size, np.int64), np.zeros(ids.size, np.int64)).where(kept)
        order = np.arange(self._number, self._number + len(answer))
        self._number += len(answer)
        return replace(answer, order=order)


def _first(instants: Int64s) -> int:
    return int(instants[0]) if instants.size else FOREVER_US
