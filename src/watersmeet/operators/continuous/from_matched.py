"""FROM with an outer, semi or anti join in an answer that changes: what the relational operator gives, at every
instant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa

from watersmeet.operators.continuous.alone import Alone
from watersmeet.operators.continuous.delta import Delta, merged
from watersmeet.operators.continuous.from_many import FromMany
from watersmeet.operators.continuous.lives import Lives
from watersmeet.operators.continuous.node import Node
from watersmeet.operators.evaluate import evaluate
from watersmeet.physical.hidden import member_column
from watersmeet.physical.nodes import Columns
from watersmeet.plan.expressions import Column


class FromMatched:
    """Combinations, and beside them the rows that have none."""

    STATE = ("combinations", "alone")

    netted = False

    def __init__(self, combinations: FromMany, alone: Mapping[str, Alone], columns: Columns, *, pairs: bool) -> None:
        """combinations: with the serial numbers of the members that may stand alone. pairs: whether they are given,
        too."""
        self.combinations = combinations
        self.alone = dict(alone)
        self.columns = columns
        self.schema = pa.schema([pa.field(name, e.type) for name, e in columns])
        self.pairs = pairs

    @property
    def complete(self) -> int:
        return self.combinations.complete

    @property
    def held_rows(self) -> int:
        return sum(one.held_rows for one in self.alone.values())

    @property
    def nbytes(self) -> int:
        return sum(one.nbytes for one in self.alone.values())

    def inputs(self) -> Iterator[Node]:
        yield self.combinations

    def next_event(self) -> int:
        return min(self.combinations.next_event(), *(one.next_death() for one in self.alone.values()))

    def take(self, until: int) -> Delta:
        found = self.combinations.take(until)
        deltas = []
        for alias, alone in self.alone.items():
            lives = alone.source.taken
            if lives is not None:
                alone.enter(self._extended(alias, lives), lives)
            deltas.append(alone.changes(self.complete, found, member_column(alias)))
        if self.pairs:
            # Numbers by threes, so that no row that stands alone has the same.
            shown = found.data.select(self.schema.names)
            deltas.append(Delta(shown, found.instants, found.diffs, 3 * found.order))
        return merged(deltas, self.schema)

    def _extended(self, alias: str, lives: Lives) -> pa.RecordBatch:
        """Rows of one input as they stand in the answer without a partner."""
        rows = lives.rows

        def column(asked: Column) -> pa.Array:
            return rows.data.column(asked.name) if asked.stream == alias else pa.nulls(len(rows), asked.type)

        def times() -> pa.Array:
            return pa.array(rows.times, pa.timestamp("us"))

        arrays = [evaluate(e, column, len(rows), times) for _, e in self.columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)
