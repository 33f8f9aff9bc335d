"""The streams of a run side by side: whose rows are taken next."""

from __future__ import annotations

from collections.abc import Sequence
from queue import Empty
from time import monotonic

import pyarrow as pa

from watersmeet.hosts.local.inlets import Events, Inlet
from watersmeet.runtime.clock import StreamClock
from watersmeet.runtime.wall_clock import WallClock

# An input that has had nothing for so long is silent, and others that are ahead of it are read meanwhile. Those that
# read as fast as they can are mostly ready sooner, and stay side by side.
PATIENCE_S = 0.05


class Feed:
    """One stream being read."""

    def __init__(self, clock: StreamClock, inlet: Inlet) -> None:
        self.clock, self.inlet = clock, inlet
        self._rest: pa.RecordBatch | None = None

    @property
    def name(self) -> str:
        return self.clock.stream.name

    @property
    def is_ready(self) -> bool:
        return self._rest is not None or self.inlet.is_ready

    def take(self, most_rows: int | None) -> pa.RecordBatch | None:
        """The next batch, or so many rows of it; None at the end."""
        batch = self.inlet.take() if self._rest is None else self._rest
        if batch is None or most_rows is None or batch.num_rows <= most_rows:
            self._rest = None
            return batch
        self._rest = batch.slice(most_rows)
        return batch.slice(0, most_rows)


def _is_too_far(feed: Feed, behind: Sequence[Feed]) -> bool:
    """Whether a stream is further ahead than it says it may be: of the one that is furthest behind and counts."""
    drift_us = feed.clock.stream.arrival.max_drift_us
    if drift_us is None:
        return False
    others = (one.clock.newest_us for one in behind if one is not feed and (one.clock.counts or one.is_ready))
    return any(feed.clock.newest_us > other_us + drift_us for other_us in others)


class Feeds:
    """Of the streams that have rows ready the one furthest behind in event time comes next; none is waited for."""

    def __init__(self, feeds: Sequence[Feed], events: Events, wall: WallClock) -> None:
        self.all = list(feeds)
        self._events = events
        self._wall = wall
        # Whether the stream furthest behind had nothing, and another was given instead.
        self.passed_over = False

    @property
    def running(self) -> list[Feed]:
        return [feed for feed in self.all if not feed.clock.ended]

    def next(self) -> Feed | None:
        """The stream to read, or None if none has anything."""
        behind = sorted(self.running, key=lambda feed: feed.clock.newest_us)
        while True:
            for feed in behind:
                if feed.is_ready and not _is_too_far(feed, behind):
                    self.passed_over = feed is not behind[0]
                    return feed
                patience_s = feed.inlet.empty_since_s + PATIENCE_S - monotonic()
                if patience_s > 0 and any(other.is_ready for other in behind):
                    self._wait_a_moment(patience_s)
                    break
            else:
                return None

    def mark_active(self) -> None:
        """Rows that wait to be read are no silence, however long whoever takes the results took."""
        now_us = self._wall.now_us()
        for feed in self.running:
            if feed.is_ready:
                feed.clock.mark_active(now_us)

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
