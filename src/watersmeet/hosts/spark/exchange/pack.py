"""From rows to packets, inside Spark's Python workers: filter, choose buckets, cut, serialise. Vectorised."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.hosts.spark.exchange.bad_records import BAD, LEFT_OUT, bad_packet
from watersmeet.hosts.spark.exchange.clock_messages import PULSE, SEEN, WAITING, Seen, Waiting
from watersmeet.hosts.spark.exchange.late_rows import MAYBE_LATE, maybe_late_packet
from watersmeet.hosts.spark.exchange.memory_needs import NEEDS, to_bytes
from watersmeet.hosts.spark.exchange.placement import Placement
from watersmeet.hosts.spark.exchange.stream_end import END, ENDED, REACHED, end_to_bytes
from watersmeet.hosts.spark.jobs.job import SparkJob, stream_of
from watersmeet.hosts.spark.packets import to_packet
from watersmeet.hosts.spark.task import batch_number, partition_number
from watersmeet.io.bad_rows import OnBad, without_bad_rows
from watersmeet.io.conform import enter
from watersmeet.io.event_times import timed_rows, without_nulls
from watersmeet.model.catalog import Stream
from watersmeet.model.time import BEGINNING_US
from watersmeet.operators.contract import Rows
from watersmeet.plan.nodes import Input

# The same columns as reading/splits.py, which says them in Spark's words because it must not import Arrow.
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
GUARD = -1  # a key of the state that is no bucket: ids of buckets are never negative
FUTURE = "__future"  # the column that tells, among Spark's rows, those too far ahead of the clock
WATERMARK_STEP_MS = 1


def packer(job: SparkJob, source: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for mapInArrow over one source, which packs it for every alias the query gives it."""

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        inputs = [one for one in job.streams if one.relation.name == source]
        placings = [Placement(job, one) for one in inputs]
        # Parts order by partition, then by number in it, whatever the order in which the shuffle delivers them.
        first = partition_number() << 32
        marks = Marks()
        bad: list[pa.RecordBatch] = []
        rows = _readable(marks.taken_from(batches), stream_of(inputs[0]), bad.append)
        # The marks are complete only when all rows have been drawn through, so what they say is told after them.
        for number, group in enumerate(gathered(rows)):
            yield packets(job, inputs, placings, group, first + number, staged=marks.staged)
        if bad:
            yield bad_packets(stream_of(inputs[0]), bad)
        if marks.reached_us is not None:
            # No rows: it moves the clock, but does not end a silence.
            reached = [Seen(job.aliases.index(one.alias), 0, 0, marks.reached_us) for one in inputs]
            yield _as_batch(told_to_all(job, reached))
        for run in sorted(marks.runs):
            yield end_packets(job, {source}, run)

    return pack


def _readable(batches: Iterator[pa.RecordBatch], stream: Stream, on_bad: OnBad) -> Iterator[pa.RecordBatch]:
    """Rows of Spark's without those whose event times cannot be, where the stream says what becomes of them."""
    before = 0
    for batch in batches:
        rows, bad = without_bad_rows(stream, batch, before, "a DataFrame")
        if bad is not None:
            on_bad(bad)
        before += batch.num_rows
        yield rows


def ender(job: SparkJob, sources: Collection[str]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for mapInArrow over the names of runs that have ended, for sources that cannot tell that."""

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for run in batch.column(0).to_pylist():
                yield end_packets(job, sources, run)

    return pack


@dataclass
class Marks:
    """What a first stage tells beside its rows: the runs in which its buckets have ended, and the time up to which they
    have given everything. All of them say the same, as all are told the same."""

    runs: set[str] = field(default_factory=set)
    reached_us: int | None = None
    staged: bool = False

    def taken_from(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of a source; of a first stage without those that tell something."""
        for batch in batches:
            if END not in batch.schema.names:
                yield batch
                continue
            self.staged = True
            end, reached = batch.column(END), batch.column(REACHED)
            self.runs.update(end.drop_null().unique().to_pylist())
            if reached.null_count < len(reached):
                self.reached_us = max(pc.max(reached).as_py(), self.reached_us or BEGINNING_US)
            is_row = pc.and_(end.is_null(), reached.is_null())
            yield batch.filter(is_row).drop_columns([END, REACHED])


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
    placings: Sequence[Placement],
    group: Sequence[pa.RecordBatch],
    part: int,
    limit_us: int | None = None,
    *,
    staged: bool = False,
    lane: str = "",
) -> pa.RecordBatch:
    """The packets of some rows of one source, and one for the GUARD that says how many rows came in. Every bucket is
    told what was seen of the stream, and those that share a memory also what each of them gets.

    Rows beyond `limit_us`, or that Spark marked as such, lie too far in the future to move a clock. Those of a first
    stage (`staged`) move none either: it tells by itself how far it has come.

    `part` orders packets the same way in every bucket. `lane`: that of the rows, if they have one.
    """
    made: list[Packet] = []
    rows_in = sum(batch.num_rows for batch in group)
    # Rows are counted once here: in the buckets there may be copies of one, or none.
    guarded = (GUARD, 0, part, rows_in, True, job.fingerprint.encode())
    if job.leaves_out(batch_number()):
        return _as_batch([guarded])
    group = [without_nulls(stream_of(inputs[0]), batch) for batch in group]
    skipped = rows_in - sum(batch.num_rows for batch in group)
    for one, placing in zip(inputs, placings, strict=True):
        schema = job.row_schema(one)
        relation = stream_of(one)
        data = pa.concat_batches([enter(batch.select(schema.names), schema, relation) for batch in group])
        number = job.aliases.index(one.alias)
        rows = timed_rows(relation, data)
        if len(rows) or skipped:
            seen = _seen(number, rows, group, limit_us, staged=staged) if len(rows) else Seen(number, 0)
            made += told_to_all(job, [replace(seen, skipped=skipped, lane="" if relation.by_arrival else lane)], part)
        placed = placing.placed(rows)
        for piece in placing.parts(placed):
            packet = to_packet([piece.rows], piece.rows.schema)
            made.append((job.bucket_ids[piece.bucket], number, part, 0, piece.primary, packet))
        if job.sharing is not None and len(placed.rows):
            told = to_bytes(placing.counted(placed, number, job.sharing))
            made += [(bucket, NEEDS, part, 0, False, told) for bucket in job.bucket_ids]
    stream = stream_of(inputs[0])
    if stream.late_to is not None and any(batch.num_rows for batch in group):
        bucket = job.bucket_ids[((part >> 32) + part) % len(job.bucket_ids)]
        made.append((bucket, MAYBE_LATE, part, 0, True, maybe_late_packet(stream, group)))
    return _as_batch([*made, guarded])


def _seen(number: int, rows: Rows, group: Sequence[pa.RecordBatch], limit_us: int | None, *, staged: bool) -> Seen:
    if staged:
        return replace(Seen.of(number, rows.times), newest_us=BEGINNING_US)
    ahead = None if limit_us is None else rows.times > limit_us
    if FUTURE in group[0].schema.names:
        marked = [batch.column(FUTURE).fill_null(False) for batch in group]
        ahead = np.concatenate([mark.to_numpy(zero_copy_only=False) for mark in marked])
    return Seen.of(number, rows.times, ahead)


def told_to_all(job: SparkJob, seen: Sequence[Seen], part: int = 0) -> list[Packet]:
    """Every bucket hears the same of every batch, so that all their clocks say the same."""
    return [(bucket, SEEN, part, 0, False, one.to_bytes()) for one in seen for bucket in job.bucket_ids]


def waiting_packets(job: SparkJob, source: str, lanes: Sequence[str]) -> pa.RecordBatch:
    """What tells every bucket which lanes of a source have rows that the batch does not read; also that none has."""
    numbers = [number for number, one in enumerate(job.streams) if one.relation.name == source]
    told = [Waiting(number, tuple(lanes)).to_bytes() for number in numbers]
    made: list[Packet] = [(bucket, WAITING, 0, 0, False, one) for one in told for bucket in job.bucket_ids]
    return _as_batch([*made, (GUARD, 0, 0, 0, True, job.fingerprint.encode())])


def pulse_packets(bucket_ids: Sequence[int]) -> pa.RecordBatch:
    """What tells every bucket, and the GUARD beside them, that time has gone on: the first batch after a restart may be
    nothing else, and must not touch the state of another query."""
    return _as_batch([(bucket, PULSE, 0, 0, False, b"") for bucket in (*bucket_ids, GUARD)])


def end_packets(job: SparkJob, sources: Collection[str], run: str) -> pa.RecordBatch:
    """What tells every bucket, and the GUARD beside them, that some sources have ended in a run."""
    numbers = [number for number, one in enumerate(job.streams) if one.relation.name in sources]
    told = end_to_bytes(run, numbers)
    made: list[Packet] = [(bucket, ENDED, 0, 0, False, told) for bucket in job.bucket_ids]
    return _as_batch([*made, (GUARD, 0, 0, 0, True, job.fingerprint.encode())])


def bad_packets(stream: Stream, records: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """What tells the GUARD of records that cannot be read."""
    count = sum(one.num_rows for one in records)
    return _as_batch([(GUARD, BAD, 0, count, True, bad_packet(stream, records))])


def left_out_packets(stream: Stream, rows: int) -> pa.RecordBatch:
    """What tells the GUARD how many rows lie on the other side of a handover."""
    return _as_batch([(GUARD, LEFT_OUT, 0, 0, True, json.dumps({stream.name: rows}).encode())])


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
        # Stable, so that rows of one time keep the order of their parts, which is the same in every bucket.
        rows = rows.take(np.argsort(rows.times, kind="stable"))
    return rows


def watermark_delay_ms(one: Input) -> int:
    """The delay of Spark's watermark, in milliseconds: the lateness rounded up, and a step (see the processor)."""
    return -(-stream_of(one).lateness_us // 1000) + WATERMARK_STEP_MS
