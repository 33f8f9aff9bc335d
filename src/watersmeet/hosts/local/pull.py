"""Reads the sources of queries and feeds them: each stream once, whoever looks at it.

A query by itself is the case of one. What several share is what is read: rows are decoded, judged and given their event
times once. Whether they are late, what they bring about and what is told of it is each query's own, so that each answer
is what it would be alone. One that fails stops alone.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from queue import SimpleQueue
from time import perf_counter
from typing import Protocol

import pyarrow as pa

from watersmeet.hosts.local.execution import Execution
from watersmeet.hosts.local.feeds import AtHand, Events, Feed, Feeds, Flowing
from watersmeet.hosts.local.side_files import SideFiles, SideSinks
from watersmeet.hosts.local.together import Together, can_be_together
from watersmeet.io.broken_text import holds_text
from watersmeet.io.files import FileSource
from watersmeet.io.sources import TableSource
from watersmeet.io.time_ordered import batches_of
from watersmeet.model.catalog import Statistics, Stream
from watersmeet.operators.answers import Answer, as_batch
from watersmeet.operators.contract import Operator, Rows
from watersmeet.runtime.bad_records import refusal
from watersmeet.runtime.clock import StreamClock
from watersmeet.runtime.metrics import Metrics
from watersmeet.runtime.sharing import is_same_stream
from watersmeet.runtime.side_output import SideOutput
from watersmeet.runtime.wall_clock import SystemClock, WallClock

# Without anyone to show them to, metrics are brought up to date only so often: pieces may be small.
REPORT_S = 0.02
SHOWN_EVERY_S = 1.0  # while nothing comes
FINISHING_S = 1.0  # that a batch in hand may take when a stop was asked for


class Pulled(Protocol):
    """A query that is fed by what is read (`PulledExecution`)."""

    pull: Pull
    execution: Execution
    operator: Operator
    streams: Mapping[str, Stream]
    wall: WallClock
    batch_rows: int
    writes_beside: bool
    beside: SideSinks | None
    on_progress: Callable[[Metrics], None] | None
    failure: Exception | None
    steps: int
    busy_s: float

    @property
    def clocks(self) -> Mapping[str, StreamClock]: ...

    def columns_of(self, stream: str) -> frozenset[str] | None: ...

    def announce(self, stream: Stream) -> None: ...

    def begin(self, side: SideOutput) -> None: ...

    def step(self, stream: str, rows: Rows | None) -> Iterable[Answer]: ...

    def end(self) -> None: ...

    def report(self) -> None: ...


# A query and a block of its answers, or None when it has ended, well or not.
Given = tuple[Pulled, pa.RecordBatch | None]


class Pull:
    """One reading of all that some queries look at. `answers` may be iterated once.

    Memory stays bounded by the windows: the stream whose event time is furthest behind is always read next.
    """

    def __init__(self, runs: Sequence[Pulled]) -> None:
        self.runs = list(runs)
        for run in self.runs:
            run.pull = self
        self._running = list(self.runs)
        self._ended: list[Pulled] = []  # those of which nobody was told yet
        # Without streams, so that a stop may be asked for before any is opened.
        self._wall: WallClock = SystemClock()
        self._feeds: Feeds[Pulled] = Feeds([], SimpleQueue(), self._wall)
        self._side: SideFiles | None = None
        self._stopping = False
        self._stop_by_s = inf
        self._reported_s = 0.0

    def request_stop(self) -> None:
        """Finish the batch in hand, then end as if the inputs had paused there; one that takes longer is left where it
        is, between two blocks of its answers. May be called by a signal handler."""
        self._stopping = True
        self._stop_by_s = perf_counter() + FINISHING_S
        self._feeds.wake()

    def is_ready(self, stream: str) -> bool:
        """Whether rows of a stream are there that were not given to anybody yet."""
        return self._feeds.is_ready(stream)

    def fail(self, run: Pulled, error: Exception) -> None:
        """A query stops where it is; the others go on."""
        if run.failure is None:
            run.failure = error
            self._leave(run)

    def answers(self) -> Generator[Given, None, None]:
        """The answers of all as they become certain, and when each has ended."""
        try:
            self._begin()
            yield from self._told()
            yield from self._until_the_end()
            for run in list(self._running):
                yield from self._finished(run)
            yield from self._told()
            self._close_side()
        except BaseException:
            if self._side is not None:
                self._side.abort()
            raise
        finally:
            for run in self.runs:
                run.execution.close()
            self._feeds.close()

    # ---- from the first row to the last -----------------------------------------------------------------------------

    def _begin(self) -> None:
        self._wall = self.runs[0].wall
        side = SideOutput(one for run in self.runs for one in run.streams.values())
        writes = self.runs[0].writes_beside
        side.collects = writes
        for run in list(self._running):
            self._attempt(run, partial(run.begin, side))
        self._feeds = self._opened()
        for feed in self._feeds.all:
            feed.readers[0].announce(feed.clock.stream)
        self._side = SideFiles(side, self.runs[0].beside) if writes else None

    def _until_the_end(self) -> Iterator[Given]:
        reloading = [run for run in self.runs if run.execution.reloaded]
        by_the_wall = [run for run in self.runs if run.execution.clock.watches_the_wall]
        watches_silence = any(run.execution.clock.watches_silence for run in self.runs)
        together = self._together()
        while not self._stopping and self._feeds.running:
            feed = self._feeds.next()
            for run in reloading:
                self._attempt(run, run.execution.take_loads)
            if feed is None:
                yield from self._paused()
            else:
                yield from self._step(feed) if together is None else self._step_together(together)
            if watches_silence:
                self._feeds.mark_active()
            for run in by_the_wall:
                if run in self._running:
                    yield from self._given(run, run.execution.tick())
            if self._side is not None:
                self._side.write()
            self._report_now_and_then()
            yield from self._told()

    def _paused(self) -> Iterator[Given]:
        """Nothing is there to read."""
        for run in list(self._running):
            yield from self._given(run, run.execution.settle())
            run.report()
        self._feeds.wait(self._patience_s())

    def _step(self, feed: Feed[Pulled]) -> Iterator[Given]:
        """Give a piece of a stream to all that look at it."""
        began_s = perf_counter()
        readers = list(feed.readers)
        try:
            batch = feed.take(_read_rows(readers))
            rows = None if batch is None else feed.clock.timed(batch)
        except Exception as error:
            self._fail_all(readers, error)
            return
        read_s = perf_counter() - began_s
        for run in readers:
            began_s = perf_counter()
            yield from self._given(run, run.step(feed.name, rows))
            if self._feeds.passed_over:
                yield from self._given(run, run.execution.settle())
            run.steps += 1
            run.busy_s += read_s + perf_counter() - began_s
            if rows is None and not run.execution.clock.running:
                yield from self._finished(run)

    def _together(self) -> Together | None:
        """Of a query by itself: rows of all its streams at a time, where its operator wants them so."""
        if len(self._running) > 1 or not all(can_be_together(self._feeds.all, run.execution) for run in self._running):
            return None
        return next((Together(self._feeds.all, run.execution) for run in self._running), None)

    def _step_together(self, together: Together) -> Iterator[Given]:
        """Give rows of all streams to the query that looks at them."""
        began_s = perf_counter()
        (run,) = self._running
        try:
            blocks = together.step()
        except Exception as error:
            self.fail(run, error)
            return
        yield from self._given(run, blocks)
        run.steps += 1
        run.busy_s += perf_counter() - began_s
        if not run.execution.clock.running:
            yield from self._finished(run)

    def _given(self, run: Pulled, blocks: Iterable[Answer]) -> Iterator[Given]:
        """Blocks of a query, until it fails or somebody stops it."""
        if run.failure is not None:
            return
        try:
            for block in blocks:
                if block.num_rows:
                    yield run, as_batch(block)
                if run.failure is not None or (self._stopping and perf_counter() > self._stop_by_s):
                    return
        except Exception as error:
            self.fail(run, error)

    def _finished(self, run: Pulled) -> Iterator[Given]:
        """All that a query looks at has ended, or nothing more is read."""
        yield from self._given(run, run.execution.settle())
        if run.failure is None:
            self._attempt(run, run.end)
        if run.failure is None:
            self._leave(run)

    def _told(self) -> Iterator[Given]:
        while self._ended:
            yield self._ended.pop(0), None

    def _leave(self, run: Pulled) -> None:
        if run in self._running:
            self._running.remove(run)
            self._ended.append(run)
            self._feeds.leave(run)

    def _report_now_and_then(self) -> None:
        is_shown = len(self.runs) == 1 and self.runs[0].on_progress is not None
        now_s = perf_counter()
        if is_shown or now_s > self._reported_s + REPORT_S * len(self._running):
            self._reported_s = now_s
            for run in self._running:
                run.report()

    def _attempt(self, run: Pulled, what: Callable[[], None]) -> None:
        try:
            what()
        except Exception as error:
            self.fail(run, error)

    def _fail_all(self, readers: Sequence[Pulled], error: Exception) -> None:
        """What is wrong with a stream is so for all that look at it."""
        for run in list(readers):
            self.fail(run, error)

    def _close_side(self) -> None:
        """What went beside answers is kept where one of those that it is of has ended well."""
        if self._side is not None:
            well = [run for run in self.runs if run.failure is None]
            streams = [one for run in well for one in run.streams.values()]
            self._side.close({sink.name for one in streams for sink in (one.bad_to, one.late_to) if sink is not None})

    def _patience_s(self) -> float | None:
        """How long to wait for rows: until time has to go on without them, or progress is to be shown."""
        waits = [run.execution.due_in_s() for run in self._running]
        waits += [SHOWN_EVERY_S for run in self._running if run.on_progress is not None]
        return min((seconds for seconds in waits if seconds is not None), default=None)

    # ---- what is read -----------------------------------------------------------------------------------------------

    def _opened(self) -> Feeds[Pulled]:
        # All are opened before the first is read, so that no thread is left behind if one cannot be.
        opened: list[tuple[Stream, list[Pulled], Iterator[pa.RecordBatch]]] = []
        lines = _lines(self._running)
        for stream, readers in lines:
            try:
                opened.append((stream, readers, _batches(stream, readers)))
            except Exception as error:
                self._fail_all(readers, error)
        events: Events = SimpleQueue()
        feeds = []
        for stream, readers, batches in opened:
            readers[:] = [run for run in readers if run.failure is None]  # another of its streams may be none
            if readers:
                inlet = Flowing(stream.name, batches, events) if _flows(stream, len(lines)) else AtHand(batches)
                feeds.append(Feed(stream.name, readers, inlet))
        return Feeds(feeds, events, self._wall)


def _lines(runs: Sequence[Pulled]) -> list[tuple[Stream, list[Pulled]]]:
    """What is read, and for whom."""
    lines: list[tuple[Stream, list[Pulled]]] = []
    for run in runs:
        for stream in run.streams.values():
            for other, readers in lines:
                if is_same_stream(stream, other) and _judged(run, stream) == _judged(readers[0], other):
                    readers.append(run)
                    break
            else:
                lines.append((stream, [run]))
    return lines


def _judged(run: Pulled, stream: Stream) -> frozenset[str] | None:
    """The columns that decide which records of a stream are bad, where some are left out and not all columns are read:
    what another query looks at must not decide about this one."""
    looked_at = _looked_at([run], stream)
    if looked_at is None or not stream.arrival.keeps_going:
        return None
    return frozenset(one.name for one in stream.schema if holds_text(one.type) and one.name in looked_at)


def _batches(stream: Stream, readers: list[Pulled]) -> Iterator[pa.RecordBatch]:
    """The rows of a stream; whoever looks at it hears of what is none."""

    def bad(records: pa.RecordBatch) -> None:
        if not stream.arrival.keeps_going:
            raise refusal(stream, records)
        for run in list(readers):
            run.execution.leave_out(stream.name, records)

    def skip(rows: int) -> None:
        for run in list(readers):
            run.clocks[stream.name].skip(rows)

    def hand_over(rows: int) -> None:
        for run in list(readers):
            run.clocks[stream.name].hand_over(rows)

    most_rows = max(run.batch_rows * run.operator.parts for run in readers)  # each part takes its own
    return batches_of(_as_read(stream, readers), most_rows, skip, bad, hand_over)


def _looked_at(readers: Sequence[Pulled], stream: Stream) -> frozenset[str] | None:
    """The columns that are read of tables and of files that can leave columns out: what any query looks at. None: all
    of them."""
    if not isinstance(stream.source, FileSource | TableSource):
        return None
    if stream.bad_to is not None or stream.late_to is not None:  # rows go to a sink whole
        return None
    found = frozenset({stream.time})
    for run in readers:
        columns = run.columns_of(stream.name)
        if columns is None:
            return None
        found |= columns
    source = stream.source.only(found)
    return None if source is stream.source or source.columns is None else source.columns | {stream.time}


def _as_read(stream: Stream, readers: Sequence[Pulled]) -> Stream:
    looked_at = _looked_at(readers, stream)
    if looked_at is None:
        return stream
    schema = pa.schema([one for one in stream.schema if one.name in looked_at])
    # What is known of the rows has guided the plan; it may be of columns that are not here.
    return replace(stream, source=stream.source.only(looked_at), schema=schema, statistics=Statistics())


def _flows(stream: Stream, lines: int) -> bool:
    """Whether a thread waits for the rows of a stream: only where another may be read instead of it, or time go on
    without it."""
    waits = lines == 1 and stream.arrival.idle_us is None and not stream.by_arrival
    return not stream.source.at_hand and not waits


def _read_rows(readers: Sequence[Pulled]) -> int | None:
    """Of how many rows pieces are: what suits the most demanding."""
    if len(readers) == 1:
        return readers[0].operator.read_rows
    return min((rows for run in readers if (rows := run.operator.read_rows) is not None), default=None)
