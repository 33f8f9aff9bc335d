"""A sink that takes numbers, on Spark: the number of a batch is Spark's own, which it repeats after a crash.

The rows of a batch come to the driver as Arrow and are committed there, as a number is taken whole or not at all. A
batch that is repeated has the same rows, maybe in another order; the sink passes over it if it has its number.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame

from watersmeet.io.conform import conform
from watersmeet.io.connectors.contract import NumberedSink
from watersmeet.plan.nodes import AT, OP, Plan
from watersmeet.runtime.watched import OnAnswers


class NumberedWriter:
    """Takes batches into a sink: for `foreachBatch`."""

    def __init__(self, plan: Plan, sink: NumberedSink, on_rows: OnAnswers | None = None) -> None:
        self._plan, self._sink, self._on_rows = plan, sink, on_rows

    def __call__(self, batch: DataFrame, number: int) -> None:
        # Asked for in any case: the state goes on, and numbers are observed, only when the batch is computed.
        rows = self._rows(batch.toArrow())
        if rows and number > self._sink.last_number:
            self._sink.commit(number, rows)
        if rows and self._on_rows is not None:
            self._on_rows(number, rows)

    def close(self) -> None:
        self._sink.close()

    def _rows(self, answer: pa.Table) -> Sequence[pa.RecordBatch]:
        if self._plan.kind == "changes":
            # Buckets answer in any order. A sink that keeps a table goes by it: "-" before "+" at one instant.
            answer = answer.sort_by([(AT, "ascending"), (OP, "descending")])
        batches = answer.combine_chunks().to_batches()
        return [conform(one, self._plan.output_schema) for one in batches if one.num_rows]
