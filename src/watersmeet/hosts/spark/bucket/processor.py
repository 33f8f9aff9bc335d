"""The stateful stage: one bucket's operator tree, fed with packets, its state in Spark's state store."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from functools import partial, reduce
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.errors import DataError
from watersmeet.hosts.spark.bucket import begun, warm_state
from watersmeet.hosts.spark.bucket.account import Account
from watersmeet.hosts.spark.bucket.archive import write_page
from watersmeet.hosts.spark.bucket.clocks import (
    BucketClock,
    ahead_by_stream,
    newest_by_stream,
    rows_by_stream,
    skipped_by_stream,
)
from watersmeet.hosts.spark.bucket.copies import Copies
from watersmeet.hosts.spark.bucket.lateness import Late, lateness, waiting_in
from watersmeet.hosts.spark.bucket.log import BucketLog, Manifest
from watersmeet.hosts.spark.bucket.output import Output, report_of
from watersmeet.hosts.spark.bucket.rebuilding import rebuilt
from watersmeet.hosts.spark.errors import of_query
from watersmeet.hosts.spark.exchange.bad_records import BadCounts
from watersmeet.hosts.spark.exchange.handed_over import let_go, rows_of
from watersmeet.hosts.spark.exchange.late_rows import late_among
from watersmeet.hosts.spark.exchange.messages import (
    BadRecords,
    Ended,
    Inbox,
    LeftOut,
    MaybeLate,
    MemoryNeeds,
    RowsByKey,
    Seen,
    Waiting,
)
from watersmeet.hosts.spark.exchange.pack import WATERMARK_STEP_MS
from watersmeet.hosts.spark.jobs.fingerprint import GUARDED, refusal
from watersmeet.hosts.spark.jobs.ids import in_its_slot, key_in
from watersmeet.hosts.spark.jobs.job import SparkJob, stream_of
from watersmeet.hosts.spark.task import batch_number, query_id
from watersmeet.model.catalog import Stream
from watersmeet.model.metric import sum_by_name
from watersmeet.model.time import BEGINNING_US
from watersmeet.operators.codes import Mask
from watersmeet.operators.contract import Operator, Rows
from watersmeet.operators.saving import Saved, load_state, state_of
from watersmeet.plan.memory import Memory
from watersmeet.plan.nodes import Input
from watersmeet.runtime.floods import looked_after
from watersmeet.runtime.run_metrics import held_by

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import TimerValues

OUTPUT_BYTES = 32 << 20
MS_US = 1_000


class BucketProcessor:
    """Runs a SparkJob for its buckets of one partition, on the state of their stage (stage.py). The key of its guard
    keeps the query's fingerprint instead. What leaves goes into the output of the query that it is of; what is of all
    queries of a job, into that of the first."""

    def __init__(self, job: SparkJob, outputs: Output | Sequence[Output], meta: Any, segments: Any) -> None:
        self.job = job
        self.outputs: Sequence[Output] = outputs if isinstance(outputs, Sequence) else (outputs,)
        self.output = self.outputs[0]
        self.meta = meta
        self.segments = segments

    def turn(self, key: Any, rows: Iterator[pd.DataFrame], timer_values: TimerValues) -> Iterator[pd.DataFrame]:
        packets = Inbox(rows)
        is_guard = key[0] == self.job.guard
        if is_guard:
            self._guard()
        if self.job.leaves_out(batch_number()):  # no bucket takes part, so that all of them still say the same
            for query, output in self._queries():
                report = report_of(_called(query, int(key[0])), {"rows_in": packets.rows_in}, {})
                yield output.report(report, _watermark_us(timer_values))
            return
        if is_guard:
            bad = BadCounts.of(packets.messages(BadRecords))
            for records in bad.kept:
                yield self.output.side(records)
            counts = {"rows_in": packets.rows_in, "bad_rows": bad.count}
            by_key = reduce(sum_by_name, (one.rows for one in packets.messages(RowsByKey)), dict[str, int]())
            told: dict[str, Any] = bad.told(packets.messages(LeftOut))
            for query, output in self._queries():
                told |= {"rows_by_key": self._in_words_of(query, by_key)} if by_key else {}
                report = report_of(query.guard, counts, told)
                yield output.report(report, _watermark_us(timer_values))
            return
        yield from self._turn(int(key[0]), packets, _watermark_us(timer_values), packets.now_ms * MS_US)

    def _queries(self) -> Iterator[tuple[SparkJob, Output]]:
        return zip(self.job.queries, self.outputs, strict=True)

    def _in_words_of(self, query: SparkJob, by_key: Mapping[str, int]) -> dict[str, int]:
        """Numbers by stream and key, with the names that a query has for streams."""
        called = dict(zip(self.job.aliases, query.aliases, strict=True))
        named = ((text.partition(": "), rows) for text, rows in by_key.items())
        return {f"{called[alias]}: {key}": rows for (alias, _, key), rows in named}

    def _guard(self) -> None:
        """Refuse a checkpoint of another query."""
        fingerprint = self.job.fingerprint
        held = self.meta.get()
        guard = None if held is None else bytes(held[2]).decode()
        if guard is not None and not self.job.knows(guard):
            why, hint = refusal(guard)
            raise DataError(f"{GUARDED} {why}", hint=hint)
        if guard != fingerprint:
            self.meta.update((1, 0, fingerprint.encode()))

    def _turn(self, bucket: int, packets: Inbox, spark_us: int, now_us: int) -> Iterator[pd.DataFrame]:
        """One batch of one bucket: what came in, then what the watermark brings about. `now_us` is the time of the
        batch. Spark's watermark, `spark_us`, only says before which time no row may lie that goes on to Spark's own
        operators."""
        turn = self._begin(bucket, packets, now_us)
        yield from self._take_in(turn)
        self._move_clock(turn)
        yield from self._answer(turn, spark_us)
        archived = self._keep(turn)
        for part in turn.parts:
            yield part.output.report(self._report(turn, part, archived), spark_us)

    def _begin(self, bucket: int, packets: Inbox, now_us: int) -> Turn:
        spent = Spent()
        with spent.on("state_ns"):
            version, nonce, manifest = self._manifest()
            layouts = [self.job.layout(one) for one in self.job.streams]
            log = BucketLog(manifest, _SparkSegments(self.segments), layouts)
            clock = BucketClock(dict(zip(self.job.aliases, self._relations, strict=True)), now_us)
            # Version 0: the bucket has no state yet, so that a fresh operator is neither a hit nor a miss.
            warm = self._warm(bucket, version, nonce) if version else self._fresh(bucket, log, clock, now_us)
            operator = warm if warm is not None else rebuilt(self.job, log)
            came = [one.came for one in packets.messages(MemoryNeeds)]
            memory = self.job.share_memory(operator, bucket, came)
            self._keep_for_these(log, operator)
        if manifest.clock is not None:
            load_state(clock, Saved(manifest.clock))
        seen = packets.messages(Seen)
        is_warm = warm is not None
        copies = self._copies(bucket, operator)
        parts = [
            Part(*query, inside) for query, inside in zip(self._queries(), self.job.operators(operator), strict=True)
        ]
        return Turn(bucket, packets, seen, now_us, version, log, operator, is_warm, memory, clock, spent, copies, parts)

    def _keep_for_these(self, log: BucketLog, operator: Operator) -> None:
        """Of a log that is kept for several queries, what those need that are left: before this turn others may have
        been dropped."""
        manifest = log.manifest
        if manifest.kept_for and manifest.kept_for != self.job.kept_for:
            for number, one in enumerate(self.job.streams):
                log.rewrite(number, partial(self._needed, operator, one, manifest.complete_until))
        manifest.kept_for = self.job.kept_for

    def _needed(self, operator: Operator, one: Input, complete_until: int, rows: Rows) -> Rows:
        rows, _, _ = self.job.admission(one).admit(rows)
        return rows.take(np.flatnonzero(operator.still_needed(one.alias, rows, complete_until)))

    def _take_in(self, turn: Turn) -> Iterator[pd.DataFrame]:
        """The rows that came, without late ones: below the watermark that earlier batches left, as this one moves it
        only afterwards. Those that a sink takes go on beside the answers."""
        manifest = turn.manifest
        for stream in range(len(self.job.streams)):
            with turn.spent.on("unpack_ns"):
                rows = self._arrived(stream, turn)
            manifest.note_oldest(stream, rows)
            turn.arrived.append(rows)
        for found in late_among(self._relations, turn.packets.messages(MaybeLate), manifest.complete_until):
            stream = [one.name for one in self._relations].index(found.stream.name)
            how_late = self._lateness(turn, stream, found.oldest_us)
            for part in turn.parts:
                part.late.add(part.job.streams[stream], found.rows.num_rows, found.rows.num_rows, how_late)
            yield self.output.side(found.packet(manifest.complete_until))

    def _move_clock(self, turn: Turn) -> None:
        """To before which time no row will come any more: the watermark after this batch, the same in all buckets."""
        manifest, clock = turn.manifest, turn.clock
        for one in turn.seen:
            manifest.newest_us[one.stream] = max(one.last_us, manifest.newest_us.get(one.stream, one.last_us))
        # What was answered at the end of a run may lie beyond what the streams tell.
        clock.rise_to(manifest.complete_until, turn.now_us)
        clock.after(turn.seen, turn.packets.messages(Waiting), turn.now_us)
        manifest.clock, manifest.complete_until = state_of(clock).values, clock.watermark_us

    def _answer(self, turn: Turn, spark_us: int) -> Iterator[pd.DataFrame]:
        operator, manifest = turn.operator, turn.manifest
        batch = dict(zip(self.job.aliases, turn.arrived, strict=True))
        marks = dict.fromkeys(self.job.aliases, manifest.complete_until)
        for place, answers in self.job.answers(operator, batch, marks):
            part = turn.parts[place]
            yield from self._frames(part.output, self._looked_after(answers, part, manifest))
        turn.ended = manifest.note_ended(turn.packets.messages(Ended), len(self.job.streams))
        if turn.ended is not None:
            closing = self._looked_after(self._close(operator, manifest), turn.parts[0], manifest)
            yield from self._frames(self.output, closing)
        if turn.ended is not None and self.output.marks_end:
            yield self.output.ended(turn.ended, spark_us)
        if self.output.marks_end:
            yield self.output.reached(manifest.complete_until, spark_us)

    def _keep(self, turn: Turn) -> dict[str, int]:
        """For the next batch and for a restart; what the archive counts."""
        bucket, version, operator = turn.bucket, turn.version + 1, turn.operator
        with turn.spent.on("state_ns"):
            # First: taking a page empties the recorder, which is part of the state that is remembered next.
            archived = write_page(self.job, operator, bucket, turn.version)
            self._remember(turn.log, operator, turn.arrived)
            # Each attempt draws its own: the copy of one that Spark did not commit never matches what the state holds.
            nonce = random.getrandbits(62)
            self.meta.update((version, nonce, turn.manifest.to_bytes()))
            if turn.ended is None or operator.goes_on:  # where an operator that has ended cannot go on, its log can
                warm_state.keep(query_id(), bucket, version, nonce, operator)
            if self.job.start.shares_memory:
                let_go()
        return archived

    def _report(self, turn: Turn, part: Part, archived: Mapping[str, int]) -> str:
        """What is told of a query. Those that have one log have it, and the time that it took, in equal parts."""
        # As all buckets know the same of the streams, one tells it.
        streams = self._stream_metrics(turn) if turn.bucket == self.job.bucket_ids[0] else {}
        held, done = held_by(part.operator), part.account.numbers(part.operator)
        copies = self._copies(turn.bucket, turn.operator)
        if copies is not None and turn.copies is not None:
            held, done = copies.kept_without(held), copies.done_without(done, turn.copies, turn.copied)
        counts = done | {
            **archived,
            "late_rows": part.late.rows,
            "skipped_rows": sum(streams.get("skipped_by_stream", {}).values()),
            "cache_hits": int(turn.is_warm and turn.version > 0),
            "cache_misses": int(not turn.is_warm),
            **{name: spent // len(turn.parts) for name, spent in turn.spent.nanoseconds.items()},
        }
        more = {
            **held,
            "state_bytes": turn.manifest.bytes_held // len(turn.parts),
            "late": part.late.by_alias,
            "work_by_bucket": {} if len(self.job.bucket_ids) == 1 else _work(turn, done),
            "cold_because": warm_state.trouble(),
            **streams,
        }
        # Of numbers also none is told, as the last one that was told counts until then.
        told: dict[str, Any] = {name: one for name, one in more.items() if one or isinstance(one, int)}
        told |= {"waiting": waiting_in(self.job, turn.operator)} if self.job.waits else {}
        told |= part.account.told(part.operator, turn.memory)
        return report_of(_called(part.job, turn.bucket), counts, told)

    def _stream_metrics(self, turn: Turn) -> dict[str, Any]:
        streams, seen = self._relations, turn.seen
        return {
            "skipped_by_stream": skipped_by_stream(streams, seen),
            "clock": turn.clock.metrics(turn.now_us),
            "future": ahead_by_stream(streams, seen),
            "rows_by_stream": rows_by_stream(streams, seen),
            "newest_by_stream": newest_by_stream(streams, seen),
        }

    def _remember(self, log: BucketLog, operator: Operator, arrived: list[Rows]) -> None:
        """Write down what a restart would miss, and strike out what it no longer would."""
        if operator.is_kept_whole:
            # Static tables come with the job, so they need not lie in the state of every bucket.
            state = operator.save(tables=False).to_bytes()
            log.save(state, operator.kept_rows, max(log.manifest.newest_us.values(), default=BEGINNING_US))
            return
        complete_until = log.manifest.complete_until
        for stream, (alias, rows) in enumerate(zip(self.job.aliases, arrived, strict=True)):
            log.append(stream, rows.take(np.flatnonzero(operator.worth_keeping(alias, rows, complete_until))))
            log.trim(stream, alias, operator, complete_until, counted=self.job.counts_rows)
        begun.let_go(self.job, log, operator)

    def _looked_after(
        self, answers: Iterator[pa.RecordBatch], part: Part, manifest: Manifest
    ) -> Iterator[pa.RecordBatch]:
        return looked_after(answers, part.operator, partial(self._newest, manifest), part.job.tell_of_flood)

    def _frames(self, output: Output, results: Iterator[pa.RecordBatch]) -> Iterator[pd.DataFrame]:
        """Results in frames of a size that Spark moves well; no more than one frame is held at a time."""
        group: list[pa.RecordBatch] = []
        held = 0
        for batch in results:
            if batch.num_rows == 0:
                continue
            group.append(batch)
            held += batch.nbytes
            if held >= OUTPUT_BYTES:
                yield output.frame(group)
                group, held = [], 0
        if group:
            yield output.frame(group)

    def _close(self, operator: Operator, manifest: Manifest) -> Iterator[pa.RecordBatch]:
        """Answer everything that waits, as no stream will bring more; if they do after all, what comes up to the
        latest time that was answered is late."""
        end = yield from operator.finish(max(manifest.newest_us.values(), default=BEGINNING_US))
        manifest.complete_until = max(manifest.complete_until, end.answered_us + 1)
        if not operator.goes_on:  # it will be rebuilt from the rows, which do not tell that they had ended here
            manifest.ends.append(end)

    def _newest(self, manifest: Manifest) -> tuple[str, int]:
        stream, last_us = max(manifest.newest_us.items(), key=lambda one: one[1])
        return self._relations[stream].name, last_us

    @property
    def _relations(self) -> list[Stream]:
        return [stream_of(one) for one in self.job.streams]

    def _manifest(self) -> tuple[int, int, Manifest]:
        held = self.meta.get()
        if held is None:
            return 0, 0, Manifest()
        return int(held[0]), int(held[1]), Manifest.from_bytes(bytes(held[2]))

    def _warm(self, bucket: int, version: int, nonce: int) -> Operator | None:
        """The operator as the last batch left it, its static tables with it."""
        fresh = partial(self.job.make_operator, tables=False)
        found = warm_state.fetch(query_id(), bucket, version, nonce, fresh)
        return found if found is None or self.job.fits(found) else None

    def _fresh(self, bucket: int, log: BucketLog, clock: BucketClock, now_us: int) -> Operator:
        if self.job.start.begun is None:
            return self.job.make_operator()
        return begun.begin(self.job, bucket, log, clock, now_us)

    def _copies(self, bucket: int, operator: Operator) -> Copies | None:
        return Copies.held_in(self.job, self.job.bucket_ids.index(bucket), operator)

    def _lateness(self, turn: Turn, stream: int, oldest_us: int) -> dict[str, int]:
        """By what the batches before this one left."""
        newest_us = turn.clock.clocks[self.job.aliases[stream]].newest_us
        return lateness(self._relations[stream], oldest_us, newest_us, turn.manifest.complete_until)

    def _arrived(self, stream: int, turn: Turn) -> Rows:
        """The rows of one stream in time order, without the late ones, which are counted once over all copies."""
        layout, alias = turn.log.layouts[stream], self.job.aliases[stream]
        # Who answers every row by itself waits for none, so that none comes too late.
        watermark_us = BEGINNING_US if self.job.is_stateless else turn.manifest.complete_until
        packets = [(one.primary, data) for one in turn.packets.rows_of(stream) for data in rows_of(one.payload)]
        if not packets:
            return layout.no_rows()
        rows = layout.rows(pa.concat_batches([data for _, data in packets]))
        is_late = rows.times < watermark_us
        late = np.flatnonzero(is_late)
        primary = np.repeat([one for one, _ in packets], [data.num_rows for _, data in packets])
        turn.copied[alias] = int(np.count_nonzero(~(primary | is_late)))
        if late.size and self._relations[stream].late_to is None:  # else all of them are counted where they are kept
            self._count_late(turn, stream, rows.take(late), primary[late])
        return (rows.take(np.flatnonzero(~is_late)) if late.size else rows).in_time_order()

    def _count_late(self, turn: Turn, stream: int, late: Rows, primary: Mask) -> None:
        """Of each query those that it would have been given alone."""
        for place, part in enumerate(turn.parts):
            own = self.job.own(place, stream, late)
            if len(own):
                how_late = self._lateness(turn, stream, int(own.times.min()))
                counted = int(primary.sum()) if own is late else len(own)  # no copies where queries share a log
                with of_query(part.job.start.query if len(turn.parts) > 1 else ""):
                    part.late.add(part.job.streams[stream], len(own), counted, how_late)


def _called(query: SparkJob, key: int) -> int:
    """A bucket or guard of a job, as it is told of one of its queries: in the slot of that."""
    return query.guard if key < 0 else key_in(query.slot, key)


def _work(turn: Turn, done: Mapping[str, int]) -> dict[str, int]:
    """What a turn had to do, by its bucket. A row that comes is worth about a result that goes."""
    work = sum(map(len, turn.arrived)) + done["results"]
    return {str(in_its_slot(turn.bucket)): work}


@dataclass
class Part:
    """What one of the queries of a job has of a turn."""

    job: SparkJob
    output: Output
    operator: Operator
    late: Late = field(default_factory=Late)

    def __post_init__(self) -> None:
        self.account = Account(self.operator)


@dataclass
class Turn:
    """One batch of one bucket, from what lay in its state to what is to lie there."""

    bucket: int
    packets: Inbox
    seen: Sequence[Seen]
    now_us: int
    version: int
    log: BucketLog
    operator: Operator
    is_warm: bool
    memory: Memory | None
    clock: BucketClock
    spent: Spent
    copies: Copies | None  # that it held before
    parts: Sequence[Part]
    copied: dict[str, int] = field(default_factory=dict)  # how many came that are counted in another bucket
    arrived: list[Rows] = field(default_factory=list)
    ended: str | None = None  # the run in which all streams have

    @property
    def manifest(self) -> Manifest:
        return self.log.manifest


class Spent:
    """Where the time of a turn went."""

    def __init__(self) -> None:
        self.nanoseconds: dict[str, int] = {}

    @contextmanager
    def on(self, what: str) -> Iterator[None]:
        started = perf_counter_ns()
        yield
        self.nanoseconds[what] = self.nanoseconds.get(what, 0) + perf_counter_ns() - started


class _SparkSegments:
    """Segments as entries of a Spark map state."""

    def __init__(self, state: Any) -> None:
        self.state = state

    def read(self, stream: int, number: int) -> bytes:
        return bytes(self.state.getValue((stream, number))[0])

    def write(self, stream: int, number: int, packet: bytes) -> None:
        self.state.updateValue((stream, number), (packet,))

    def remove(self, stream: int, number: int) -> None:
        self.state.removeKey((stream, number))


def _watermark_us(timer_values: TimerValues) -> int:
    """The first time that Spark does not take for late. It counts a row at its watermark as late, so this is a step
    further; pack.watermark_delay_ms sets Spark's back by the same step."""
    ms = int(timer_values.getCurrentWatermarkInMs())
    return (ms + WATERMARK_STEP_MS) * MS_US if ms > 0 else BEGINNING_US
