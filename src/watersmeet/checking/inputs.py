"""The rows a check is made over: what the inputs of a query hold, read once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.errors import SourceError
from watersmeet.io.conform import entered
from watersmeet.io.event_times import without_nulls
from watersmeet.io.time_ordered import batches_of
from watersmeet.model.arriving import stamped
from watersmeet.model.catalog import Stream, Table
from watersmeet.operators.contract import Positions
from watersmeet.plan.query import Plan
from watersmeet.plan.walks import relations_below
from watersmeet.runtime.clock import StreamClock
from watersmeet.runtime.wall_clock import SystemClock

BATCH_ROWS = 1 << 16


def load(plan: Plan, sample: int | None = None) -> dict[str, pa.Table]:
    """The rows of every stream and table of a plan by name, as they are read; of streams the first `sample`."""
    relations = {one.name: one for one in relations_below(plan.root)}
    return {name: _rows(one, sample if isinstance(one, Stream) else None) for name, one in relations.items()}


def _rows(relation: Stream | Table, most: int | None) -> pa.Table:
    source: Any = relation.source
    # By what it can do: pyspark need not be installed.
    if hasattr(source, "toArrow") and not source.isStreaming:  # a Spark DataFrame
        return _conformed((source if most is None else source.limit(most)).toArrow(), relation)
    if not hasattr(source, "batches"):
        raise SourceError(
            f"{relation.name!r} cannot be read to its end, so the query cannot be checked",
            hint="declare it over a table or over files",
        )
    if most is None and not source.bounded:
        raise SourceError(f"{relation.name!r} does not end", hint="say how many rows to check: --sample 1000")
    batches: list[pa.RecordBatch] = []
    missing = most
    for batch in _timed(relation, batches_of(relation, min(BATCH_ROWS, most or BATCH_ROWS))):
        batches.append(batch if missing is None else batch.slice(0, missing))
        missing = None if missing is None else missing - batches[-1].num_rows
        if missing == 0:
            break
    return pa.Table.from_batches(batches, schema=relation.schema)


def _timed(relation: Stream | Table, batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
    """The rows with the moments of their arrival, where those are their event times."""
    if not isinstance(relation, Stream) or not relation.by_arrival:
        return batches
    clock = StreamClock(relation)
    return (clock.admit(batch).data for batch in batches)


def _conformed(table: pa.Table, relation: Stream | Table) -> pa.Table:
    batches: Iterable[pa.RecordBatch] = entered(table.to_batches(), relation)
    if isinstance(relation, Stream) and relation.arrivals is not None:
        moment_us = relation.arrivals.moment(SystemClock().today_us())
        return pa.Table.from_batches(
            [stamped(batch, relation.schema.field(relation.time), moment_us) for batch in batches], relation.schema
        )
    if isinstance(relation, Stream):
        batches = [without_nulls(relation, batch) for batch in batches]
    return pa.Table.from_batches(batches, schema=relation.schema)


def without(tables: Mapping[str, pa.Table], rows: Mapping[str, Sequence[Positions]]) -> dict[str, pa.Table]:
    """The same tables without some rows, which are numbered from 0."""
    left_out = {name: np.concatenate(numbers) for name, numbers in rows.items()}
    return {
        name: table.take(np.delete(np.arange(table.num_rows), left_out[name])) if name in left_out else table
        for name, table in tables.items()
    }
