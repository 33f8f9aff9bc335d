"""What has come and is not in a batch yet: a line for every reader, which runs a little ahead and then waits, and one
for what is pushed."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import field
from functools import partial
from threading import Thread
from time import monotonic

from watersmeet.dataclass import dataclass
from watersmeet.errors import RunError
from watersmeet.hosts.local.durable.batches import Arrived, Step
from watersmeet.hosts.local.news import News
from watersmeet.hosts.local.turns import in_turn, read_ahead, worth_waiting_until_s
from watersmeet.io.connectors.contract import Reader
from watersmeet.model.time import BEGINNING_US
from watersmeet.runtime.clock import StreamClock

READ_AHEAD_ROWS = 1 << 17
PIECE_ROWS = 1 << 16
FEW_ROWS = 1 << 10  # a batch with fewer takes more pieces


@dataclass
class _Line:
    """The rows of one stream that were read."""

    clock: StreamClock
    waiting: deque[Arrived] = field(default_factory=deque)
    rows: int = 0
    has_more: bool = True  # the reader is busy; if not, it has found nothing
    empty_since_s: float = field(default_factory=monotonic)
    taken: int = 0  # rows, since it was looked how far the clock is
    newest_us: int = BEGINNING_US
    pace_us: float | None = None  # for each row, by what came between two looks

    def look(self) -> None:
        """All that was taken is answered."""
        newest_us = self.clock.newest_us
        if self.taken and self.newest_us > BEGINNING_US:
            self.pace_us = max(newest_us - self.newest_us, 0) / self.taken
        self.newest_us, self.taken = newest_us, 0

    @property
    def expected_us(self) -> float:
        """How far it is with what was taken since."""
        return self.newest_us + self.taken * (self.pace_us or 0.0)

    @property
    def is_ready(self) -> bool:
        return bool(self.waiting)

    def add(self, arrived: Arrived) -> None:
        self.waiting.append(arrived)
        self.rows += arrived.rows

    def take(self) -> Arrived:
        arrived = self.waiting.popleft()
        self.rows -= arrived.rows
        self.taken += arrived.rows
        if not self.waiting:
            self.empty_since_s = monotonic()
        return arrived


class InputQueue:
    def __init__(
        self,
        readers: Mapping[str, Reader],
        clocks: Mapping[str, StreamClock],
        *,
        piece_rows: int = PIECE_ROWS,
        most_pushed_rows: int = 1 << 20,
        in_step: bool = False,
    ) -> None:
        """piece_rows: so many are read at a time, at most, and go into one batch together. in_step: no stream gets
        ahead of others that have more by many pieces."""
        self._piece_rows, self._in_step = piece_rows, in_step
        self._readers = dict(readers)
        self._lines = {name: _Line(clocks[name]) for name in readers}
        self._pushed: deque[Arrived] = deque()
        self._pushed_rows = 0
        self._most_pushed_rows = most_pushed_rows
        self._changed = News()
        self._closed: BaseException | None = None
        self._reads = True
        self._woken = False
        self._error: BaseException | None = None
        self._in_hand: frozenset[str] = frozenset()  # the streams of what was taken last, until more is asked for
        self._threads: list[Thread] = []

    def start(self) -> None:
        for name, reader in self._readers.items():
            read = partial(self._read, name, reader, self._lines[name])
            self._threads.append(read_ahead(name, read, self._fail, partial(_close, reader)))

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
            self._changed.tell()

    def has_room(self, rows: int) -> bool:
        """Whether so many rows could stand in line without waiting."""
        with self._changed:
            self._check_open()
            return not self._pushed_rows or self._pushed_rows + rows <= self._most_pushed_rows

    def _check_open(self) -> None:
        if self._closed is not None:
            raise self._closed

    def _read(self, name: str, reader: Reader, line: _Line) -> bool:
        if not self._has_room(line):
            return False
        batch = reader.poll(self._piece_rows)
        with self._changed:
            line.has_more = reader.has_more(batch)
            if batch is not None:
                # Bad records alone are something to be taken, too.
                line.add(Arrived(Step("read", name, batch), max(batch.rows.num_rows, 1)))
            self._changed.tell()
            if batch is None and self._closed is None:
                self._wait_for(reader.pause_s)
        return True

    def _fail(self, error: BaseException) -> None:
        with self._changed:
            self._error = self._error or error
            self._changed.tell()

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

    def take(self, most_rows: int, gather_s: float, patience_s: float | None) -> list[Arrived]:
        """What a batch is made of: what is there, so many rows at most. Waits for the first row, and from then on for
        so long whether more come; returns nothing when patience ends or `wake` is called."""
        until_s = None if patience_s is None else monotonic() + patience_s
        gathered_s: float | None = None
        with self._changed:
            self._in_hand = frozenset()
            most_rows = min(most_rows, FEW_ROWS) if self._in_step else most_rows
            while True:
                self._raise_error()
                waiting = self._pushed_rows
                if self._lines:
                    waiting += sum(line.rows for line in in_turn(self._lines.values()))
                controls = any(arrived.rows == 0 for arrived in self._pushed)
                now_s = monotonic()
                if waiting >= most_rows or (self._woken and (waiting or controls or until_s is None)):
                    break
                if waiting or controls:
                    gathered_s = now_s + gather_s if gathered_s is None else gathered_s
                    wanted_s = gathered_s
                    if self._lines:
                        wanted_s = max(wanted_s, worth_waiting_until_s(self._lines.values()))
                    if now_s >= wanted_s:
                        break
                    self._changed.wait(wanted_s - now_s)
                    continue
                if self._woken or self._closed is not None or (until_s is not None and now_s >= until_s):
                    break
                self._changed.wait(None if until_s is None else until_s - now_s)
            self._woken = False
            taken = self._taken(most_rows)
            self._in_hand = frozenset(one.step.stream for one in taken)
            if taken:
                self._changed.tell()
            return taken

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error

    def _taken(self, most_rows: int) -> list[Arrived]:
        found: list[Arrived] = []
        rows = 0
        while self._pushed and rows < most_rows:
            arrived = self._pushed.popleft()
            self._pushed_rows -= arrived.rows
            rows += arrived.rows
            found.append(arrived)
        # One piece of each batch from the stream that is furthest behind: how far it is then is known after the batch.
        # Where pieces are small, as they are while rows just come, a batch takes several, of all streams in turn.
        if self._in_step:
            return found + self._taken_in_step(min(most_rows, FEW_ROWS) - rows)
        while self._lines and rows < most_rows and (not found or rows < FEW_ROWS):
            ready = in_turn(self._lines.values())
            if not ready:
                break
            for line in ready:
                found.append(line.take())
                rows += found[-1].rows
                if rows >= min(most_rows, FEW_ROWS):
                    break
        return found

    def _taken_in_step(self, most_rows: int) -> list[Arrived]:
        """Pieces, each of the stream that is furthest behind, as far as its pace of late tells where it is by then."""
        found: list[Arrived] = []
        rows = 0
        for line in self._lines.values():
            line.look()
        while rows < most_rows:
            going = [line for line in self._lines.values() if line.is_ready or line.has_more]
            ready = [line for line in going if line.is_ready]
            if not ready:
                break
            behind = min(ready if not found else going, key=lambda line: line.expected_us)
            if not behind.is_ready or (behind.taken and behind.pace_us is None):
                break
            found.append(behind.take())
            rows += found[-1].rows
        return found

    def is_at_hand(self, stream: str) -> bool:
        """Whether rows of a stream are in line, or in the batch that is answered."""
        with self._changed:
            line = self._lines.get(stream)
            in_line = (line is not None and line.is_ready) or any(one.step.stream == stream for one in self._pushed)
            return in_line or stream in self._in_hand

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
            self._changed.tell()

    def stop_reading(self) -> None:
        """Only what is pushed comes from here on; what was read and is in no batch can be read again."""
        with self._changed:
            self._reads = False
            self._lines.clear()
            self._error = None
            self._changed.tell()

    def close(self, reason: BaseException) -> list[Arrived]:
        """Nothing more comes in; what was pushed and is in no batch comes back, as it was never logged."""
        with self._changed:
            self._closed = self._closed or reason
            self._changed.tell()
            left, self._pushed = list(self._pushed), deque()
            self._pushed_rows = 0
        for thread in self._threads:
            thread.join(timeout=5)
        if not self._threads:  # who never read lets go of what it has opened to begin
            for reader in self._readers.values():
                _close(reader)
        return left


def _close(reader: Reader) -> None:
    with suppress(Exception):  # all that was read is where it should be
        reader.close()
