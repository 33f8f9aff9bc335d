"""What has come and is not in a batch yet: a line for every reader, which reads in a thread of its own, and one for
what is pushed.

Readers run a little ahead and then wait. Of several that have rows, the one whose event time is furthest behind comes
next, so that streams stay side by side while they catch up.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Condition, Thread
from time import monotonic

from watersmeet.errors import RunError
from watersmeet.hosts.local.durable.batches import Step
from watersmeet.io.connectors.contract import Reader

READ_AHEAD_ROWS = 1 << 17
PIECE_ROWS = 1 << 16
FEW_ROWS = 1 << 10  # a batch with fewer takes more pieces
PATIENCE_S = 0.05  # how long a line that is being filled is waited for while others have rows


@dataclass
class Arrived:
    """A step that waits for a batch. `logged` is told when it is written down, for whoever pushed it."""

    step: Step
    rows: int
    logged: Future[int] | None = None


@dataclass
class _Line:
    """The rows of one stream that were read."""

    waiting: deque[Arrived] = field(default_factory=deque)
    rows: int = 0
    has_more: bool = True  # the reader is busy; if not, it has found nothing
    since_s: float = field(default_factory=monotonic)  # when the line became empty


class InputQueue:
    def __init__(
        self,
        readers: Mapping[str, Reader],
        *,
        piece_rows: int = PIECE_ROWS,
        most_pushed_rows: int = 1 << 20,
        drifts_us: Mapping[str, int] | None = None,
        is_idle: Callable[[str], bool] = lambda name: False,
    ) -> None:
        """piece_rows: so many are read at a time, at most, and go into one batch together. drifts_us: how far ahead of
        the stream that is furthest behind some may be. is_idle: whether nobody waits for a stream."""
        self._drifts_us = dict(drifts_us or {})
        self._is_idle = is_idle
        self._piece_rows = piece_rows
        self._readers = dict(readers)
        self._lines = {name: _Line() for name in readers}
        self._pushed: deque[Arrived] = deque()
        self._pushed_rows = 0
        self._most_pushed_rows = most_pushed_rows
        self._changed = Condition()
        self._closed: BaseException | None = None
        self._reads = True
        self._woken = False
        self._error: BaseException | None = None
        self._threads: list[Thread] = []

    def start(self) -> None:
        for name in self._readers:
            thread = Thread(target=self._read, args=(name,), name=f"watersmeet reads {name}", daemon=True)
            self._threads.append(thread)
            thread.start()

    # ---- in -----------------------------------------------------------------------------------------------------

    def push(self, arrived: Arrived, timeout_s: float | None) -> None:
        """Stand in line; waits while too many rows do."""
        until_s = None if timeout_s is None else monotonic() + timeout_s
        with self._changed:
            while self._pushed_rows and self._pushed_rows + arrived.rows > self._most_pushed_rows:
                self._check_open()
                left_s = None if until_s is None else until_s - monotonic()
                if left_s is not None and left_s <= 0:
                    raise RunError(
                        f"{self._pushed_rows:,} rows that were pushed wait to be answered, and no room was made for "
                        f"more in {timeout_s:g} s; none of these went in",
                        hint="push more slowly, or ask why answers are slow: metrics() tells what is kept",
                    )
                self._changed.wait(left_s)
            self._check_open()
            self._pushed.append(arrived)
            self._pushed_rows += arrived.rows
            self._changed.notify_all()

    def has_room(self, rows: int) -> bool:
        """Whether so many rows could stand in line without waiting."""
        with self._changed:
            self._check_open()
            return not self._pushed_rows or self._pushed_rows + rows <= self._most_pushed_rows

    def _check_open(self) -> None:
        if self._closed is not None:
            raise self._closed

    def _read(self, name: str) -> None:
        reader, line = self._readers[name], self._lines[name]
        try:
            while self._has_room(line):
                batch = reader.poll(self._piece_rows)
                with self._changed:
                    line.has_more = reader.has_more(batch)
                    if batch is not None:
                        step = Step("read", name, batch)
                        # Bad records alone are something to be taken, too.
                        rows = max(batch.rows.num_rows, 1)
                        line.waiting.append(Arrived(step, rows))
                        line.rows += rows
                    self._changed.notify_all()
                    if batch is None and self._closed is None:
                        self._wait_for(reader.pause_s)
        except BaseException as error:
            with self._changed:
                self._error = self._error or error
                self._changed.notify_all()
        finally:
            with suppress(Exception):  # all that was read is where it should be
                reader.close()

    def _has_room(self, line: _Line) -> bool:
        with self._changed:
            while line.rows >= READ_AHEAD_ROWS and self._closed is None and self._reads:
                self._changed.wait()
            return self._closed is None and self._reads

    def _wait_for(self, seconds: float) -> None:
        """Sleep, but wake up when this is closed."""
        until_s = monotonic() + seconds
        while self._closed is None and (left_s := until_s - monotonic()) > 0:
            self._changed.wait(left_s)

    # ---- out ----------------------------------------------------------------------------------------------------

    def take(
        self, most_rows: int, gather_s: float, patience_s: float | None, newest_us: Callable[[str], int]
    ) -> list[Arrived]:
        """What a batch is made of: what is there, so many rows at most. Waits for the first row, and from then on for
        so long whether more come; returns nothing when patience ends or `wake` is called."""
        until_s = None if patience_s is None else monotonic() + patience_s
        gathered_s: float | None = None
        with self._changed:
            while True:
                self._raise_error()
                ahead = self._too_far(newest_us)
                waiting = self._pushed_rows + sum(line.rows for name, line in self._lines.items() if name not in ahead)
                controls = any(arrived.rows == 0 for arrived in self._pushed)
                now_s = monotonic()
                if waiting >= most_rows or (self._woken and (waiting or controls or until_s is None)):
                    break
                if waiting or controls:
                    gathered_s = now_s + gather_s if gathered_s is None else gathered_s
                    wanted_s = max(gathered_s, self._needed_until_s(newest_us))
                    if now_s >= wanted_s:
                        break
                    self._changed.wait(wanted_s - now_s)
                    continue
                if self._woken or self._closed is not None or (until_s is not None and now_s >= until_s):
                    break
                self._changed.wait(None if until_s is None else until_s - now_s)
            self._woken = False
            taken = self._taken(most_rows, newest_us)
            if taken:
                self._changed.notify_all()
            return taken

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error

    def _needed_until_s(self, newest_us: Callable[[str], int]) -> float:
        """Until when to wait for a stream that is behind all that have rows, while its reader is busy."""
        full = [newest_us(name) for name, line in self._lines.items() if line.waiting]
        if not full:
            return 0.0
        behind = [
            line.since_s + PATIENCE_S
            for name, line in self._lines.items()
            if not line.waiting and line.has_more and newest_us(name) < min(full)
        ]
        return max(behind, default=0.0)

    def _too_far(self, newest_us: Callable[[str], int]) -> set[str]:
        """The streams that wait, as they are further ahead than they say they may be. Nobody waits for one that has
        nothing more, or has been silent for long."""
        if not self._drifts_us:
            return set()
        slowest = [
            newest_us(name)
            for name, line in self._lines.items()
            if line.waiting or (line.has_more and not self._is_idle(name))
        ]
        behind_us = min(slowest, default=0)
        return {name for name, drift_us in self._drifts_us.items() if newest_us(name) > behind_us + drift_us}

    def _taken(self, most_rows: int, newest_us: Callable[[str], int]) -> list[Arrived]:
        found: list[Arrived] = []
        rows = 0
        while self._pushed and rows < most_rows:
            arrived = self._pushed.popleft()
            self._pushed_rows -= arrived.rows
            rows += arrived.rows
            found.append(arrived)
        # One piece of each batch from the stream that is furthest behind: how far it is then is known after the batch.
        # Where pieces are small, as they are while rows just come, a batch takes several, of all streams in turn.
        while rows < most_rows and (not found or rows < FEW_ROWS):
            ahead = self._too_far(newest_us)
            ready = [name for name, line in self._lines.items() if line.waiting and name not in ahead]
            if not ready:
                break
            for name in sorted(ready, key=newest_us):
                found.append(self._next_of(self._lines[name]))
                rows += found[-1].rows
                if rows >= min(most_rows, FEW_ROWS):
                    break
        return found

    def _next_of(self, line: _Line) -> Arrived:
        arrived = line.waiting.popleft()
        line.rows -= arrived.rows
        if not line.waiting:
            line.since_s = monotonic()
        return arrived

    @property
    def is_exhausted(self) -> bool:
        """Whether all readers have found nothing more, and nothing waits."""
        with self._changed:
            self._raise_error()
            idle = all(not line.has_more and not line.waiting for line in self._lines.values())
            return idle and not self._pushed

    def wake(self) -> None:
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    def stop_reading(self) -> None:
        """Only what is pushed comes from here on; what was read and is in no batch can be read again."""
        with self._changed:
            self._reads = False
            self._lines.clear()
            self._error = None
            self._changed.notify_all()

    def close(self, reason: BaseException) -> list[Arrived]:
        """Nothing more comes in; what was pushed and is in no batch comes back, as it was never logged."""
        with self._changed:
            self._closed = self._closed or reason
            self._changed.notify_all()
            left, self._pushed = list(self._pushed), deque()
            self._pushed_rows = 0
        for thread in self._threads:
            thread.join(timeout=5)
        return left
