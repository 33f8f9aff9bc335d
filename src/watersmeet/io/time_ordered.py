"""Rows that are all at hand, read in the order of their event times, so that none is late.

Rows of equal time keep the order in which they stand. What flows keeps its order of arrival.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.dataclass import dataclass
from watersmeet.errors import SourceError
from watersmeet.io.bad_rows import OnBad, OnCounted, without_bad_rows
from watersmeet.io.conform import conform, entered
from watersmeet.io.connectors.connected_source import ConnectedSource
from watersmeet.io.event_times import in_microseconds, is_sorted, refuse_nulls, without_nulls
from watersmeet.io.files import FileSource, pieces
from watersmeet.io.sources import Passing, Source, TableSource
from watersmeet.io.spill import END, Piece, TimeSorter, sort_memory
from watersmeet.io.time_ordered_files import batches_in_order
from watersmeet.model.catalog import Relation, Stream
from watersmeet.model.time import Times, times_of

READ_ROWS = 1 << 16


def batches_of(
    relation: Relation,
    max_rows: int,
    on_skipped: OnCounted | None = None,
    on_bad: OnBad | None = None,
    on_handed_over: OnCounted | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of a stream or table in pieces: of a stream in time order if they are at hand and may be. `on_skipped`
    hears of rows without an event time, where a stream skips them; `on_bad` takes records that cannot be read;
    `on_handed_over` hears of rows that lie on the other side of a handover."""
    if relation.source is None:
        raise SourceError(
            f"{relation.name!r} has columns but no data",
            hint="push rows into it, query.start(), or declare it with data",
        )
    source = source_now(relation)
    if isinstance(relation, Stream):
        source = readable_of(relation, source, on_bad, on_handed_over)
    return entered(_read(relation, source, max_rows, on_skipped), relation)


def source_now(relation: Relation) -> Source:
    """What a run that starts now reads."""
    source = cast(Source, relation.source)
    # When rows arrived is known by their numbers, so of such a stream the files stay those that were declared.
    if not isinstance(source, FileSource) or (isinstance(relation, Stream) and relation.by_arrival):
        return source
    return source.as_of_now()


def readable_of(
    stream: Stream, source: Source, on_bad: OnBad | None, on_handed_over: OnCounted | None = None
) -> Source:
    """The same rows without the records that cannot be read, where the stream says what becomes of those."""
    if isinstance(source, ConnectedSource):
        return source.telling(stream, on_bad, on_handed_over)
    if not stream.arrival.keeps_going:
        return source
    if isinstance(source, FileSource):
        return source.tolerant(stream, on_bad)
    if isinstance(source, TableSource):
        batches = [
            _left(stream, batch, on_bad, before)
            for batch, before in _counted(conform(one, source.schema) for one in source.table.to_batches())
        ]
        return replace(source, table=pa.Table.from_batches(batches, schema=source.schema))
    return _Flowing(source, stream, on_bad)


def _left(stream: Stream, batch: pa.RecordBatch, on_bad: OnBad | None, before: int) -> pa.RecordBatch:
    rows, bad = without_bad_rows(stream, batch, before, f"stream {stream.name}")
    if bad is not None and on_bad is not None:
        on_bad(bad)
    return rows


def _counted(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[pa.RecordBatch, int]]:
    before = 0
    for batch in batches:
        yield batch, before
        before += batch.num_rows


@dataclass(frozen=True)
class _Flowing(Passing):
    """Rows that flow past, without those that cannot be read."""

    stream: Stream
    on_bad: OnBad | None

    @property
    def schema(self) -> pa.Schema:
        return self.source.schema

    def batches(self, max_rows: int) -> Iterator[pa.RecordBatch]:
        flowing = _counted(self.source.batches(max_rows))
        left = (_left(self.stream, batch, self.on_bad, before) for batch, before in flowing)
        return (batch for batch in left if batch.num_rows)


def reads_in_time_order(stream: Stream) -> bool:
    """Whether no row comes after a newer one."""
    return stream.by_arrival or sorts_by_time(stream)


def sorts_by_time(stream: Stream) -> bool:
    """Whether the rows are all at hand, and may be read in another order than they have."""
    if stream.by_arrival or not stream.arrival.in_time_order:
        return False
    return isinstance(stream.source, TableSource | FileSource | ConnectedSource)


def _read(relation: Relation, source: Source, max_rows: int, on_skipped: OnCounted | None) -> Iterator[pa.RecordBatch]:
    if not isinstance(relation, Stream):
        return source.batches(max_rows)
    if sorts_by_time(relation):
        if isinstance(source, TableSource):
            return in_order(relation, source, on_skipped).batches(max_rows)
        if isinstance(source, FileSource):
            return batches_in_order(relation, source, max_rows, on_skipped)
        if isinstance(source, ConnectedSource):
            return _sorted(relation, source, max_rows, on_skipped)
    if not relation.arrival.skips_nulls:
        return source.batches(max_rows)
    timed = (without_nulls(relation, batch, on_skipped) for batch in source.batches(max_rows))
    return (batch for batch in timed if batch.num_rows)


def _sorted(
    stream: Stream, source: ConnectedSource, max_rows: int, on_skipped: OnCounted | None
) -> Iterator[pa.RecordBatch]:
    """What a connector has now: its partitions are in no order among each other, so all of it is sorted."""
    before = 0
    with TimeSorter(sort_memory()) as sorter:
        for batch in source.batches(READ_ROWS):
            batch = without_nulls(stream, batch, on_skipped)
            if batch.num_rows:
                times = times_of(in_microseconds(stream, batch.column(stream.time), before))
                sorter.add(Piece(batch, times, np.arange(before, before + len(times), dtype=np.int64)))
                before += len(times)
        for batch in sorter.release(END):
            yield from pieces(batch, max_rows)


def in_order(stream: Stream, source: TableSource, on_skipped: OnCounted | None = None) -> TableSource:
    """The same rows in time order; the very same table if they are in it already."""
    table = source.table
    nulls = table[stream.time].null_count
    if nulls and stream.arrival.skips_nulls:
        table = table.filter(pc.is_valid(table[stream.time]))
        source = replace(source, table=table)
        if on_skipped is not None:
            on_skipped(nulls)
    refuse_nulls(stream, table[stream.time].null_count, table.num_rows, 0)
    # Only the times are conformed here; the rows are when they are read.
    kind = pa.schema([source.schema.field(stream.time)])
    columns = [conform(batch, kind).column(0) for batch in table.select([stream.time]).to_batches()]
    times = [times_of(in_microseconds(stream, column, 0)) for column in columns if len(column)]
    if are_sorted(times):
        return source
    order = np.argsort(np.concatenate(times), kind="stable")
    return replace(source, table=table.take(pa.array(order)))


def are_sorted(pieces: Sequence[Times]) -> bool:
    """Whether times that follow each other in pieces, none of them empty, never go back."""
    return all(map(is_sorted, pieces)) and all(bool(before[-1] <= after[0]) for before, after in pairwise(pieces))
