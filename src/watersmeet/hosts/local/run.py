"""The in-process host: reads the inputs side by side in event time and pushes them through the operators."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from math import inf
from queue import SimpleQueue
from time import perf_counter

import pyarrow as pa

from watersmeet.hosts.local.feeds import Feed, Feeds
from watersmeet.hosts.local.inlets import AtHand, Events, Flowing
from watersmeet.hosts.local.side_files import SideFiles, SideSinks
from watersmeet.io.files import FileSource
from watersmeet.io.time_ordered import batches_of
from watersmeet.model.catalog import Statistics, Stream, Table
from watersmeet.model.time import BEGINNING_US, FOREVER_US
from watersmeet.operators.contract import Operator
from watersmeet.optimizer.choose_join import ends_by_itself
from watersmeet.plan.nodes import Plan
from watersmeet.runtime.bad_records import refusal
from watersmeet.runtime.build import Built, build_query
from watersmeet.runtime.clock import OnLateRows, QueryClock
from watersmeet.runtime.final import answer_over_nothing, final_answer
from watersmeet.runtime.floods import Floods
from watersmeet.runtime.late_rows import LateReports, Tell, warn
from watersmeet.runtime.metrics import Metrics
from watersmeet.runtime.reloading import Load, Reloads, loaded, reloaded_tables
from watersmeet.runtime.telling import bring_up_to_date
from watersmeet.runtime.wall_clock import SystemClock, WallClock

LOGGER = logging.getLogger("watersmeet")
BATCH_ROWS = 1 << 16


# Without anyone to show them to, metrics are brought up to date only so often: pieces may be small.
REPORT_S = 0.005
SHOWN_EVERY_S = 1.0  # while nothing comes
FINISHING_S = 1.0  # that a batch in hand may take when a stop was asked for


class LocalRun:
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
        self.writes_beside = (
            False  # whether bad records and late rows go to the sinks that streams name, or are counted
        )
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
        # Without streams, so that a stop may be asked for before any is opened.
        self._feeds = Feeds([], SimpleQueue(), self.wall)
        self._clock = QueryClock([])
        self._late_reports = LateReports(self._told)
        self.notice: Callable[[str], None] = LOGGER.info
        self._endless = False
        self._stopping = False
        self._stop_by_s = inf
        self._floods = Floods(self._told)

    def request_stop(self) -> None:
        """Finish the batch in hand, then end as if the inputs had paused there; one that takes longer is left where it
        is, between two blocks of its answers. May be called by a signal handler."""
        self._stopping = True
        self._stop_by_s = perf_counter() + FINISHING_S
        self._feeds.wake()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The results as they become certain."""
        reloaded = self._load_tables()
        self._feeds = self._open_feeds()
        self._announce()
        try:
            self._side = SideFiles(self._clock.side, self.beside) if self.writes_beside else None
            yield from self._until_stopped(self._until_the_end(reloaded))
            self._report()
            self._tell_of_late_rows(at_end=True)
            if self._side is not None:
                self._side.close()
        except BaseException:
            if self._side is not None:
                self._side.abort()
            raise
        finally:
            reloaded.close()
            self._feeds.close()

    def _until_the_end(self, reloaded: Reloads) -> Iterator[pa.RecordBatch]:
        while not self._stopping and self._feeds.running:
            feed = self._feeds.next()
            for name, rows in reloaded.take().items():
                self._replace(name, rows)
            if feed is not None:
                began_s = perf_counter()
                yield from self._step(feed)
                if self._feeds.passed_over:
                    yield from self.operator.settle()
                self.steps += 1
                self.busy_s += perf_counter() - began_s
            else:
                yield from self.operator.settle()
                self._report()
                self._feeds.wait(self._patience_s())
            if self._clock.watches_silence:
                self._feeds.mark_active()
            if self._clock.tick():
                yield from self.operator.advance(self._watermarks())
            self._write_beside()
            if self.on_step is not None:
                self.on_step()
            if self.on_progress is not None or perf_counter() - self._reported > REPORT_S:
                self._report()
        yield from self.operator.settle()

    def _until_stopped(self, blocks: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for block in blocks:
            self._floods.look(self.operator, self._clock)
            if block.num_rows:
                yield block
            if self._stopping and perf_counter() > self._stop_by_s:
                return

    def _write_beside(self) -> None:
        if self._side is not None:
            self._side.write()
        else:
            self._clock.side.take()  # they are counted

    def _bad(self, name: str) -> Callable[[pa.RecordBatch], None]:
        """Takes the records of a stream that cannot be read."""

        def take(records: pa.RecordBatch) -> None:
            clock = self._clock.clocks[name]
            if not clock.stream.arrival.keeps_going:
                raise refusal(clock.stream, records)
            clock.leave_out(records)

        return take

    def _step(self, feed: Feed) -> Iterator[pa.RecordBatch]:
        """Push one batch of one stream, then tell the operators how far time has come."""
        batch = feed.take(self.operator.read_rows)
        if batch is None:
            self._clock.end(feed.name)
        else:
            rows = self._clock.admit(feed.name, batch)
            # Others tell of late rows at their end.
            if self._endless:
                self._tell_of_late_rows()
            # A stream that is joined with itself is read once and pushed under each of its names.
            for alias in feed.aliases:
                yield from self.operator.push(alias, rows)
        yield from self.operator.advance(self._watermarks())

    def _patience_s(self) -> float | None:
        """How long to wait for rows: until time has to go on without them, or progress is to be shown."""
        waits = [self._clock.silent_in_s]
        if self._clock.goes_on_by_itself:
            waits.append(self._due_s())
        if self.on_progress is not None:
            waits.append(SHOWN_EVERY_S)
        return min((seconds for seconds in waits if seconds is not None), default=None)

    def _due_s(self) -> float | None:
        """When time goes on by itself: in how many seconds something that waits in the operators will be certain."""
        if self.operator.wake_us is not None:
            return self._clock.reached_in_s(self.operator.wake_us)
        return SHOWN_EVERY_S if self.operator.lag_us else None  # it joins at moments of its own

    def _watermarks(self) -> dict[str, int]:
        """Before which time nothing comes of each stream any more."""
        return {alias: self._complete_until(feed) for feed in self._feeds.all for alias in feed.aliases}

    def _complete_until(self, feed: Feed) -> int:
        """The query's watermark, as rows below it are left out, whichever stream they are of. Of one that is read in
        time order nothing comes before its newest row, and of one that ended nothing at all."""
        if feed.clock.ended:
            return FOREVER_US
        sorted_until_us = feed.clock.newest_us if feed.in_time_order else BEGINNING_US
        return max(self._clock.watermark_us, sorted_until_us)

    def _open_feeds(self) -> Feeds:
        streams = {stream.name: stream for stream in self._built.streams.values()}
        self._clock = QueryClock(streams.values(), self.wall)
        self._endless = any(not stream.source.bounded for stream in streams.values() if stream.source is not None)
        # All are opened before the first is read, so that no thread is left behind if one cannot be.
        opened = {
            name: batches_of(self._read_of(stream), self.batch_rows, self._clock.clocks[name].skip, self._bad(name))
            for name, stream in streams.items()
        }
        events: Events = SimpleQueue()
        feeds = [self._feed(stream, opened[stream.name], events, len(streams)) for stream in streams.values()]
        return Feeds(feeds, events, self.wall)

    def _read_of(self, stream: Stream) -> Stream:
        """The stream as it is read: of files that can leave columns out, only those that the query looks at."""
        columns = self._built.columns
        if columns is None or not isinstance(stream.source, FileSource):
            return stream
        if stream.bad_to is not None or stream.late_to is not None:  # rows go to a sink whole
            return stream
        aliases = [alias for alias, one in self._built.streams.items() if one.name == stream.name]
        looked_at = {stream.time}.union(*(columns[alias] for alias in aliases))
        source = stream.source.only(looked_at)
        if source.columns is None:
            return stream
        here = source.columns | {stream.time}
        schema = pa.schema([one for one in stream.schema if one.name in here])
        # What is known of the rows has guided the plan; it may be of columns that are not here.
        return replace(stream, source=source, schema=schema, statistics=Statistics())

    def _feed(self, stream: Stream, batches: Iterator[pa.RecordBatch], events: Events, streams: int) -> Feed:
        clock = self._clock.clocks[stream.name]
        clock.on_late_rows = self.on_late_rows
        aliases = [alias for alias, one in self._built.streams.items() if one.name == stream.name]
        # Only a stream that another may be read instead of, or time go on without, needs a thread to wait for it.
        waits = streams == 1 and stream.arrival.idle_us is None and not stream.by_arrival
        flows = not stream.source.at_hand and not waits
        return Feed(clock, Flowing(stream.name, batches, events) if flows else AtHand(batches), aliases)

    def _load_tables(self) -> Reloads:
        """Gives what loads them again, of those that say so."""
        reloaded = reloaded_tables(self.plan)
        now = {name: loaded(table) for name, table in reloaded.items()}
        for table, load in self._built.tables:
            for batch in now[table.name] if table.name in now else batches_of(table, self.batch_rows):
                load(batch)
                if self.on_table is not None:
                    self.on_table(table, batch)
        reloads = Reloads(reloaded, self._told)
        reloads.start(now)
        return reloads

    def _replace(self, name: str, rows: Load) -> None:
        for table, load in self._built.tables:
            if table.name == name:
                load.forget()
                for batch in rows:
                    load(batch)

    def final_answer(self, log: pa.Table) -> pa.Table:
        """What the log of this run adds up to at its last event."""
        if self.last_event_us > BEGINNING_US:
            return final_answer(log, self.plan, self.last_event_us)
        return answer_over_nothing(self.plan, self._anew)

    def _anew(self) -> Operator:
        fresh = LocalRun(self.plan)
        fresh._load_tables().close()
        return fresh.operator

    @property
    def last_event_us(self) -> int:
        """The newest event time of all streams so far."""
        return max((feed.clock.last_us for feed in self._feeds.all), default=BEGINNING_US)

    @property
    def common_event_us(self) -> int:
        """The event time that every stream has reached."""
        return min((feed.clock.newest_us for feed in self._feeds.all), default=BEGINNING_US)

    @property
    def first_event_us(self) -> int:
        """The oldest event time of all streams so far."""
        return min((feed.clock.oldest_us for feed in self._feeds.all), default=BEGINNING_US)

    def _announce(self) -> None:
        """Say before the first row what would surprise later."""
        for feed in self._feeds.all:
            stream = feed.clock.stream
            if stream.by_arrival:
                continue
            if not stream.arrival.says_lateness and stream.source is not None and not stream.source.bounded:
                self.notice(
                    f"stream {stream.name!r} says no lateness, so it is 0: rows that come out of order are left out; "
                    "lateness='2 seconds' would wait for them"
                )

    def _tell_of_late_rows(self, *, at_end: bool = False) -> None:
        for feed in self._feeds.all:
            clock = feed.clock
            self._late_reports.look(clock.late, clock.future_rows, clock.skipped_rows, at_end=at_end)
            self._late_reports.look_bad(clock.bad, at_end=at_end)

    def _told(self, what: Warning) -> None:
        LOGGER.info("%s", what)
        self.tell(what)

    def _report(self) -> None:
        """Bring the metrics up to date and show them."""
        self._reported = perf_counter()
        bring_up_to_date(self.metrics, self._clock, self.operator)
        if self.on_progress is not None:
            self.on_progress(self.metrics)
