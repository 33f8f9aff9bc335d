"""One reading of a source for several queries that go on, each of which keeps for itself how far it is.

Queries that are at the same place stand in one line: whoever has taken all that its reader has given asks it for more,
and the others are given the same. Batches wait until all have taken them. A query begins where it was before, alone,
and joins a line as soon as one is where it is; one that falls far behind reads by itself until it has caught up.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Condition
from typing import Any

from watersmeet.io.connectors.contract import Position, Range, Reader, SourceBatch

# A query is left behind by others if batches wait for it that have more bytes than this, and are more than so many.
MOST_BYTES = 64 << 20
FEWEST_BATCHES = 8
_WAIT_S = 1.0


@dataclass(eq=False)
class _Line:
    """What one reader reads, from the first batch on that somebody has not taken."""

    reader: Reader
    begins: Position | None  # where it stood before its first batch
    batches: deque[SourceBatch] = field(default_factory=deque)
    first: int = 0  # the number of the first of them
    nbytes: int = 0
    readers: list[SharedReader] = field(default_factory=list)
    is_busy: bool = False  # somebody asks its reader
    asked: int = 0  # how often that was done
    error: BaseException | None = None

    @property
    def end(self) -> int:
        return self.first + len(self.batches)

    def add(self, batch: SourceBatch) -> None:
        self.batches.append(batch)
        self.nbytes += batch.rows.nbytes

    def drop_taken(self) -> None:
        """What all have taken nobody asks for any more."""
        needed = min((one.next for one in self.readers), default=self.end)
        while self.first < needed:
            self.nbytes -= self.batches.popleft().rows.nbytes
            self.first += 1


class SharedSource:
    """A source that several queries read. `make` opens a reader of it."""

    def __init__(self, make: Callable[[], Reader]) -> None:
        self._make = make
        self.changed = Condition()
        self.lines: list[_Line] = []
        self._made: list[Reader] = []  # all that are to be closed when nobody reads any more
        self._open = self._to_begin = 0  # readers that were given out, and those of them that have not begun to read
        self._begins: list[Position | None] = []  # where those begin that have read nothing, once somebody has asked

    def reader(self) -> Reader:
        """One more query reads it: a reader of its own, if readers of this kind cannot tell how far others are."""
        own = self._make()
        if not own.may_be_shared:
            return own
        self._made.append(own)
        self._open += 1
        self._to_begin += 1
        return SharedReader(self, own)

    def made(self) -> Reader:
        reader = self._make()
        self._made.append(reader)
        return reader

    def first_position(self, reader: Reader) -> Position | None:
        """The same for all: what is the latest row now is none a moment later."""
        with self.changed:
            if not self._begins:
                self._begins.append(reader.first_position())
            elif self._begins[0] is not None:
                reader.resume(self._begins[0])
            return self._begins[0]

    def enter(self, reader: SharedReader, own: Reader, place: Position | None) -> None:
        """Stand in the line that is at this place, or was there with what it still has; or in a new one."""
        self._to_begin -= 1
        where = _text(own.where(place))
        for line in self.lines:
            number = self._number_at(line, where)
            if number is not None:
                own.be_shared()
                break
        else:
            line, number = self._new_line(own, place), 0
        reader.line, reader.next = line, number
        line.readers.append(reader)

    def _number_at(self, line: _Line, where: str) -> int | None:
        """The number of the batch before which a line was at a place. Known is where it began, and that of those who
        stand at its end."""
        if line.error is not None:
            return None
        if line.first == 0:
            place, ranges = line.begins, [batch.range for batch in line.batches]
            for number in range(len(ranges) + 1):
                place = line.reader.place_after(place, ranges[number - 1 : number]) if number else place
                if _text(line.reader.where(place)) == where:
                    return number
            return None
        at_end = next((one for one in line.readers if one.next == line.end), None)
        return line.end if at_end is not None and _text(line.reader.where(at_end.place)) == where else None

    def _new_line(self, reader: Reader, place: Position | None) -> _Line:
        reader.be_shared()
        line = _Line(reader, place)
        reader.tell = lambda what: _tell_all(line, what)
        self.lines.append(line)
        return line

    def add(self, line: _Line, batch: SourceBatch) -> None:
        line.add(batch)
        if line.nbytes > MOST_BYTES:
            for one in [one for one in line.readers if line.end - one.next > FEWEST_BATCHES]:
                line.readers.remove(one)
                one.fall_behind()
            line.drop_taken()

    def took(self, line: _Line) -> None:
        # Those who have not begun may begin where it did.
        if not self._to_begin or line.nbytes > MOST_BYTES:
            line.drop_taken()

    def meet(self, line: _Line) -> None:
        """Nothing more is there: a line that is where another one is goes on with it."""
        if len(self.lines) < 2 or any(one.next < line.end for one in line.readers):
            return
        place = line.readers[0].place
        where = _text(line.reader.where(place))
        for other in self.lines:
            at_end = any(one.next == other.end for one in other.readers)
            if other is line or other.is_busy or not at_end or self._number_at(other, where) != other.end:
                continue
            for one in line.readers:
                one.line, one.next = other, other.end
                other.readers.append(one)
            line.readers.clear()
            self._let_go(line, place)
            return

    def left_behind(self, reader: SharedReader) -> None:
        """One that was left behind goes on by itself."""
        own, place = self.made(), reader.place
        if place is not None:
            own.resume(place)
        line = self._new_line(own, place)
        reader.line, reader.next = line, 0
        line.readers.append(reader)

    def _let_go(self, line: _Line, place: Position | None) -> None:
        """Nobody stands in it: what its reader has open is not needed."""
        self.lines.remove(line)
        if place is not None:
            line.reader.resume(place)

    def leave(self, reader: SharedReader, *, has_begun: bool) -> None:
        with self.changed:
            line = reader.line
            self._open -= 1
            self._to_begin -= not has_begun
            if line is not None:
                line.readers.remove(reader)
                if line.readers:
                    self.took(line)
                elif line in self.lines:
                    self.lines.remove(line)
            closing = [] if self._open else self._made
        for one in closing:
            one.close()


class SharedReader(Reader):
    """A query's own way through a shared source."""

    may_be_shared = True

    def __init__(self, source: SharedSource, own: Reader) -> None:
        self._source, self._own = source, own
        self.line: _Line | None = None
        self.next = 0  # the number of the batch that it is given next
        self._has_begun = self._is_closed = self._is_placed = False
        self._position: Position | None = None  # behind what a position was asked for
        self._given: deque[Range] = deque()  # since then
        own.tell = lambda what: self.tell(what)

    def fall_behind(self) -> None:
        """Its line goes on without it: it reads by itself when it comes."""
        assert self.line is not None
        self._own, self.line = self.line.reader, None  # which knows what was read up to here

    @property
    def own(self) -> Reader:
        """The reader that it begins with."""
        return self._own

    @property
    def place(self) -> Position | None:
        """Where it is."""
        reader = self._own if self.line is None else self.line.reader
        given = list(self._given)
        return reader.place_after(self._position, given) if given else self._position

    @property
    def _reader(self) -> Reader:
        line = self.line
        return self._own if line is None else line.reader

    @property
    def pause_s(self) -> float:
        return self._reader.pause_s

    @property
    def is_behind(self) -> bool | None:
        line = self.line
        return True if line is not None and self.next < line.end else self._reader.is_behind

    @property
    def changed_files(self) -> int:
        return self._reader.changed_files

    def lag(self) -> dict[str, int]:
        with self._source.changed:
            line = self.line
            found = dict(self._reader.lag())
            for batch in [] if line is None or not found else list(line.batches)[self.next - line.first :]:
                found[batch.partition] = found.get(batch.partition, 0) + batch.rows.num_rows
        return found

    def first_position(self) -> Position | None:
        if not self._is_placed:
            self._position, self._is_placed = self._source.first_position(self._own), True
        return self._position

    def resume(self, position: Position) -> None:
        self._own.resume(position)
        with self._source.changed:
            self._position, self._is_placed = position, True
            self._given.clear()

    def again(self, range: Range) -> SourceBatch:
        """What comes again is of this query alone."""
        self.first_position()
        found = self._own.again(range)
        with self._source.changed:
            self._given.append(range)
        return found

    def position_after(self, range: Range) -> Position:
        with self._source.changed:
            found = next(number for number, one in enumerate(self._given, 1) if one is range or one == range)
            passed = [self._given.popleft() for _ in [None] * found]
            self._position = self._reader.place_after(self._position, passed)
            return self._position

    def poll(self, most_rows: int) -> SourceBatch | None:
        with self._source.changed:
            line = self._line_to_read()
            asked = line.asked
            while (batch := self._taken()) is None:
                line = self._line_to_read()
                if line.error is not None:
                    raise line.error
                if not line.is_busy:
                    if line.asked != asked:  # another has asked meanwhile, and found nothing
                        return None
                    line.is_busy = True
                    break
                self._source.changed.wait(_WAIT_S)
            else:
                return batch
        return self._ask(line, most_rows)

    def _ask(self, line: _Line, most_rows: int) -> SourceBatch | None:
        """Of those who stand in a line one asks its reader at a time."""
        batch: SourceBatch | None = None
        error: BaseException | None = None
        try:
            batch = line.reader.poll(most_rows)
        except BaseException as raised:
            error = raised
        with self._source.changed:
            line.is_busy, line.asked = False, line.asked + 1
            self._source.changed.notify_all()
            if error is not None:
                line.error = error
                raise error
            if batch is None:
                self._source.meet(line)
                return None
            self._source.add(line, batch)
            return self._taken()

    def _line_to_read(self) -> _Line:
        if not self._has_begun:
            self._has_begun = True
            if not self._is_placed:
                self._position, self._is_placed = self._source.first_position(self._own), True
            self._source.enter(self, self._own, self.place)
        elif self.line is None:
            self._source.left_behind(self)
        assert self.line is not None
        return self.line

    def _taken(self) -> SourceBatch | None:
        line = self.line
        if line is None or self.next == line.end:
            return None
        batch = line.batches[self.next - line.first]
        self.next += 1
        self._given.append(batch.range)
        self._source.took(line)
        return batch

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._source.leave(self, has_begun=self._has_begun)


def _tell_all(line: _Line, what: Warning) -> None:
    for one in list(line.readers):
        one.tell(what)


def _text(where: Any) -> str:
    return json.dumps(where, sort_keys=True, default=str)
