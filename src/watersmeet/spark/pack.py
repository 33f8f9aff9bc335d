"""From rows to packets, inside Spark's Python workers: filter, choose buckets, cut, serialise. Vectorised."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.engine.conform import conform
from watersmeet.errors import DataError
from watersmeet.model.time import normalize_time_column, times_of
from watersmeet.model.windows import Rows as RowsWindow
from watersmeet.operators.admission import Admission
from watersmeet.operators.codes import Codes
from watersmeet.operators.contract import Rows
from watersmeet.operators.kernels.spread import coordinates
from watersmeet.plan.nodes import Input
from watersmeet.plan.strategy import Code
from watersmeet.spark.job import SparkJob, stream_of
from watersmeet.spark.packets import to_packet

PACKED = "bucket int, input int, rows_in long, primary boolean, payload binary"
PACKED_SCHEMA = pa.schema(
    [
        ("bucket", pa.int32()),
        ("input", pa.int32()),
        ("rows_in", pa.int64()),
        ("primary", pa.bool_()),
        ("payload", pa.binary()),
    ]
)
FLUSH_BYTES = 64 << 20
GUARD = -1


def packer(job: SparkJob, source: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for mapInArrow over one source, which packs it for every alias the query gives it."""

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        inputs = [one for one in job.join.streams if one.relation.name == source]
        placings = [Placing(job, one) for one in inputs]
        for group in gathered(batches):
            yield packets(job, inputs, placings, group)

    return pack


def gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Batches in groups that make packets of a good size."""
    group: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if batch.num_rows:
            group.append(batch)
            size += batch.nbytes
        if size >= FLUSH_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


def packets(
    job: SparkJob, inputs: Sequence[Input], placings: Sequence[Placing], group: Sequence[pa.RecordBatch]
) -> pa.RecordBatch:
    """The packets of some rows of one source. The first one carries how many rows came in."""
    made: list[tuple[int, int, int, bool, bytes]] = []
    rows_in = sum(batch.num_rows for batch in group)
    for one, placing in zip(inputs, placings, strict=True):
        schema = job.row_schema(one)
        data = pa.concat_batches([conform(batch.select(schema.names), schema) for batch in group])
        rows = timed(data, one)
        number = job.aliases.index(one.alias)
        for bucket, primary, part in placing.parts(rows):
            made.append((job.bucket_ids[bucket], number, 0, primary, to_packet([part], schema)))
    made.append((GUARD, 0, rows_in, True, job.fingerprint.encode()))
    columns = list(zip(*made, strict=True))
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, PACKED_SCHEMA, strict=True)],
        schema=PACKED_SCHEMA,
    )


def in_time_order(parts: Sequence[Rows]) -> Rows:
    """Several pieces as one. Pieces from different partitions overlap in time; stores like order."""
    rows = Rows(pa.concat_batches([part.data for part in parts]), np.concatenate([part.times for part in parts]))
    if bool((np.diff(rows.times) < 0).any()):
        rows = rows.take(np.argsort(rows.times, kind="stable"))
    return rows


def timed(data: pa.RecordBatch, one: Input) -> Rows:
    assert one.time is not None
    column = data.column(one.time)
    if column.null_count:
        raise DataError(
            f"stream {one.relation.name!r}: the event time {one.time!r} is NULL in {column.null_count} rows",
            hint="every row of a stream needs an event time; filter those rows out before they enter",
        )
    return Rows(data, times_of(normalize_time_column(column)))


class Placing:
    """Where the rows of one input go."""

    def __init__(self, job: SparkJob, one: Input) -> None:
        self.one = one
        self.dimensions = job.partitioning.dimensions
        own = [dimension.keys[one.alias] for dimension in self.dimensions if one.alias in dimension.keys]
        counted = isinstance(one.window, RowsWindow)
        keys = (*own, *job.strategy.probing_codes(one.alias), *job.strategy.stored_codes(one.alias))
        # In a ROWS window every row counts, also one that can match nothing.
        self.admission = Admission(() if counted else job.strategy.filters.get(one.alias, ()), own if counted else keys)
        self.whole = job.partitioning.sequenced

    def parts(self, rows: Rows) -> Iterator[tuple[int, bool, pa.RecordBatch]]:
        """Bucket, whether it is the first copy, and the rows, for every bucket that gets any."""
        rows, codes, _ = self.admission.admit(rows)
        if len(rows) == 0:
            return
        cell, copies = self._cells(rows, codes)
        order = np.argsort(cell, kind="stable") if cell is not None else None
        data = rows.data if order is None else rows.data.take(pa.array(order))
        base = np.zeros(1, np.int64) if cell is None else cell[order]
        starts = np.flatnonzero(np.diff(base, prepend=-1)) if cell is not None else np.zeros(1, np.int64)
        ends = np.append(starts[1:], len(rows))
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            for k, offset in enumerate(copies):
                yield int(base[start if cell is not None else 0]) + offset, k == 0, data.slice(start, end - start)

    def _cells(self, rows: Rows, codes: dict[Code, Codes]) -> tuple[npt.NDArray[np.int64] | None, list[int]]:
        """The first bucket of every row, and how far away its other copies are."""
        cell: npt.NDArray[np.int64] | None = None
        copies, stride = [0], 1
        for dimension in self.dimensions:
            if dimension.places(self.one.alias):
                code = dimension.keys.get(self.one.alias)
                place = coordinates(codes[code] if code else np.arange(len(rows)), dimension.size)
                cell = stride * place if cell is None else cell + stride * place
            else:
                copies = [copy + stride * i for i in range(dimension.size) for copy in copies]
            stride *= dimension.size
        return cell, sorted(copies)


def stream_lateness_ms(one: Input) -> int:
    """Spark's watermarks are in milliseconds; lateness is rounded up."""
    return -(-stream_of(one).lateness_us // 1000)
