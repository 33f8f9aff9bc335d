"""The in-process host: reads the inputs side by side in event time and pushes them through the operators."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from math import inf
from queue import SimpleQueue
from time import perf_counter

import pyarrow as pa

from watersmeet.hosts.local.archiving import archiving
from watersmeet.hosts.local.execution import BATCH_ROWS, Blocks, Execution
from watersmeet.hosts.local.feeds import AtHand, Events, Feed, Feeds, Flowing
from watersmeet.hosts.local.side_files import SideFiles, SideSinks
from watersmeet.hosts.local.together import Together, can_be_together
from watersmeet.io.files import FileSource
from watersmeet.io.sources import TableSource
from watersmeet.io.time_ordered import batches_of
from watersmeet.model.catalog import Statistics, Stream, Table
from watersmeet.model.time import BEGINNING_US
from watersmeet.operators.answers import Answer, as_batch
from watersmeet.optimizer.choose_join import ends_by_itself
from watersmeet.plan.query import Plan
from watersmeet.runtime.bad_records import refusal
from watersmeet.runtime.build import Built, build_query
from watersmeet.runtime.clock import OnLateRows, StreamClock
from watersmeet.runtime.final import answer_over_nothing, final_answer
from watersmeet.runtime.left_out import Tell
from watersmeet.runtime.metrics import Metrics
from watersmeet.runtime.wall_clock import SystemClock, WallClock
from watersmeet.warning import warn

LOGGER = logging.getLogger("watersmeet")
# Without anyone to show them to, metrics are brought up to date only so often: pieces may be small.
REPORT_S = 0.02
SHOWN_EVERY_S = 1.0  # while nothing comes
FINISHING_S = 1.0  # that a batch in hand may take when a stop was asked for


class PulledExecution:
    """One execution of a plan over its sources. Results come from `batches`, which may be iterated once.

    Memory stays bounded by the windows: the stream whose event time is furthest behind is always read next.
    """

    def __init__(self, plan: Plan, *, batch_rows: int = BATCH_ROWS, built: Built | None = None) -> None:
        """built: run these operators instead of those the plan asks for."""
        self.plan = plan
        self.batch_rows = batch_rows
        self.on_progress: Callable[[Metrics], None] | None = None
        self.on_step: Callable[[], None] | None = None
        self.on_table: Callable[[Table, pa.RecordBatch], None] | None = None
        self.on_late_rows: OnLateRows | None = None
        # Whether bad records and late rows go to the sinks that streams name, or are only counted.
        self.writes_beside = False
        self.beside: SideSinks | None = None  # the sinks for that, if other runs share them
        self._side: SideFiles | None = None
        self.tell: Tell = warn
        self.wall: WallClock = SystemClock()
        self.metrics = Metrics()
        self.steps = 0  # how many times rows were read, and how many seconds that took with what it brought about
        self.busy_s = 0.0
        self._reported = 0.0
        self._built = built or build_query(plan, to_the_end=ends_by_itself(plan))
        self.operator = self._built.operator
        self.notice: Callable[[str], None] = LOGGER.info
        # Without streams, so that a stop may be asked for before any is opened.
        self._feeds = Feeds([], SimpleQueue(), self.wall)
        self._execution = self._executing({})
        self._stopping = False
        self._stop_by_s = inf

    def request_stop(self) -> None:
        """Finish the batch in hand, then end as if the inputs had paused there; one that takes longer is left where it
        is, between two blocks of its answers. May be called by a signal handler."""
        self._stopping = True
        self._stop_by_s = perf_counter() + FINISHING_S
        self._feeds.wake()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The results as they become certain."""
        self._execution = execution = self._executing({one.name: one for one in self._built.streams.values()})
        try:
            execution.load_tables()
            execution.load_again()
            self._feeds = self._open_feeds()
            self._announce()
            execution.clock.side.collects = self.writes_beside
            self._side = SideFiles(execution.clock.side, self.beside) if self.writes_beside else None
            yield from self._until_stopped(self._until_the_end(execution))
            self._report()
            execution.tell_what_was_left_out(at_end=True)
            if self._side is not None:
                self._side.close()
        except BaseException:
            if self._side is not None:
                self._side.abort()
            raise
        finally:
            execution.close()
            self._feeds.close()

    def archived_batches(self) -> Iterator[pa.RecordBatch]:
        """The same, archived if the plan asks for it; it counts when the last one was given."""
        with archiving(self):
            yield from self.batches()

    def _executing(self, streams: Mapping[str, Stream]) -> Execution:
        made = Execution(self.plan, self._built, streams, self.wall, lambda what: self.tell(what), self.metrics)
        made.on_step, made.on_table = self.on_step, self.on_table
        made.waits_for_more = True
        made.is_at_hand = lambda name: self._feeds.is_ready(name)
        made.tells_at_once = any(not one.source.bounded for one in streams.values() if one.source is not None)
        return made

    def _until_the_end(self, execution: Execution) -> Blocks:
        together = Together(self._feeds.all, execution) if can_be_together(self._feeds.all, execution) else None
        while not self._stopping and self._feeds.running:
            feed = self._feeds.next()
            execution.take_loads()
            if feed is not None:
                began_s = perf_counter()
                yield from self._step(execution, feed) if together is None else together.step()
                if self._feeds.passed_over:
                    yield from execution.settle()
                self.steps += 1
                self.busy_s += perf_counter() - began_s
            else:
                yield from execution.settle()
                self._report()
                self._feeds.wait(self._patience_s(execution))
            if execution.clock.watches_silence:
                self._feeds.mark_active()
            yield from execution.tick()
            if self._side is not None:
                self._side.write()
            if self.on_progress is not None or perf_counter() - self._reported > REPORT_S:
                self._report()
        yield from execution.settle()

    def _until_stopped(self, blocks: Blocks) -> Iterator[pa.RecordBatch]:
        for block in blocks:
            if block.num_rows:
                yield as_batch(block)
            if self._stopping and perf_counter() > self._stop_by_s:
                return

    def _bad(self, stream: Stream) -> Callable[[pa.RecordBatch], None]:
        """Takes the records of a stream that cannot be read."""

        def take(records: pa.RecordBatch) -> None:
            if not stream.arrival.keeps_going:
                raise refusal(stream, records)
            self._execution.leave_out(stream.name, records)

        return take

    def _step(self, execution: Execution, feed: Feed) -> Iterable[Answer]:
        """Push one batch of one stream."""
        batch = feed.take(self.operator.read_rows)
        if batch is None:
            return execution.end([feed.name])
        return execution.push(feed.name, feed.clock.timed(batch))

    def _patience_s(self, execution: Execution) -> float | None:
        """How long to wait for rows: until time has to go on without them, or progress is to be shown."""
        waits = [execution.due_in_s(), SHOWN_EVERY_S if self.on_progress is not None else None]
        return min((seconds for seconds in waits if seconds is not None), default=None)

    def _open_feeds(self) -> Feeds:
        clocks = self._execution.clock.clocks
        most_rows = self.batch_rows * self.operator.parts  # each part takes its own
        # All are opened before the first is read, so that no thread is left behind if one cannot be.
        opened = {
            name: batches_of(
                self._read_of(clock.stream), most_rows, clock.skip, self._bad(clock.stream), clock.hand_over
            )
            for name, clock in clocks.items()
        }
        events: Events = SimpleQueue()
        return Feeds([self._feed(clock, opened[name], events) for name, clock in clocks.items()], events, self.wall)

    def _read_of(self, stream: Stream) -> Stream:
        """The stream as it is read: of tables and of files that can leave columns out, only those that the query looks
        at."""
        columns = self._built.columns
        if columns is None or not isinstance(stream.source, FileSource | TableSource):
            return stream
        if stream.bad_to is not None or stream.late_to is not None:  # rows go to a sink whole
            return stream
        aliases = [alias for alias, one in self._built.streams.items() if one.name == stream.name]
        looked_at = {stream.time}.union(*(columns[alias] for alias in aliases))
        source = stream.source.only(looked_at)
        if source is stream.source or source.columns is None:
            return stream
        here = source.columns | {stream.time}
        schema = pa.schema([one for one in stream.schema if one.name in here])
        # What is known of the rows has guided the plan; it may be of columns that are not here.
        return replace(stream, source=source, schema=schema, statistics=Statistics())

    def _feed(self, clock: StreamClock, batches: Iterator[pa.RecordBatch], events: Events) -> Feed:
        stream = clock.stream
        clock.on_late_rows = self.on_late_rows
        # Only a stream that another may be read instead of, or time go on without, needs a thread to wait for it.
        alone = len(self._execution.clock.clocks) == 1
        waits = alone and stream.arrival.idle_us is None and not stream.by_arrival
        flows = not stream.source.at_hand and not waits
        return Feed(clock, Flowing(stream.name, batches, events) if flows else AtHand(batches))

    def final_answer(self, log: pa.Table) -> pa.Table:
        """What the log of this run adds up to at its last event."""
        if self.last_event_us > BEGINNING_US:
            return final_answer(log, self.plan, self.last_event_us)
        return answer_over_nothing(self.plan, self._execution.anew)

    @property
    def last_event_us(self) -> int:
        """The newest event time of all streams so far."""
        return self._execution.last_event_us

    @property
    def common_event_us(self) -> int:
        """The event time that every stream has reached."""
        return min((one.newest_us for one in self._execution.clock.clocks.values()), default=BEGINNING_US)

    @property
    def first_event_us(self) -> int:
        """The oldest event time of all streams so far."""
        return min((one.oldest_us for one in self._execution.clock.clocks.values()), default=BEGINNING_US)

    def _announce(self) -> None:
        """Say before the first row what would surprise later."""
        for said in self._built.notices(self.plan):
            self.notice(said)
        for feed in self._feeds.all:
            stream = feed.clock.stream
            if stream.by_arrival:
                continue
            if not stream.arrival.says_lateness and stream.source is not None and not stream.source.bounded:
                self.notice(
                    f"stream {stream.name!r} says no lateness, so it is 0: rows that come out of order are left out; "
                    "lateness='2 seconds' would wait for them"
                )

    def _report(self) -> None:
        """Bring the metrics up to date and show them."""
        self._reported = perf_counter()
        self._execution.report()
        if self.on_progress is not None:
            self.on_progress(self.metrics)
