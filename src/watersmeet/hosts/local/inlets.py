"""Where a run takes its batches from: at once if they are at hand, through a thread if they come when they come.

A thread reads a little ahead and waits while what it has read is not taken. So a run never waits for an input that is
silent while another has rows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from queue import SimpleQueue
from threading import Semaphore, Thread
from time import monotonic
from typing import Protocol

import pyarrow as pa

READ_AHEAD = 2  # so many batches wait at most to be taken

Events = SimpleQueue[None]


class Inlet(Protocol):
    """Gives the batches of one input. `empty_since_s` is when it last had nothing to give, by the system's clock."""

    empty_since_s: float

    @property
    def is_ready(self) -> bool: ...

    def take(self) -> pa.RecordBatch | None:
        """The next batch, or None at the end; raises what the input raised."""
        ...

    def close(self) -> None:
        """Nothing more will be taken."""
        ...


class AtHand:
    """Reads where it is asked to."""

    is_ready = True
    empty_since_s = 0.0

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches

    def take(self) -> pa.RecordBatch | None:
        return next(self._batches, None)

    def close(self) -> None:
        close = getattr(self._batches, "close", None)
        if close is not None:
            close()


class Flowing:
    """Reads in a thread of its own, which puts something into `events` whenever there is something to take."""

    def __init__(self, name: str, batches: Iterator[pa.RecordBatch], events: Events) -> None:
        self._batches = batches
        self._events = events
        self._read: deque[pa.RecordBatch | BaseException | None] = deque()
        self._room = Semaphore(READ_AHEAD)
        self._closed = False
        self.empty_since_s = monotonic()
        # A thread that waits for an input that never says anything must not keep the process alive.
        self._thread = Thread(target=self._run, name=f"watersmeet reads {name}", daemon=True)
        self._thread.start()

    @property
    def is_ready(self) -> bool:
        return bool(self._read)

    def take(self) -> pa.RecordBatch | None:
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

    def _run(self) -> None:
        """Read until the end, or until nothing is wanted any more."""
        try:
            while self._wanted():
                batch = next(self._batches, None)
                self._give(batch)
                if batch is None:
                    return
        except BaseException as error:  # it is raised where the rows are taken
            self._give(error)
        finally:
            close = getattr(self._batches, "close", None)
            if close is not None:
                close()

    def _wanted(self) -> bool:
        self._room.acquire()
        return not self._closed

    def _give(self, item: pa.RecordBatch | BaseException | None) -> None:
        # Before the event: whoever that wakes must find it.
        self._read.append(item)
        if self._events.empty():  # one is enough to wake whoever waits
            self._events.put(None)
