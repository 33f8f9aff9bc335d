"""From rows to packets, inside Spark's Python workers: filter, choose buckets, cut, serialise. Vectorised."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.dataclass import dataclass
from watersmeet.hosts.spark.exchange.bad_records import bad_packet
from watersmeet.hosts.spark.exchange.handed_over import hand_over
from watersmeet.hosts.spark.exchange.late_rows import maybe_late_packet
from watersmeet.hosts.spark.exchange.messages import (
    GUARD,
    NEWEST,
    BadRecords,
    Ended,
    LeftOut,
    MaybeLate,
    MemoryNeeds,
    Packet,
    Pulse,
    RowsRead,
    Seen,
    Waiting,
    as_batch,
    to_buckets,
)
from watersmeet.hosts.spark.exchange.placement import Part, Placement
from watersmeet.hosts.spark.exchange.stream_end import END, REACHED
from watersmeet.hosts.spark.jobs.job import SparkJob, stream_of
from watersmeet.hosts.spark.packets import cut, to_packet
from watersmeet.hosts.spark.task import batch_number, partition_number
from watersmeet.io.bad_rows import OnBad, without_bad_rows
from watersmeet.io.conform import enter
from watersmeet.io.event_times import timed_rows, without_nulls
from watersmeet.model.catalog import Stream
from watersmeet.model.time import BEGINNING_US, Times
from watersmeet.operators.contract import Rows
from watersmeet.plan.nodes import Input

FLUSH_BYTES = 64 << 20
FUTURE = "__future"  # the column that tells, among Spark's rows, those too far ahead of the clock
WATERMARK_STEP_MS = 1
PIECE_BITS = 16  # of the number of a packet, for its place among those of a part: 65,536 of them are 12 GB
NOTHING_NEW_US = 0  # a time of 1970 moves no watermark


def packer(
    job: SparkJob, source: str, *, dated: bool = False
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for mapInArrow over one source, which packs it for every alias the query gives it. `dated`: with the
    time that Spark takes its watermark from."""

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        inputs = [one for one in job.streams if one.relation.name == source]
        placings = [Placement(job, one) for one in inputs]
        # Parts order by partition, then by number in it, whatever the order in which the shuffle delivers them.
        first = partition_number() << 32
        marks = Marks()
        bad: list[pa.RecordBatch] = []
        rows = _readable(marks.rows_of(batches), stream_of(inputs[0]), bad.append)
        # The marks are complete only when all rows have been drawn through, so what they say is told after them.
        for number, group in enumerate(gathered(rows)):
            yield packets(job, inputs, placings, group, first + number, staged=marks.staged, dated=dated)
        for told in _told(inputs, marks, bad):
            yield with_newest(told, NOTHING_NEW_US) if dated else told

    def _told(inputs: Sequence[Input], marks: Marks, bad: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if bad:
            yield bad_packets(stream_of(inputs[0]), bad)
        if marks.reached_us is not None:
            # No rows: it moves the clock, but does not end a silence.
            reached = [Seen(job.aliases.index(one.alias), 0, 0, marks.reached_us) for one in inputs]
            yield as_batch([packet for one in reached for packet in to_buckets(job.bucket_ids, one)])
        for run in sorted(marks.runs):
            yield end_packets(job, {source}, run)

    return pack


def with_newest(packed: pa.RecordBatch, newest_us: int) -> pa.RecordBatch:
    """Packets with the time that Spark takes its watermark from."""
    column = pa.array([newest_us] * packed.num_rows, pa.int64()).cast(pa.timestamp("us", tz="UTC"))
    return packed.append_column(NEWEST, column)


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

    def rows_of(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
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
    partition: str = "",
    dated: bool = False,
) -> pa.RecordBatch:
    """The packets of some rows of one source, and one for the GUARD that says how many rows came in. Every bucket is
    told what was seen of the stream, and those that share a memory also what each of them gets.

    Rows beyond `limit_us`, or that Spark marked as such, lie too far in the future to move a clock. Those of a first
    stage (`staged`) move none either: it tells by itself how far it has come.

    `part` orders packets the same way in every bucket. `partition`: that of the rows, if they have one. `dated`: with
    the newest time that may move a watermark, for Spark.
    """
    rows_in = sum(batch.num_rows for batch in group)
    made, newest_us = to_buckets([GUARD], RowsRead(rows_in)), NOTHING_NEW_US
    if not job.leaves_out(batch_number()):
        group = [without_nulls(stream_of(inputs[0]), batch) for batch in group]
        skipped = rows_in - sum(batch.num_rows for batch in group)
        for one, placing in zip(inputs, placings, strict=True):
            more, seen = _of_rows(job, one, placing, group, part, limit_us, skipped, staged=staged, partition=partition)
            made += more
            newest_us = max(newest_us, seen.newest_us)
        made += _maybe_late(job, stream_of(inputs[0]), group, part)
    return with_newest(as_batch(made), newest_us) if dated else as_batch(made)


def _of_rows(
    job: SparkJob,
    one: Input,
    placing: Placement,
    group: Sequence[pa.RecordBatch],
    part: int,
    limit_us: int | None,
    skipped: int,
    *,
    staged: bool,
    partition: str,
) -> tuple[list[Packet], Seen]:
    """The packets of one input, and what was seen of it."""
    schema, relation = job.row_schema(one), stream_of(one)
    data = pa.concat_batches([enter(batch.select(schema.names), schema, relation) for batch in group])
    number = job.aliases.index(one.alias)
    rows = timed_rows(relation, data)
    made: list[Packet] = []
    seen = _seen(number, rows, group, limit_us, staged=staged) if len(rows) else Seen(number, 0)
    if len(rows) or skipped:
        seen = replace(seen, skipped=skipped, partition="" if relation.by_arrival else partition)
        made += to_buckets(job.bucket_ids, seen)
    placed = placing.placed(rows)
    made += _of_parts(job, number, list(placing.parts(placed)), part << PIECE_BITS)
    if job.sharing is not None and len(placed.rows):
        made += to_buckets(job.bucket_ids, MemoryNeeds.of(placing.counted(placed, number, job.sharing)))
    return made, seen


def _of_parts(job: SparkJob, number: int, parts: Sequence[Part], first: int) -> Iterator[Packet]:
    """The rows of every bucket, or where they lie."""
    places = hand_over([one.rows for one in parts]) if job.hands_over else None
    for at, one in enumerate(parts):
        pieces = (to_packet([rows], rows.schema) for rows in cut(one.rows)) if places is None else [places[at]]
        for place, payload in enumerate(pieces):
            yield Packet(job.bucket_ids[one.bucket], number, first + place, one.primary, payload)


def _maybe_late(job: SparkJob, stream: Stream, group: Sequence[pa.RecordBatch], part: int) -> list[Packet]:
    """The rows once more, whole, where a sink takes late ones."""
    if stream.late_to is None or not any(batch.num_rows for batch in group):
        return []
    bucket = job.bucket_ids[((part >> 32) + part) % len(job.bucket_ids)]
    pieces = (piece for batch in group for piece in cut(batch))
    return [packet for rows in pieces for packet in to_buckets([bucket], MaybeLate(maybe_late_packet(stream, [rows])))]


def _seen(number: int, rows: Rows, group: Sequence[pa.RecordBatch], limit_us: int | None, *, staged: bool) -> Seen:
    if staged:
        return replace(Seen.of(number, rows.times), newest_us=BEGINNING_US)
    return Seen.of(number, rows.times, _ahead(rows.times, group, limit_us))


def _ahead(times: Times, group: Sequence[pa.RecordBatch], limit_us: int | None) -> npt.NDArray[np.bool_] | None:
    """Which rows of a group lie too far in the future to move a clock; None if there is no limit."""
    if FUTURE in group[0].schema.names:
        marked = [batch.column(FUTURE).fill_null(False) for batch in group]
        return np.concatenate([mark.to_numpy(zero_copy_only=False) for mark in marked])
    return None if limit_us is None else times > limit_us


def waiting_packets(job: SparkJob, source: str, partitions: Sequence[str]) -> pa.RecordBatch:
    """What tells every bucket which partitions of a source have rows that a batch does not read; also that none has."""
    messages = [Waiting(number, tuple(partitions)) for number in _numbers(job, {source})]
    return _as_guarded_batch([packet for one in messages for packet in to_buckets(job.bucket_ids, one)])


def pulse_packets(bucket_ids: Sequence[int]) -> pa.RecordBatch:
    return as_batch(to_buckets([*bucket_ids, GUARD], Pulse()))


def end_packets(job: SparkJob, sources: Collection[str], run: str) -> pa.RecordBatch:
    """What tells every bucket that some sources have ended in a run."""
    return _as_guarded_batch(to_buckets(job.bucket_ids, Ended(run, _numbers(job, sources))))


def bad_packets(stream: Stream, records: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    count = sum(one.num_rows for one in records)
    return as_batch(to_buckets([GUARD], BadRecords(count, bad_packet(stream, records))))


def left_out_packets(stream: Stream, rows: int) -> pa.RecordBatch:
    return as_batch(to_buckets([GUARD], LeftOut(stream.name, rows)))


def _numbers(job: SparkJob, sources: Collection[str]) -> tuple[int, ...]:
    return tuple(number for number, one in enumerate(job.streams) if one.relation.name in sources)


def _as_guarded_batch(made: Sequence[Packet]) -> pa.RecordBatch:
    """With a word to the GUARD: the first batch after a restart may be nothing else."""
    return as_batch([*made, *to_buckets([GUARD], RowsRead())])


def watermark_delay_ms(one: Input) -> int:
    """The delay of Spark's watermark, in milliseconds: the lateness rounded up, and a step (see the processor)."""
    return -(-stream_of(one).lateness_us // 1000) + WATERMARK_STEP_MS
