"""The rows a check is made over: what the inputs of a query hold, read once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.engine.conform import entered
from watersmeet.errors import SourceError
from watersmeet.model.catalog import Stream, Table
from watersmeet.model.time import normalize_time_column, times_of
from watersmeet.plan.nodes import Plan, relations_below

BATCH_ROWS = 1 << 16


def load(plan: Plan, sample: int | None = None) -> dict[str, pa.Table]:
    """The rows of every stream and table of a plan by name, in the order they arrive; of streams the first `sample`."""
    relations = {one.name: one for one in relations_below(plan.root)}
    return {name: _rows(one, sample if isinstance(one, Stream) else None) for name, one in relations.items()}


def _rows(relation: Stream | Table, most: int | None) -> pa.Table:
    source: Any = relation.source
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
    for batch in entered(source.batches(min(BATCH_ROWS, most or BATCH_ROWS)), relation):
        batches.append(batch if missing is None else batch.slice(0, missing))
        missing = None if missing is None else missing - batches[-1].num_rows
        if missing == 0:
            break
    return pa.Table.from_batches(batches, schema=relation.schema)


def _conformed(table: pa.Table, relation: Stream | Table) -> pa.Table:
    return pa.Table.from_batches(entered(table.to_batches(), relation), schema=relation.schema)


def without_late_rows(plan: Plan, tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """The same tables without the rows that come too late in the order they stand in."""
    streams = {one.name: one for one in relations_below(plan.root) if isinstance(one, Stream)}
    return {name: _in_time(streams[name], table) if name in streams else table for name, table in tables.items()}


def _in_time(stream: Stream, table: pa.Table) -> pa.Table:
    times = times_of(normalize_time_column(table[stream.time].combine_chunks()))
    newest = np.maximum.accumulate(times)
    return table.filter(pa.array(times >= newest - stream.lateness_us))
