"""The rows that a query says itself."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from watersmeet.errors import DataError
from watersmeet.operators.evaluate import evaluate, evaluate_predicate
from watersmeet.plan.constants import MOST_ROWS, Constants, Listed, Selected, Series
from watersmeet.plan.expressions import Column, Expression


def constant_rows(constants: Constants) -> pa.RecordBatch:
    batches = [_selected(part, constants.schema) for part in constants.parts]
    return pa.concat_batches(batches)


def _selected(part: Selected, schema: pa.Schema) -> pa.RecordBatch:
    columns, length = _listed(part.of) if isinstance(part.of, Listed) else _series(part.of)
    known = dict(zip(part.of.names, columns, strict=True))

    def column(one: Column) -> pa.Array:
        return known[one.name]

    kept = np.ones(length, np.bool_)
    for condition in part.where:
        kept &= evaluate_predicate(condition, column, length)
    arrays = [evaluate(e, column, length).filter(pa.array(kept)) for _, e in part.columns]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _listed(listed: Listed) -> tuple[list[pa.Array], int]:
    columns = zip(*listed.rows, strict=True)
    return [pa.concat_arrays([_value(e) for e in values]) for values in columns], len(listed.rows)


def _series(series: Series) -> tuple[list[pa.Array], int]:
    start, stop, step = (_value(e)[0] for e in (series.start, series.stop, series.step))
    if not (start.is_valid and stop.is_valid and step.is_valid):
        return [pa.array([], series.type)], 0
    first, last, by = (int(one.cast(pa.int64()).as_py()) for one in (start, stop, step))
    if by == 0:
        raise DataError("the step of a series is 0, so it would never end")
    numbers = range(first, last + (1 if by > 0 else -1) * series.inclusive, by)
    if len(numbers) > MOST_ROWS:
        raise DataError(f"a series has {len(numbers):,} rows; the limit is {MOST_ROWS:,}")
    made = pa.array(np.arange(numbers.start, numbers.stop, by)).cast(series.type)
    return [made], len(made)


def _value(expression: Expression) -> pa.Array:
    return evaluate(expression, _nothing, 1)


def _nothing(column: Column) -> pa.Array:
    raise AssertionError(f"{column.name} stands in a constant")
