"""The streams that are read for queries: at once if they are at hand, through a thread if they come when they come. So
nobody waits for one that is silent while another has rows."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from queue import Empty, SimpleQueue
from threading import Semaphore
from time import monotonic
from typing import Generic, Protocol, TypeVar

import pyarrow as pa

from watersmeet.hosts.local.turns import in_turn, read_ahead, worth_waiting_until_s
from watersmeet.runtime.clock import StreamClock
from watersmeet.runtime.wall_clock import WallClock

READ_AHEAD = 2  # so many batches wait at most to be taken

Events = SimpleQueue[None]


class AtHand:
    """Reads where it is asked to."""

    is_ready = True
    empty_since_s = 0.0

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches

    def take(self) -> pa.RecordBatch | None:
        """The next batch, or None at the end."""
        return next(self._batches, None)

    def close(self) -> None:
        """Nothing more will be taken."""
        _close(self._batches)


class Flowing:
    """Reads in a thread of its own, which puts something into `events` whenever there is something to take."""

    def __init__(self, name: str, batches: Iterator[pa.RecordBatch], events: Events) -> None:
        self._batches = batches
        self._events = events
        self._read: deque[pa.RecordBatch | BaseException | None] = deque()
        self._room = Semaphore(READ_AHEAD)
        self._closed = False
        self.empty_since_s = monotonic()
        read_ahead(name, self._read_next, self._give, lambda: _close(batches))

    @property
    def is_ready(self) -> bool:
        return bool(self._read)

    def take(self) -> pa.RecordBatch | None:
        """The next batch, or None at the end; raises what the input raised."""
        item = self._read.popleft()
        self._room.release()
        if not self._read:
            self.empty_since_s = monotonic()
        if isinstance(item, BaseException):
            raise item
        return item

    def close(self) -> None:
        self._closed = True
        # Wakes a thread that waits for room, so that it sees this and ends.
        self._room.release()

    def _read_next(self) -> bool:
        """Until the end, or until nothing is wanted any more."""
        self._room.acquire()
        if self._closed:
            return False
        batch = next(self._batches, None)
        self._give(batch)
        return batch is not None

    def _give(self, item: pa.RecordBatch | BaseException | None) -> None:
        # Before the event: whoever that wakes must find it.
        self._read.append(item)
        if self._events.empty():  # one is enough to wake whoever waits
            self._events.put(None)


def _close(batches: Iterator[pa.RecordBatch]) -> None:
    close = getattr(batches, "close", None)
    if close is not None:
        close()


class Reader(Protocol):
    """A query that looks at streams: for each it has a clock, by its name."""

    @property
    def clocks(self) -> Mapping[str, StreamClock]: ...


R = TypeVar("R", bound=Reader)


class Feed(Generic[R]):
    """One stream being read, for all queries that look at it. They have seen the same rows of it, so that the clock of
    any of them tells how far it is."""

    def __init__(self, name: str, readers: list[R], inlet: AtHand | Flowing) -> None:
        self.name, self.readers, self.inlet = name, readers, inlet
        self.clock = readers[0].clocks[name]
        self._rest: pa.RecordBatch | None = None

    @property
    def is_ready(self) -> bool:
        return self._rest is not None or self.inlet.is_ready

    @property
    def has_more(self) -> bool:
        return not self.clock.ended

    @property
    def empty_since_s(self) -> float:
        return self.inlet.empty_since_s

    def take(self, most_rows: int | None) -> pa.RecordBatch | None:
        """The next batch, or so many rows of it; None at the end."""
        batch = self.inlet.take() if self._rest is None else self._rest
        if batch is None or most_rows is None or batch.num_rows <= most_rows:
            self._rest = None
            return batch
        self._rest = batch.slice(most_rows)
        return batch.slice(0, most_rows)


class Feeds(Generic[R]):
    """Of the streams that have rows ready the one furthest behind in event time comes next; none is waited for."""

    def __init__(self, feeds: Sequence[Feed[R]], events: Events, wall: WallClock) -> None:
        self.all = list(feeds)
        self._events = events
        self._wall = wall
        # Whether the stream furthest behind had nothing, and another was given instead.
        self.passed_over = False

    @property
    def running(self) -> list[Feed[R]]:
        return [feed for feed in self.all if not feed.clock.ended]

    def next(self) -> Feed[R] | None:
        """The stream to read, or None if none has anything."""
        running = self.running
        while (patience_s := worth_waiting_until_s(running) - monotonic()) > 0:
            self._wait_a_moment(patience_s)
        for first in in_turn(running):
            self.passed_over = any(one.clock.newest_us < first.clock.newest_us for one in running)
            return first
        return None

    def is_ready(self, stream: str) -> bool:
        return any(feed.is_ready for feed in self.all if feed.name == stream)

    def mark_active(self) -> None:
        """Rows that wait to be read are no silence, however long whoever takes the results took."""
        now_us = self._wall.now_us()
        for feed in self.running:
            if feed.is_ready:
                for reader in feed.readers:
                    reader.clocks[feed.name].mark_active(now_us)

    def leave(self, reader: R) -> None:
        """A query looks at nothing any more; what nobody else looks at is not read on."""
        for feed in [one for one in self.all if reader in one.readers]:
            feed.readers.remove(reader)
            if feed.readers:
                feed.clock = feed.readers[0].clocks[feed.name]
            else:
                feed.inlet.close()
                self.all.remove(feed)

    def _wait_a_moment(self, seconds: float) -> None:
        try:
            self._events.get(timeout=seconds)
        except Empty:
            return

    def wait(self, seconds: float | None) -> None:
        """Until something is ready or wakes this, or for so long."""
        self._wall.wait(self._events, seconds)

    def wake(self) -> None:
        self._events.put(None)

    def close(self) -> None:
        for feed in self.all:
            feed.inlet.close()
