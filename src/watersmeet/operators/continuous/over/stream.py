"""OVER by event time over a stream: a row for each row, when time has passed it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from watersmeet.model.time import FOREVER_US
from watersmeet.operators.continuous.delta import Delta, merged, no_changes
from watersmeet.operators.continuous.node import Node, Unary
from watersmeet.operators.continuous.over.ahead import Ahead
from watersmeet.operators.continuous.over.arranged import Arranged
from watersmeet.operators.continuous.over.frames import Named
from watersmeet.operators.continuous.over.partitions import Partitions
from watersmeet.operators.evaluate import evaluate, evaluate_predicate
from watersmeet.physical.over import calls_alike
from watersmeet.plan.expressions import Column, Expression
from watersmeet.plan.over_functions import looks_ahead


class OverStream(Unary):
    """The child's rows come in time order and never leave."""

    STATE = ("child", "parts", "ahead", "_next")

    netted = True

    def __init__(
        self,
        child: Node,
        calls: Sequence[Named],
        keep: Expression | None,
        columns: Sequence[tuple[str, Expression]],
    ) -> None:
        super().__init__(child, pa.schema([pa.field(name, e.type) for name, e in columns]))
        self.keep = keep
        self.columns = list(columns)
        self.parts = [Partitions(alike) for alike in calls_alike(calls)]
        ahead = [(name, call) for name, call in calls if looks_ahead(call)]
        known = [*child.schema, *(pa.field(name, call.type) for name, call in calls if not looks_ahead(call))]
        self.known = pa.schema(known)
        self.ahead = Ahead(self.known, ahead) if ahead else None
        self._next = 0

    @property
    def held_rows(self) -> int:
        return sum(one.held_rows for one in self.parts) + (0 if self.ahead is None else self.ahead.held_rows)

    @property
    def nbytes(self) -> int:
        return sum(one.nbytes for one in self.parts) + (0 if self.ahead is None else self.ahead.nbytes)

    def next_event(self) -> int:
        own = FOREVER_US if self.ahead is None else self.ahead.next_due()
        return min(own, self.child.next_event())

    def take(self, until: int) -> Delta:
        delta = self.child.take(until)
        found = [self._made(delta, until)] if len(delta) else []
        if self.ahead is not None and until >= FOREVER_US:
            found.append(self.ahead.end())
        elif self.ahead is not None and self.ahead.next_due() < until:
            found.append(self.ahead.passed(until))
        for one in self.parts:
            one.forget(until)
        return self._selected(merged(found, found[0].data.schema)) if found else no_changes(self.schema)

    def _made(self, delta: Delta, until: int) -> Delta:
        """The rows with all columns that there are, or those of them that are known now."""

        def values(expression: Expression) -> pa.Array:
            return evaluate(expression, lambda column: delta.data.column(column.name), len(delta))

        columns: dict[str, pa.Array] = dict(zip(delta.data.schema.names, delta.data.columns, strict=True))
        arranged: dict[str, tuple[Arranged, int]] = {}
        for part in self.parts:
            rows = part.arrange(values, delta.instants)
            columns |= part.apply(rows, values, part.room)
            part.note(rows)
            arranged |= {name: (rows, part.room) for name, _ in part.calls}
        known = pa.RecordBatch.from_arrays([columns[name] for name in self.known.names], schema=self.known)
        if self.ahead is None:
            return delta.with_data(known)
        return self.ahead.enter(known, delta.instants, arranged, values, until)

    def _selected(self, delta: Delta) -> Delta:
        data = delta.data

        def column(one: Column) -> pa.Array:
            return data.column(one.name)

        if self.keep is not None:
            delta = delta.where(evaluate_predicate(self.keep, column, len(delta)))
            data = delta.data
        arrays = [evaluate(e, column, len(delta)) for _, e in self.columns]
        numbers = np.arange(self._next, self._next + len(delta))
        self._next += len(delta)
        made = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        return Delta(made, delta.instants, delta.diffs, numbers, delta.noticed)
