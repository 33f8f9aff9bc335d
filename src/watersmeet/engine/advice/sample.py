"""The first rows of a query's inputs, read once and held in memory, so that they can be joined many times."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import cast

import pyarrow as pa

from watersmeet.engine.clock import StreamClock
from watersmeet.engine.sources import Source, TableSource
from watersmeet.errors import SourceError
from watersmeet.model.catalog import Stream, Table
from watersmeet.plan.nodes import Plan, relations_below
from watersmeet.plan.rewrite import with_relations

READ_ROWS = 1 << 12


@dataclass(frozen=True)
class Sample:
    """A plan over tables in memory, and how many rows of streams they hold."""

    plan: Plan
    rows: int
    tables: dict[str, pa.Table]


@dataclass
class _Reading:
    clock: StreamClock
    batches: Iterator[pa.RecordBatch]
    taken: list[pa.RecordBatch] = field(default_factory=list)


def take_sample(plan: Plan, rows: int) -> Sample:
    """About so many rows of all streams together, side by side in event time; static tables whole."""
    relations = {one.name: one for one in relations_below(plan.root)}
    streams = [one for one in relations.values() if isinstance(one, Stream)]
    pieces = max(1, min(READ_ROWS, rows // (8 * max(len(streams), 1))))
    readings = {one.name: _Reading(StreamClock(one), _source(one).batches(pieces)) for one in streams}
    _read(list(readings.values()), rows)
    tables = {
        name: pa.Table.from_batches(readings[name].taken if name in readings else _whole(one), one.schema)
        for name, one in relations.items()
    }

    def local(relation: Stream | Table) -> Stream | Table:
        return replace(relation, source=TableSource(tables[relation.name], relation.schema))

    taken = sum(tables[name].num_rows for name in readings)
    return Sample(replace(plan, root=with_relations(plan.root, local)), taken, tables)


def _read(readings: list[_Reading], rows: int) -> None:
    """Always of the stream that is furthest behind."""
    left = rows
    while left > 0:
        running = [one for one in readings if not one.clock.ended]
        behind = min(running, key=lambda one: one.clock.newest_us, default=None)
        if behind is None:
            return
        batch = next(behind.batches, None)
        if batch is None:
            behind.clock.end()
            continue
        behind.clock.admit(batch)
        behind.taken.append(batch)
        left -= batch.num_rows


def _whole(table: Stream | Table) -> list[pa.RecordBatch]:
    return list(_source(table).batches(READ_ROWS))


def _source(relation: Stream | Table) -> Source:
    if relation.source is None:
        raise SourceError(
            f"{relation.name!r} has columns but no data", hint="declare it with a source, or give it data"
        )
    return cast(Source, relation.source)


