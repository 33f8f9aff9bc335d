"""HOP and CUMULATE: at every step all groups of the window that ends there."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from watersmeet.model.time import FOREVER_US
from watersmeet.model.windows import WINDOW_COLUMNS, Hop
from watersmeet.operators.continuous.delta import Delta, Int64s, joined, no_changes
from watersmeet.operators.continuous.multiset import Multiset
from watersmeet.operators.continuous.node import Divides, Node, Unary, keys_below, shown_keys
from watersmeet.operators.evaluate import evaluate, evaluate_predicate
from watersmeet.operators.kernels import changes as kernel
from watersmeet.operators.keyed_state import KeyedState
from watersmeet.operators.partition_key import PartitionKey
from watersmeet.physical.nodes import Columns
from watersmeet.plan.expressions import Column, Expression


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
        given: list[pa.RecordBatch] = []
        instants: list[Int64s] = []
        # Groups change at steps only, so where there are none the next step is the next change.
        moment = min(self._next, int(delta.instants[0]) if len(delta) else FOREVER_US)
        while moment < stop:
            now, delta = delta.before(moment + 1)
            if len(now):
                self._groups.hold(now)
            if self._groups.ids.live:
                given.append(self._whole(moment + 1))
                instants.append(np.full(given[-1].num_rows, moment, np.int64))
                moment += self.window.slide_us
            else:
                moment = int(delta.instants[0]) if len(delta) else FOREVER_US
        self._next = moment
        return self._as_delta(given, instants)

    def key_columns(self, key: PartitionKey) -> frozenset[str]:
        return shown_keys(self.columns, keys_below(self.child, key))

    def divided(self, key: PartitionKey) -> KeyedState:
        return KeyedState(earliest={"next": self._next})

    def given_again(self, state: KeyedState) -> None:
        """All groups are given at the same steps."""
        self._next = state.earliest["next"] if self._groups.ids.live else FOREVER_US

    def _whole(self, end: int) -> pa.RecordBatch:
        ids = np.flatnonzero(self._groups.left > 0)
        values = dict(zip(self.child.schema.names, self._groups.rows.get(ids), strict=True))
        start = int(self.window.starts(self.window.last_over(np.array([end])))[0])
        for name, time in zip(WINDOW_COLUMNS, (start, end), strict=True):
            values[name] = pa.array(np.full(ids.size, time), pa.timestamp("us", self.window.zone))

        def column(one: Column) -> pa.Array:
            return values[one.name]

        arrays = [evaluate(e, column, ids.size) for _, e in self.columns]
        whole = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        if self.having is None:
            return whole
        return whole.filter(pa.array(evaluate_predicate(self.having, column, ids.size)))

    def _as_delta(self, given: list[pa.RecordBatch], instants: list[Int64s]) -> Delta:
        data = joined(given, self.schema)
        if data.num_rows == 0:
            return no_changes(self.schema)
        order = np.arange(self._number, self._number + data.num_rows)
        self._number += data.num_rows
        return Delta(data, np.concatenate(instants), np.ones(data.num_rows, np.int64), order)
