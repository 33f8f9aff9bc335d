"""The stateful stage: one bucket's operator tree, fed with packets, its state in Spark's state store."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from watersmeet.errors import DataError
from watersmeet.hosts.spark import hot
from watersmeet.hosts.spark.account import Account
from watersmeet.hosts.spark.archive import write_page
from watersmeet.hosts.spark.ending import ENDED, NEWEST, ends_told, newest_from_bytes
from watersmeet.hosts.spark.job import SparkJob, stream_of
from watersmeet.hosts.spark.lateness import Late, waiting_in
from watersmeet.hosts.spark.log import BucketLog, Manifest
from watersmeet.hosts.spark.needs import NEEDS, share_out
from watersmeet.hosts.spark.output import Output
from watersmeet.hosts.spark.pack import AHEAD, GUARD, WATERMARK_STEP_MS, in_time_order, watermark_delay_ms
from watersmeet.hosts.spark.packets import from_packet
from watersmeet.model.time import BEGINNING_US, FOREVER_US, normalize_time_column, times_of
from watersmeet.operators.continuous.pipeline import Continuous
from watersmeet.operators.contract import Operator, Rows
from watersmeet.operators.keeping.batches import push_in_steps
from watersmeet.operators.keeping.durable import resume, saved, shedding_join_of
from watersmeet.operators.time_order import InTimeOrder

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, TimerValues

META = "version long, nonce long, manifest binary"
SEGMENT_KEY = "input int, number long"
SEGMENT = "rows binary"
OUTPUT_BYTES = 32 << 20


class BucketProcessor(StatefulProcessor):
    """Runs a SparkJob for the buckets of one partition. The key GUARD keeps the query's fingerprint instead."""

    def __init__(self, job: SparkJob, output: Output) -> None:
        self.job = job
        self.output = output

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.turned: set[int] = set()
        self.meta = handle.getValueState("meta", META)
        self.segments = handle.getMapState("segments", SEGMENT_KEY, SEGMENT)

    def handleInputRows(
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: TimerValues,
    ) -> Iterator[pd.DataFrame]:
        packets = pd.concat(list(rows), ignore_index=True)
        if key[0] == GUARD:
            self._guard()
            ahead = packets["input"] == AHEAD
            numbers = {"rows_in": int(packets[~ahead]["rows_in"].sum())}
            yield self.output.report(numbers, _watermark_us(timerValues), _ahead_told(packets[ahead]))
            return
        yield from self._turn(int(key[0]), packets, _watermark_us(timerValues))

    def handleExpiredTimer(
        self,
        key: Any,
        timerValues: TimerValues,
        expiredTimerInfo: ExpiredTimerInfo,
    ) -> Iterator[pd.DataFrame]:
        if int(key[0]) not in self.turned:  # the turn of this batch has seen to everything already
            yield from self._turn(int(key[0]), None, _watermark_us(timerValues))

    def close(self) -> None:
        pass

    def _guard(self) -> None:
        """Refuse a checkpoint of another query."""
        fingerprint = self.job.fingerprint.encode()
        held = self.meta.get()
        if held is None:
            self.meta.update((1, 0, fingerprint))
        elif bytes(held[2]) != fingerprint:
            raise DataError(
                "this checkpoint belongs to another query, or to the same one with other columns, buckets, or rates "
                "that spread its rows differently",
                hint="start the changed query with a new checkpoint, or go back to the query that wrote this one",
            )

    def _turn(self, bucket: int, packets: pd.DataFrame | None, watermark_us: int) -> Iterator[pd.DataFrame]:
        """One batch of one bucket: what came in, then what the watermark brings about."""
        self.turned.add(bucket)
        spent = Spent()
        with spent.on("state_ns"):
            version, nonce, manifest = self._manifest()
            log = BucketLog(manifest, _SparkSegments(self.segments), *_layouts(self.job))
            operator = hot.fetch(_query(), bucket, version, nonce) if version else self.job.make_operator()
            hit = operator is not None
            operator = operator if operator is not None else self._rebuild(log)
            memory = share_out(self.job, operator, bucket, _payloads(packets, NEEDS))
        account = Account(operator)
        late = Late()
        arrived: list[Rows] = []
        for stream, alias in enumerate(self.job.aliases):
            with spent.on("unpack_ns"):
                rows = self._arrived(stream, packets, max(watermark_us, manifest.complete_until), log, late)
            arrived.append(rows)
            if not self.job.sheds:
                yield from self._frames(operator.push(alias, rows))
        manifest.complete_until = self._complete_until(manifest, arrived, watermark_us, _payloads(packets, NEWEST))
        if self.job.sheds:
            batch = dict(zip(self.job.aliases, arrived, strict=True))
            yield from self._frames(push_in_steps(operator, batch, manifest.complete_until))
        yield from self._frames(operator.advance(dict.fromkeys(self.job.aliases, manifest.complete_until)))
        ended = manifest.note_ended(ends_told(_payloads(packets, ENDED)), len(self.job.streams))
        if ended is not None and self.job.waits:
            yield from self._frames(self._close(operator, manifest))
        if ended is not None and self.output.marks_end:
            yield self.output.ended(ended, watermark_us)
        with spent.on("state_ns"):
            archived = write_page(self.job, operator, bucket, version)
            self._remember(log, operator, arrived)
            self._set_timer(manifest, operator, watermark_us)
            nonce = random.getrandbits(62)
            self.meta.update((version + 1, nonce, manifest.to_bytes()))
            if ended is None or not isinstance(operator, Continuous):  # one that has ended cannot go on, its log can
                hot.keep(_query(), bucket, version + 1, nonce, operator)
        counts = account.numbers(operator)
        counts |= {
            **archived,
            "late_rows": late.rows,
            "cache_hits": int(hit and version > 0),
            "cache_misses": int(not hit),
        }
        counts |= spent.nanoseconds
        more: dict[str, Any] = {"window_rows": operator.window_rows, "state_bytes": manifest.bytes_held}
        more |= {"late": late.by_alias} if late.rows else {}
        more |= {"waiting": waiting_in(self.job, operator)} if self.job.waits else {}
        trouble = hot.trouble()
        more |= {"cold_because": trouble} if trouble else {}
        yield self.output.report(counts, watermark_us, account.told(operator, bucket, memory, **more))

    def _remember(self, log: BucketLog, operator: Operator, arrived: list[Rows]) -> None:
        """Write down what a restart would miss, and strike out what it no longer would."""
        if self.job.sheds:
            log.save(saved(operator), operator.window_rows, max(log.manifest.newest_us.values(), default=BEGINNING_US))
            return
        complete_until = log.manifest.complete_until
        for stream, (alias, rows) in enumerate(zip(self.job.aliases, arrived, strict=True)):
            log.append(stream, rows.take(np.flatnonzero(operator.still_needed(alias, rows, complete_until))))
            log.trim(stream, alias, operator, complete_until, counted=self.job.counts_rows)

    def _frames(self, results: Iterator[pa.RecordBatch]) -> Iterator[pd.DataFrame]:
        """Results in frames of a size that Spark moves well; no more than one frame is held at a time."""
        group: list[pa.RecordBatch] = []
        for batch in results:
            group.append(batch)
            if sum(part.nbytes for part in group) >= OUTPUT_BYTES:
                yield self.output.frame(group)
                group = []
        if group:
            yield self.output.frame(group)

    def _close(self, operator: Operator, manifest: Manifest) -> Iterator[pa.RecordBatch]:
        """Answer everything that waits, as no stream will bring more; if they do after all, what comes up to the
        latest time that was answered is late."""
        if isinstance(operator, Continuous):
            yield from operator.advance(dict.fromkeys(self.job.aliases, FOREVER_US))
            last_us = max(operator.answered_us, *(waiting.last_us for waiting in operator.waiting.values()))
        else:
            last_us = max(manifest.newest_us.values(), default=BEGINNING_US)
            yield from operator.advance(dict.fromkeys(self.job.aliases, last_us + 1))
            joining = shedding_join_of(operator)
            if joining is not None:
                joining.shed_to_bound()
        manifest.complete_until = max(manifest.complete_until, last_us + 1)

    def _complete_until(self, manifest: Manifest, arrived: list[Rows], watermark_us: int, told: Sequence[bytes]) -> int:
        """Before which time no row will come any more: Spark's watermark of now, or what it must be next.

        Spark sets the next watermark from the newest row of every stream, so it will be at least what the rows
        seen here make it. Rows that it will put out of reach need not be kept, nor written to the log.
        """
        if self.job.follows:
            return max(watermark_us, manifest.complete_until)
        came = [(stream, int(rows.times.max())) for stream, rows in enumerate(arrived) if len(rows)]
        for stream, newest in [*came, *map(newest_from_bytes, told)]:
            manifest.newest_us[stream] = max(newest, manifest.newest_us.get(stream, newest))
        guarded = any(stream_of(one).arrival.max_future_us is not None for one in self.job.streams)
        if guarded or len(manifest.newest_us) < len(arrived):  # a row far ahead moves no watermark
            return max(watermark_us, manifest.complete_until)
        nexts = [self._next_watermark_us(stream, newest) for stream, newest in manifest.newest_us.items()]
        return max(watermark_us, manifest.complete_until, min(nexts))

    def _next_watermark_us(self, stream: int, newest_us: int) -> int:
        delay_ms = watermark_delay_ms(self.job.streams[stream]) - WATERMARK_STEP_MS
        return (newest_us // 1000 - delay_ms) * 1000

    def _manifest(self) -> tuple[int, int, Manifest]:
        held = self.meta.get()
        if held is None:
            return 0, 0, Manifest()
        return int(held[0]), int(held[1]), Manifest.from_bytes(bytes(held[2]))

    def _rebuild(self, log: BucketLog) -> Operator:
        operator = self.job.make_operator()
        if self.job.sheds:
            state = log.saved()
            assert state is not None
            resume(operator, state)
            return operator
        rows = {alias: log.rows(stream) for stream, alias in enumerate(self.job.aliases)}
        operator.restore(rows, log.manifest.complete_until)
        return operator

    def _arrived(
        self, stream: int, packets: pd.DataFrame | None, watermark_us: int, log: BucketLog, late: Late
    ) -> Rows:
        """The rows of one stream in time order, without the late ones, which are counted once over all copies."""
        mine = [] if packets is None else packets[packets["input"] == stream].sort_values("part").itertuples()
        parts: list[Rows] = []
        dropped = counted = 0
        oldest_us = watermark_us
        for packet in mine:
            for data in from_packet(packet.payload):
                rows = Rows(data, times_of(normalize_time_column(data.column(log.times[stream]))))
                in_time = np.flatnonzero(rows.times >= watermark_us)
                if in_time.size < len(rows):
                    oldest_us = min(oldest_us, int(rows.times.min()))
                    dropped += len(rows) - in_time.size
                    counted += (len(rows) - in_time.size) if packet.primary else 0
                    rows = rows.take(in_time)
                parts.append(rows)
        late.add(self.job.streams[stream], dropped, counted, watermark_us - oldest_us)
        return in_time_order(parts) if parts else log.no_rows(stream)

    def _set_timer(self, manifest: Manifest, operator: Operator, watermark_us: int) -> None:
        """Wake this bucket when rows that wait may be counted, or all its rows have expired, whatever comes in."""
        due_us = self._due_us(manifest, operator)
        if due_us is None or due_us >= FOREVER_US:
            return
        due_ms = max(due_us, watermark_us) // 1000 + 1
        pending = manifest.timer_ms is not None and manifest.timer_ms * 1000 > watermark_us
        if pending and manifest.timer_ms is not None and manifest.timer_ms <= due_ms:
            return
        self.handle.registerTimer(due_ms)
        manifest.timer_ms = due_ms

    def _due_us(self, manifest: Manifest, operator: Operator) -> int | None:
        if isinstance(operator, InTimeOrder | Continuous):
            return operator.oldest_waiting_us
        if manifest.saved is not None:
            longest = max(self.job.retention_us(alias) for alias in self.job.aliases)
            return manifest.saved.newest_us + longest if manifest.saved.rows else None
        dues = [
            max(segment.newest_us for segment in log) + self.job.retention_us(self.job.aliases[stream])
            for stream, log in manifest.segments.items()
            if log
        ]
        return max(dues, default=None)


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
    """The first time that is not late. Spark counts a row at its watermark as late, so ours is a step further;
    pack.watermark_delay_ms sets Spark's back by the same step."""
    ms = int(timer_values.getCurrentWatermarkInMs())
    return (ms + WATERMARK_STEP_MS) * 1000 if ms > 0 else BEGINNING_US


def _ahead_told(packets: pd.DataFrame) -> str | None:
    """How many rows of which streams lie too far in the future, as JSON."""
    if packets.empty:
        return None
    rows = packets["rows_in"].groupby(packets["payload"].map(bytes)).sum()
    return json.dumps({"bucket": GUARD, "future": {name.decode(): int(count) for name, count in rows.items()}})


def _query() -> str:
    context = TaskContext.get()
    query = context.getLocalProperty("sql.streaming.queryId") if context is not None else None
    return query or "batch"


def _payloads(packets: pd.DataFrame | None, kind: int) -> list[bytes]:
    """What the packets of a batch tell that hold no rows."""
    return [] if packets is None else [bytes(told) for told in packets[packets["input"] == kind]["payload"]]


def _layouts(job: SparkJob) -> tuple[list[pa.Schema], list[str]]:
    return [job.packet_schema(one) for one in job.streams], [one.time or "" for one in job.streams]
