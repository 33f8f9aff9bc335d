"""A query over one stream: keep the rows that satisfy the predicates, compute the select list."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import pyarrow as pa

from watersmeet.operators.contract import Counters, Rows
from watersmeet.operators.evaluate import evaluate, evaluate_predicate
from watersmeet.plan.expressions import Column, Expression


class Select:
    def __init__(self, predicates: Sequence[Expression], columns: Sequence[tuple[str, Expression]]) -> None:
        self.predicates = list(predicates)
        self.columns = list(columns)
        self.schema = pa.schema([pa.field(name, e.type) for name, e in columns])
        self.counters = Counters()

    window_rows = 0
    state_bytes = 0

    def push(self, alias: str, rows: Rows) -> Iterator[pa.RecordBatch]:
        data, times = rows.data, pa.array(rows.times, pa.timestamp("us"))
        for predicate in self.predicates:
            kept = pa.array(evaluate_predicate(predicate, _lookup(data), data.num_rows, times))
            data, times = data.filter(kept), times.filter(kept)
        if data.num_rows:
            self.counters.results += data.num_rows
            arrays = [evaluate(e, _lookup(data), data.num_rows, times) for _, e in self.columns]
            yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def advance(self, watermarks: Mapping[str, int]) -> Iterator[pa.RecordBatch]:
        yield from ()


def _lookup(data: pa.RecordBatch) -> Callable[[Column], pa.Array]:
    return lambda column: data.column(column.name)
