"""From rows to packets, inside Spark's Python workers: filter, choose buckets, cut, serialise. Vectorised."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
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
    NEWEST,
    BadRecords,
    Ended,
    Gone,
    LeftOut,
    MaybeLate,
    MemoryNeeds,
    Packet,
    Pulse,
    RowsByKey,
    RowsRead,
    Seen,
    Waiting,
    as_batch,
    to_buckets,
)
from watersmeet.hosts.spark.exchange.placement import Part, Placed, Placement
from watersmeet.hosts.spark.exchange.stream_end import END, REACHED
from watersmeet.hosts.spark.jobs.group import JobGroup
from watersmeet.hosts.spark.jobs.job import SparkJob
from watersmeet.hosts.spark.packets import cut, to_packet
from watersmeet.hosts.spark.task import batch_number, partition_number
from watersmeet.io.bad_rows import OnBad, without_bad_rows
from watersmeet.io.conform import enter
from watersmeet.io.event_times import timed_rows, without_nulls
from watersmeet.model.catalog import Stream
from watersmeet.model.time import BEGINNING_US, Times
from watersmeet.operators.contract import Rows
from watersmeet.runtime.predicate_index import index_over

FLUSH_BYTES = 64 << 20
FUTURE = "__future"  # the column that tells, among Spark's rows, those too far ahead of the clock
WATERMARK_STEP_MS = 1
PIECE_BITS = 16  # of the number of a packet, for its place among those of a part: 65,536 of them are 12 GB
NOTHING_NEW_US = 0  # a time of 1970 moves no watermark
Answering = tuple[SparkJob, list[tuple[int, Placement]]]  # a job with its inputs, each by its number


def packer(
    group: JobGroup, source: str, *, dated: bool = False
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for mapInArrow over one source, which packs it for every alias that queries give it. `dated`: with
    the time that Spark takes its watermark from."""

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        packing = Packing(group, source)
        # Parts order by partition, then by number in it, whatever the order in which the shuffle delivers them.
        first = partition_number() << 32
        marks = Marks()
        bad: list[pa.RecordBatch] = []
        rows = _readable(marks.rows_of(batches), packing.stream, bad.append)
        # The marks are complete only when all rows have been drawn through, so what they say is told after them.
        for number, some in enumerate(gathered(rows)):
            yield packing.packets(some, first + number, staged=marks.staged, dated=dated)
        for told in _told(marks, bad):
            yield with_newest(told, NOTHING_NEW_US) if dated else told

    def _told(marks: Marks, bad: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if bad:
            yield bad_packets(group, source, bad)
        if marks.reached_us is not None:
            # No rows: it moves the clock, but does not end a silence.
            yield as_batch(
                [
                    packet
                    for job, inputs in group.reading(source)
                    for one in inputs
                    for packet in to_buckets(job.bucket_ids, Seen(job.number_of(one), 0, 0, marks.reached_us))
                ]
            )
        for run in sorted(marks.runs):
            yield end_packets(group, {source}, run)

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


def ender(group: JobGroup, sources: Collection[str]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for mapInArrow over the names of runs that have ended, for sources that cannot tell that."""

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for run in batch.column(0).to_pylist():
                yield end_packets(group, sources, run)

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


class Packing:
    """Packs the rows of one source for all jobs of a group that read it."""

    def __init__(self, group: JobGroup, source: str) -> None:
        self.stream = group.stream(source)
        self._hands_over = group.hands_over
        self._gone = group.gone
        self._jobs = [
            (job, [(job.number_of(one), Placement(job, one)) for one in inputs])
            for job, inputs in group.reading(source)
        ]
        self._index = index_over({job.slot: job.asked_of(source) for job, _ in self._jobs})
        needed = {name for _, placings in self._jobs for _, one in placings for name in one.schema.names}
        self._schema = pa.schema([field for field in self.stream.schema if field.name in needed])

    def packets(
        self,
        group: Sequence[pa.RecordBatch],
        part: int,
        limit_us: int | None = None,
        *,
        staged: bool = False,
        partition: str = "",
        dated: bool = False,
    ) -> pa.RecordBatch:
        """The packets of some rows, and one for each guard that says how many rows came in. Every bucket is told what
        was seen of the stream, and those that share a memory also what each of them gets.

        Rows beyond `limit_us`, or that Spark marked as such, lie too far in the future to move a clock. Those of a
        first stage (`staged`) move none either: it tells by itself how far it has come.

        `part` orders packets the same way in every bucket. `partition`: that of the rows, if they have one. `dated`:
        with the newest time that may move a watermark, for Spark.
        """
        rows_in = sum(batch.num_rows for batch in group)
        made = to_buckets([job.guard for job, _ in self._jobs], RowsRead(rows_in))
        made += to_buckets(self._gone, Gone())
        batch = batch_number()
        answering = [(job, placings) for job, placings in self._jobs if not job.leaves_out(batch)]
        newest_us = NOTHING_NEW_US
        if answering:
            group = [without_nulls(self.stream, batch) for batch in group]
            skipped = rows_in - sum(batch.num_rows for batch in group)
            rows = self._entered(group)
            seen = self._seen(rows, group, limit_us, skipped, staged=staged, partition=partition)
            for job, placings in answering:
                for number, _ in placings if len(rows) or skipped else ():
                    made += to_buckets(job.bucket_ids, replace(seen, stream=number))
            newest_us = max(newest_us, seen.newest_us)
            made += self._of_rows(rows, answering, part << PIECE_BITS)
            made += self._maybe_late([job for job, _ in answering], group, part)
        return with_newest(as_batch(made), newest_us) if dated else as_batch(made)

    def _entered(self, group: Sequence[pa.RecordBatch]) -> Rows:
        """With the columns that any of the jobs reads."""
        names = self._schema.names
        data = pa.concat_batches([enter(batch.select(names), self._schema, self.stream) for batch in group])
        return timed_rows(self.stream, data)

    def _seen(
        self,
        rows: Rows,
        group: Sequence[pa.RecordBatch],
        limit_us: int | None,
        skipped: int,
        *,
        staged: bool,
        partition: str,
    ) -> Seen:
        """What each job is told of the rows, but for the number of its input."""
        seen = _seen(rows, group, limit_us, staged=staged) if len(rows) else Seen(0, 0)
        return replace(seen, skipped=skipped, partition="" if self.stream.by_arrival else partition)

    def _of_rows(self, rows: Rows, answering: Sequence[Answering], first: int) -> list[Packet]:
        """The rows of every bucket, or where they lie. What several jobs place alike is cut, and written, once; those
        that ask for some values are given the rows that have them."""
        by_value = None if self._index is None else self._index.look(rows)
        made: list[Packet] = []
        cut_alike: dict[Hashable, tuple[Placed, list[Part]]] = {}
        parts: list[tuple[SparkJob, int, Part]] = []
        for job, placings in answering:
            asked = None if by_value is None else by_value.of(job.slot)
            for number, one in placings:
                alike = one.alike if asked is None else (job.slot, number)
                if alike not in cut_alike:
                    placed = one.placed(rows if asked is None else asked)
                    cut_alike[alike] = placed, list(one.parts(placed))
                placed, own = cut_alike[alike]
                parts += [(job, number, part) for part in own]
                by_key = one.rows_by_key(placed) if job.partitioning.buckets > 1 else {}
                made += to_buckets([job.guard], RowsByKey(by_key)) if by_key else []
                if job.sharing is not None and len(placed.rows):
                    made += to_buckets(job.bucket_ids, MemoryNeeds.of(one.counted(placed, number, job.sharing)))
        payloads = self._payloads([part for _, _, part in parts])
        for job, number, part in parts:
            for place, payload in enumerate(payloads[id(part.rows)]):
                made.append(Packet(job.bucket_ids[part.bucket], number, first + place, part.primary, payload))
        return made

    def _payloads(self, parts: Sequence[Part]) -> dict[int, list[bytes]]:
        """What travels of each, by the identity of its rows."""
        distinct = {id(one.rows): one.rows for one in parts}
        places = hand_over(list(distinct.values())) if self._hands_over else None
        if places is not None:
            return {key: [place] for key, place in zip(distinct, places, strict=True)}
        return {key: [to_packet([piece], piece.schema) for piece in cut(rows)] for key, rows in distinct.items()}

    def _maybe_late(self, jobs: Sequence[SparkJob], group: Sequence[pa.RecordBatch], part: int) -> list[Packet]:
        """The rows once more, whole, where a sink takes late ones: to some bucket of each job, as each judges by its
        own clock."""
        if self.stream.late_to is None or not any(batch.num_rows for batch in group):
            return []
        chosen = [job.bucket_ids[((part >> 32) + part) % len(job.bucket_ids)] for job in jobs]
        pieces = (piece for batch in group for piece in cut(batch))
        return [
            packet
            for rows in pieces
            for packet in to_buckets(chosen, MaybeLate(maybe_late_packet(self.stream, [rows])))
        ]


def _seen(rows: Rows, group: Sequence[pa.RecordBatch], limit_us: int | None, *, staged: bool) -> Seen:
    if staged:
        return replace(Seen.of(0, rows.times), newest_us=BEGINNING_US)
    return Seen.of(0, rows.times, _ahead(rows.times, group, limit_us))


def _ahead(times: Times, group: Sequence[pa.RecordBatch], limit_us: int | None) -> npt.NDArray[np.bool_] | None:
    """Which rows of a group lie too far in the future to move a clock; None if there is no limit."""
    if FUTURE in group[0].schema.names:
        marked = [batch.column(FUTURE).fill_null(False) for batch in group]
        return np.concatenate([mark.to_numpy(zero_copy_only=False) for mark in marked])
    return None if limit_us is None else times > limit_us


def waiting_packets(group: JobGroup, source: str, partitions: Sequence[str]) -> pa.RecordBatch:
    """What tells every bucket which partitions of a source have rows that a batch does not read; also that none has."""
    return _with_guards(
        group,
        [
            packet
            for job, inputs in group.reading(source)
            for one in inputs
            for packet in to_buckets(job.bucket_ids, Waiting(job.number_of(one), tuple(partitions)))
        ],
    )


def pulse_packets(keys: Sequence[int]) -> pa.RecordBatch:
    return as_batch(to_buckets(keys, Pulse()))


def end_packets(group: JobGroup, sources: Collection[str], run: str) -> pa.RecordBatch:
    """What tells every bucket that some sources have ended in a run."""
    return _with_guards(
        group,
        [packet for job in group.waiting for packet in to_buckets(job.bucket_ids, Ended(run, _numbers(job, sources)))],
    )


def bad_packets(group: JobGroup, source: str, records: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Whole they go to one query alone, as a sink is to have them once."""
    stream = group.stream(source)
    count = sum(one.num_rows for one in records)
    first, *others = (job.guard for job, _ in group.reading(source))
    whole = to_buckets([first], BadRecords(count, bad_packet(stream, records)))
    why = BadRecords(count, bad_packet(replace(stream, bad_to=None), records))
    return as_batch([*whole, *to_buckets(others, why)])


def left_out_packets(group: JobGroup, source: str, rows: int) -> pa.RecordBatch:
    return as_batch(to_buckets([job.guard for job, _ in group.reading(source)], LeftOut(source, rows)))


def _numbers(job: SparkJob, sources: Collection[str]) -> tuple[int, ...]:
    return tuple(number for number, one in enumerate(job.streams) if one.relation.name in sources)


def _with_guards(group: JobGroup, made: Sequence[Packet]) -> pa.RecordBatch:
    """With a word to them: the first batch after a restart may be nothing else."""
    return as_batch([*made, *to_buckets(group.guards, RowsRead()), *to_buckets(group.gone, Gone())])


def watermark_delay_ms(stream: Stream) -> int:
    """The delay of Spark's watermark, in milliseconds: the lateness rounded up, and a step (see the processor)."""
    return -(-stream.lateness_us // 1000) + WATERMARK_STEP_MS
