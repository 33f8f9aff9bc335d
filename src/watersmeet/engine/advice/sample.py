"""The first rows of a query's inputs, read once and held in memory, so that they can be joined many times."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import cast

import pyarrow as pa

from watersmeet.engine.clock import StreamClock
from watersmeet.engine.conform import entered
from watersmeet.engine.sources import Source
from watersmeet.errors import SourceError
from watersmeet.model.catalog import Stream, Table
from watersmeet.plan.nodes import Plan, relations_below

READ_ROWS = 1 << 12


@dataclass(frozen=True)
class Sample:
    """What was read, by the name of the relation; `streams` are those that are no static tables."""

    tables: Mapping[str, pa.Table]
    streams: frozenset[str]

    @property
    def rows(self) -> int:
        """The rows of all streams."""
        return sum(int(self.tables[name].num_rows) for name in self.streams)

    def first(self, rows: int) -> Sample:
        """The beginning of it, the same share of every stream."""
        share = min(1.0, rows / max(self.rows, 1))
        cut = {name: self.tables[name].slice(0, round(share * self.tables[name].num_rows)) for name in self.streams}
        return replace(self, tables={**self.tables, **cut})


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
    readings = {one.name: _Reading(StreamClock(one), entered(_source(one).batches(pieces), one)) for one in streams}
    _read(list(readings.values()), rows)
    tables = {
        name: pa.Table.from_batches(readings[name].taken if name in readings else _whole(one), one.schema)
        for name, one in relations.items()
    }
    return Sample(tables, frozenset(readings))


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
    return list(entered(_source(table).batches(READ_ROWS), table))


def _source(relation: Stream | Table) -> Source:
    if relation.source is None:
        raise SourceError(
            f"{relation.name!r} has columns but no data", hint="declare it with a source, or give it data"
        )
    return cast(Source, relation.source)
