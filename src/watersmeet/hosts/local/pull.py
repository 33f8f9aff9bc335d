"""Reads the sources of queries and feeds them: each stream once, whoever looks at it.

A query by itself is the case of one. What several share is what is read: rows are decoded, judged and given their event
times once. Whether they are late, what they bring about and what is told of it is each query's own, so that each answer
is what it would be alone. One that fails stops alone.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import partial
from math import inf
from queue import SimpleQueue
from time import perf_counter
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from watersmeet.hosts.local.feeds import AtHand, Events, Feed, Feeds, Flowing
from watersmeet.hosts.local.given_piece import GivenPiece
from watersmeet.hosts.local.lines import Looking, batches_for, flows, lines_of, read_rows
from watersmeet.hosts.local.side_files import SideFiles, SideSinks
from watersmeet.hosts.local.static_tables import load_tables_of
from watersmeet.hosts.local.together import MOST_ROWS, Together, can_be_together
from watersmeet.model.catalog import Stream
from watersmeet.operators.answers import Answer, as_batch
from watersmeet.operators.contract import Rows
from watersmeet.optimizer.asked_rows import AskedRows
from watersmeet.plan.query import Plan
from watersmeet.plan.shared_memory import shares_memory
from watersmeet.runtime.build import Built
from watersmeet.runtime.metrics import Metrics
from watersmeet.runtime.predicate_index import PredicateIndex, RowsByValue, index_over
from watersmeet.runtime.side_output import SideOutput
from watersmeet.runtime.wall_clock import SystemClock, WallClock

if TYPE_CHECKING:
    from watersmeet.runtime.memory_pool import MemoryPool

# Without anyone to show them to, metrics are brought up to date only so often: pieces may be small.
REPORT_S = 0.02
SHOWN_EVERY_S = 1.0  # while nothing comes
FINISHING_S = 1.0  # that a batch in hand may take when a stop was asked for


class Pulled(Looking, Protocol):
    """A query that is fed by what is read (`PulledExecution`)."""

    pull: Pull
    plan: Plan
    built: Built
    wall: WallClock
    notice: Callable[[str], None]
    writes_beside: bool
    beside: SideSinks | None
    on_progress: Callable[[Metrics], None] | None
    failure: Exception | None
    steps: int
    busy_s: float

    def announce(self, stream: Stream) -> None: ...

    def begin(self, side: SideOutput) -> None: ...

    def begun(self) -> None: ...

    def asks_of(self, stream: str) -> Sequence[AskedRows]: ...

    def step(self, stream: str, rows: Rows | None, concerned: Rows | None = None) -> Iterable[Answer]: ...

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
        # Of streams that many look at: which of them a row concerns.
        self._indexes: dict[Feed[Pulled], PredicateIndex[int]] = {}
        self._pool: MemoryPool[Pulled] | None = None  # of those that share the memory of their script
        self._kept_once: dict[Feed[Pulled], frozenset[int]] = {}  # the queries that keep rows of a stream together
        self._side: SideFiles | None = None
        self._stopping = False
        self._stop_by_s = inf
        # Of many queries the first numbers are not worth what they cost.
        self._reported_s = 0.0 if len(self.runs) == 1 else perf_counter()

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
        self._load_tables()
        for run in list(self._running):
            self._attempt(run, run.begun)
        self._feeds = self._opened()
        for feed in self._feeds.all:
            feed.readers[0].announce(feed.clock.stream)
            index = index_over({id(run): run.asks_of(feed.name) for run in feed.readers})
            if index is not None and len(feed.readers) > 1:
                self._indexes[feed] = index
        if len(self._running) > 1:
            from watersmeet.runtime.shared_windows import Line, share_windows

            lines = [
                Line(feed.clock.stream, list(map(id, feed.readers)), list(map(id, self._given_all(feed))))
                for feed in self._feeds.all
            ]
            kept = share_windows(lines, {id(run): run for run in self._running}, self.runs[0].notice)
            self._kept_once = dict(zip(self._feeds.all, kept, strict=True))
        if any(shares_memory(run.plan) for run in self._running):
            from watersmeet.runtime.memory_pool import pool_of

            self._pool = pool_of(self._running, self.fail)
        self._side = SideFiles(side, self.runs[0].beside) if writes else None

    def _load_tables(self) -> None:
        runs = {id(run.execution): run for run in self._running}
        load_tables_of([run.execution for run in self._running], lambda one, error: self.fail(runs[id(one)], error))

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
            batch = feed.take(read_rows(self._given_all(feed)))
            rows = None if batch is None else feed.clock.timed(batch)
            by_value = self._by_value(feed, rows)
        except Exception as error:
            self._fail_all(readers, error)
            return
        read_s = perf_counter() - began_s
        given = GivenPiece(feed.clock.stream, rows, by_value, self._whole_for(feed))
        for run in readers:
            began_s = perf_counter()
            yield from self._given(run, given.step_of(run))
            if self._feeds.passed_over:
                yield from self._given(run, run.execution.settle())
            run.steps += 1
            run.busy_s += read_s + perf_counter() - began_s
            if rows is None and not run.execution.clock.running:
                yield from self._finished(run)
        if self._pool is not None:
            self._pool.came(given.count)

    def _by_value(self, feed: Feed[Pulled], rows: Rows | None) -> RowsByValue[int] | None:
        """Which rows concern whom, if that is looked up."""
        index = self._indexes.get(feed)
        return None if index is None or rows is None else index.look(rows)

    def _whole_for(self, feed: Feed[Pulled]) -> frozenset[int]:
        """The queries that are given all columns of a stream."""
        return self._kept_once.get(feed, frozenset())

    def _given_all(self, feed: Feed[Pulled]) -> list[Pulled]:
        """The queries that are given all rows of a stream, not only those that concern them."""
        index = self._indexes.get(feed)
        return [run for run in feed.readers if index is None or id(run) not in index]

    def _together(self) -> Together | None:
        """Rows of all streams at a time: for a query by itself whose operator wants them so, and for those that share
        memory, which rows that one stream has ahead of the others would fill."""
        wanted = [run.operator.together_rows for run in self._running] if len(self._running) == 1 else []
        if self._pool is not None:
            wanted = [
                run.operator.together_rows or MOST_ROWS for run in self._running if run.operator.bounded is not None
            ]
        rows = max((one for one in wanted if one is not None), default=None)
        executions = [run.execution for run in self._running]
        return Together(rows) if rows is not None and can_be_together(self._feeds.all, executions) else None

    def _step_together(self, together: Together) -> Iterator[Given]:
        """Give rows of all streams to the queries that look at them, or tell these that some have ended."""
        began_s = perf_counter()
        if self._pool is not None:  # so that it is looked in time at who has how much
            together.rows = min(together.most_rows, self._pool.rows_between_looks)
        ended = [feed for feed in self._feeds.running if not self._has_rows(together, feed)]
        taken = {} if ended or not self._feeds.running else together.taken(self._feeds.all)
        given: dict[int, list[GivenPiece]] = {id(run): [] for run in self._running}
        for feed, rows in taken.items():
            for run, one in self._looked_at(feed, rows):
                given[id(run)].append(one)
        read_s = perf_counter() - began_s
        for run in list(self._running):
            began_s = perf_counter()
            if ended:
                yield from self._given(run, run.execution.end([feed.name for feed in ended if run in feed.readers]))
            else:
                yield from self._given_together(run, given[id(run)])
            run.steps += 1
            run.busy_s += read_s + perf_counter() - began_s
            if not run.execution.clock.running:
                yield from self._finished(run)
        if self._pool is not None:
            self._pool.came(sum(map(len, taken.values())))

    def _looked_at(self, feed: Feed[Pulled], rows: Rows) -> list[tuple[Pulled, GivenPiece]]:
        """Rows of a stream, and who is given them."""
        try:
            given = GivenPiece(feed.clock.stream, rows, self._by_value(feed, rows), self._whole_for(feed))
        except Exception as error:
            self._fail_all(feed.readers, error)
        return [(run, given) for run in feed.readers]

    def _given_together(self, run: Pulled, mine: Sequence[GivenPiece]) -> Iterator[Given]:
        if mine and (run.operator.bounded is not None or run.operator.together_rows is not None):
            yield from self._given(run, run.execution.push_together({one.name: one.rows_for(run) for one in mine}))
            return
        for one in mine:
            yield from self._given(run, one.step_of(run))

    def _has_rows(self, together: Together, feed: Feed[Pulled]) -> bool:
        """What cannot be read has ended for those who look at it."""
        try:
            return together.has_rows(feed)
        except Exception as error:
            self._fail_all(feed.readers, error)
            return True

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
            if self._pool is not None:
                self._pool.leave(run)
            if len(self.runs) > 1:
                from watersmeet.operators.continuous.common import leave_parts
                from watersmeet.operators.join.shared_keeping import leave_windows

                leave_windows(run.operator)
                leave_parts(run.operator)

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
        lines = lines_of(self._running)
        for stream, readers in lines:
            try:
                opened.append((stream, readers, batches_for(stream, readers)))
            except Exception as error:
                self._fail_all(readers, error)
        events: Events = SimpleQueue()
        feeds = []
        for stream, readers, batches in opened:
            readers[:] = [run for run in readers if run.failure is None]  # another of its streams may be none
            if readers:
                inlet = Flowing(stream.name, batches, events) if flows(stream, len(lines)) else AtHand(batches)
                feeds.append(Feed(stream.name, readers, inlet))
        return Feeds(feeds, events, self._wall)
