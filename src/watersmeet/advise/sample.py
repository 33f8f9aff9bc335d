"""The first rows of a query's inputs, read once and held in memory, so that they can be joined many times."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, replace

import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.io.time_ordered import batches_of
from watersmeet.model.catalog import Stream
from watersmeet.plan.query import Plan
from watersmeet.plan.walks import relations_below
from watersmeet.runtime.clock import QueryClock, StreamClock
from watersmeet.runtime.left_out import LeftOutWarnings
from watersmeet.runtime.metrics import Metrics
from watersmeet.runtime.run_metrics import count_rows
from watersmeet.warning import warn

READ_ROWS = 1 << 12


@dataclass(frozen=True)
class Sample:
    """What was read, by the name of the relation; `streams` are those that are no static tables. Late rows are left
    out."""

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
    # Small enough that streams stay side by side, and that the sample is not much larger than asked for.
    pieces = max(1, min(READ_ROWS, rows // (8 * max(len(streams), 1))))
    clock = QueryClock(streams)
    readings = {
        one.name: _Reading(clock.clocks[one.name], batches_of(one, pieces, clock.clocks[one.name].skip))
        for one in streams
    }
    _read(readings, clock, rows)
    metrics = Metrics()
    count_rows(metrics, clock)
    LeftOutWarnings(streams, warn).look(metrics, at_end=True)
    taken = {
        name: readings[name].taken if name in readings else list(batches_of(one, READ_ROWS))
        for name, one in relations.items()
    }
    tables = {name: pa.Table.from_batches(taken[name], one.schema) for name, one in relations.items()}
    return Sample(tables, frozenset(readings))


def _read(readings: Mapping[str, _Reading], clock: QueryClock, rows: int) -> None:
    """Always of the stream that is furthest behind."""
    left = rows
    while left > 0:
        running = [name for name, one in readings.items() if not one.clock.ended]
        behind = min(running, key=lambda name: readings[name].clock.newest_us, default=None)
        if behind is None:
            return
        batch = next(readings[behind].batches, None)
        if batch is None:
            clock.end(behind)
            continue
        readings[behind].taken.append(clock.admit(behind, batch).data)
        left -= batch.num_rows
