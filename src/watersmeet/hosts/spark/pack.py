"""From rows to packets, inside Spark's Python workers: filter, choose buckets, cut, serialise. Vectorised."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from watersmeet.errors import DataError
from watersmeet.hosts.spark.ending import ENDED, NEWEST, end_to_bytes, newest_to_bytes
from watersmeet.hosts.spark.job import SparkJob, stream_of
from watersmeet.hosts.spark.needs import NEEDS, to_bytes
from watersmeet.hosts.spark.output import END
from watersmeet.hosts.spark.packets import to_packet
from watersmeet.hosts.spark.placing import Placing
from watersmeet.io.conform import enter
from watersmeet.model.time import normalize_time_column, times_of
from watersmeet.operators.contract import Rows
from watersmeet.plan.nodes import Input

PACKED_SCHEMA = pa.schema(
    [
        ("bucket", pa.int32()),
        ("input", pa.int32()),
        ("part", pa.int64()),
        ("rows_in", pa.int64()),
        ("primary", pa.bool_()),
        ("payload", pa.binary()),
    ]
)
Packet = tuple[int, int, int, int, bool, bytes]
FLUSH_BYTES = 64 << 20
GUARD = -1
AHEAD = -4  # stands for the number of an input where the GUARD is told of rows too far ahead of the clock
FUTURE = "__future"  # the column that tells such rows among those of Spark's
WATERMARK_STEP_MS = 1


def packer(job: SparkJob, source: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for mapInArrow over one source, which packs it for every alias the query gives it."""

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        inputs = [one for one in job.streams if one.relation.name == source]
        placings = [Placing(job, one) for one in inputs]
        first = partition_number() << 32
        runs: set[str] = set()
        for number, group in enumerate(gathered(_without_ends(batches, runs))):
            future = sum(pc.sum(batch.column(FUTURE)).as_py() or 0 for batch in group if FUTURE in batch.schema.names)
            yield packets(job, inputs, placings, group, first + number, future)
        for run in sorted(runs):
            yield end_packets(job, {source}, run)

    return pack


def ender(job: SparkJob, sources: Collection[str]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for mapInArrow over the names of runs that have ended, for sources that cannot tell that."""

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for run in batch.column(0).to_pylist():
                yield end_packets(job, sources, run)

    return pack


def _without_ends(batches: Iterator[pa.RecordBatch], runs: set[str]) -> Iterator[pa.RecordBatch]:
    """The rows of a source; of a first stage without those that tell of its end, whose runs are noted."""
    for batch in batches:
        at = batch.schema.get_field_index(END)
        if at < 0:
            yield batch
            continue
        runs.update(batch.column(at).drop_null().unique().to_pylist())
        yield batch.filter(batch.column(at).is_null()).drop_columns([END])


def partition_number() -> int:
    context = TaskContext.get()
    return context.partitionId() if context is not None else 0


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
    job: SparkJob,
    inputs: Sequence[Input],
    placings: Sequence[Placing],
    group: Sequence[pa.RecordBatch],
    part: int,
    future: int = 0,
) -> pa.RecordBatch:
    """The packets of some rows of one source, and one for the GUARD that says how many rows came in, and one that says
    how many of them lie too far in the `future` to move a watermark. Buckets that
    share a memory are all told what each of them gets, those whose rows wait for each other's time how far it has come.

    `part` orders packets the same way in every bucket.
    """
    made: list[Packet] = []
    rows_in = sum(batch.num_rows for batch in group)
    for one, placing in zip(inputs, placings, strict=True):
        schema = job.row_schema(one)
        relation = stream_of(one)
        data = pa.concat_batches([enter(batch.select(schema.names), schema, relation) for batch in group])
        number = job.aliases.index(one.alias)
        rows = timed(data, one)
        if job.tells_newest and len(rows):
            newest = newest_to_bytes(number, int(rows.times.max()))
            made += [(bucket, NEWEST, part, 0, False, newest) for bucket in job.bucket_ids]
        placed = placing.placed(rows)
        for piece in placing.parts(placed):
            packet = to_packet([piece.rows], piece.rows.schema)
            made.append((job.bucket_ids[piece.bucket], number, part, 0, piece.primary, packet))
        if job.sharing is not None and len(placed.rows):
            told = to_bytes(placing.counted(placed, number, job.sharing))
            made += [(bucket, NEEDS, part, 0, False, told) for bucket in job.bucket_ids]
    made.append((GUARD, 0, part, rows_in, True, job.fingerprint.encode()))
    if future:
        made.append((GUARD, AHEAD, part, future, True, inputs[0].relation.name.encode()))
    return _as_batch(made)


def end_packets(job: SparkJob, sources: Collection[str], run: str) -> pa.RecordBatch:
    """What tells every bucket, and the GUARD beside them, that some sources have ended in a run."""
    numbers = [number for number, one in enumerate(job.streams) if one.relation.name in sources]
    told = end_to_bytes(run, numbers)
    made: list[Packet] = [(bucket, ENDED, 0, 0, False, told) for bucket in job.bucket_ids]
    return _as_batch([*made, (GUARD, 0, 0, 0, True, job.fingerprint.encode())])


def _as_batch(made: Sequence[Packet]) -> pa.RecordBatch:
    columns = zip(*made, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, PACKED_SCHEMA, strict=True)],
        schema=PACKED_SCHEMA,
    )


def in_time_order(parts: Sequence[Rows]) -> Rows:
    """Several pieces as one. Pieces from different partitions overlap in time; stores like order."""
    rows = Rows.together(parts)
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


def watermark_delay_ms(one: Input) -> int:
    """The delay of Spark's watermark, in milliseconds: the lateness rounded up, and a step (see the processor)."""
    return -(-stream_of(one).lateness_us // 1000) + WATERMARK_STEP_MS
