"""HOP and CUMULATE: at every step all groups of the window that ends there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from watersmeet.model.time import FOREVER_US
from watersmeet.model.windows import WINDOW_COLUMNS, Hop
from watersmeet.operators.continuous.delta import Delta, Int64s, no_changes
from watersmeet.operators.continuous.held_rows import HeldRows
from watersmeet.operators.continuous.multiset import Multiset
from watersmeet.operators.continuous.node import Divides, Node, Unary, keys_below, shown_keys
from watersmeet.operators.evaluate import evaluate, evaluate_predicate
from watersmeet.operators.kernels import changes as kernel
from watersmeet.operators.keyed_state import KeyedState
from watersmeet.operators.partition_key import PartitionKey
from watersmeet.physical.nodes import Columns
from watersmeet.plan.expressions import Column, Expression

NOWHERE = np.empty(0, np.int64)


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
        groups = HeldRows(self._groups, delta)
        steps: list[int] = []
        there: list[Int64s] = []
        # Groups change at steps only, so where there are none the next step is the next change.
        moment = min(self._next, _or_never(groups.next_us))
        while moment < stop:
            now = groups.at(moment)
            if now.size:
                steps.append(moment)
                there.append(now)
                moment += self.window.slide_us
            else:
                moment = _or_never(groups.next_us)
        self._next = moment
        places = np.concatenate(there) if there else NOWHERE
        values = groups.made(places)
        return self._whole(steps, [one.size for one in there], values) if steps else no_changes(self.schema)

    def key_columns(self, key: PartitionKey) -> frozenset[str]:
        return shown_keys(self.columns, keys_below(self.child, key))

    def divided(self, key: PartitionKey) -> KeyedState:
        return KeyedState(earliest={"next": self._next})

    def given_again(self, state: KeyedState) -> None:
        """All groups are given at the same steps."""
        self._next = state.earliest["next"] if self._groups.ids.live else FOREVER_US

    def _whole(self, steps: list[int], sizes: list[int], values: dict[str, pa.Array]) -> Delta:
        """All groups that are there at each of some steps, so many."""
        instants, ends = np.repeat(steps, sizes), np.array(steps) + 1
        for name, times in zip(WINDOW_COLUMNS, (self.window.starts(self.window.last_over(ends)), ends), strict=True):
            values[name] = pa.array(np.repeat(times, sizes), pa.timestamp("us", self.window.zone))

        def column(one: Column) -> pa.Array:
            return values[one.name]

        kept = np.ones(instants.size, np.bool_)
        if self.having is not None:
            kept = evaluate_predicate(self.having, column, instants.size)
        data = pa.RecordBatch.from_arrays(
            [evaluate(e, column, instants.size) for _, e in self.columns], schema=self.schema
        )
        answer = Delta(data, instants, np.ones(instants.size, np.int64), np.zeros(instants.size, np.int64)).where(kept)
        order = np.arange(self._number, self._number + len(answer))
        self._number += len(answer)
        return replace(answer, order=order)


def _or_never(instant: int | None) -> int:
    return FOREVER_US if instant is None else instant
