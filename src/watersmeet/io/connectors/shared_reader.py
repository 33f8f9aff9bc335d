"""One reading of a source for several queries that go on, each of which keeps for itself how far it is.

Queries that are at the same place stand in one line: whoever has taken all that its reader has given asks it for more,
and the others are given the same. Batches wait until all have taken them. A query begins where it was before, alone,
and joins a line as soon as one is where it is; one that falls far behind reads by itself until it has caught up.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Condition
from typing import Any

from watersmeet.io.connectors.contract import Position, Range, Reader, SourceBatch

# A query is left behind by others if batches wait for it that have more bytes than this, and are more than so many.
MOST_BYTES = 64 << 20
FEWEST_BATCHES = 8
# What a batch takes beside its values.
BATCH_BYTES = 4096
_WAIT_S = 1.0
_HELD_S = 0.02


@dataclass(eq=False)
class _Line:
    """What one reader reads, from the first batch on that somebody has not taken."""

    reader: Reader
    begins: Position | None  # where it stood before its first batch
    is_behind: bool | None  # what the reader said of itself last
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
        self.nbytes += _nbytes(batch)

    def drop_taken(self) -> None:
        """What all have taken nobody asks for any more."""
        needed = min((one.next for one in self.readers), default=self.end)
        while self.first < needed:
            self.nbytes -= _nbytes(self.batches.popleft())
            self.first += 1


class SharedSource:
    """A source that several queries read. `make` opens a reader of it."""

    def __init__(self, make: Callable[[], Reader]) -> None:
        self.make = make
        self.changed = Condition()
        self.lines: list[_Line] = []
        self.is_held = False
        self._to_begin = 0  # readers that were given out and have not begun to read
        self._begins: list[Position | None] = []  # where those begin that have read nothing, once somebody has asked

    def reader(self) -> Reader:
        """One more query reads it: by a reader of its own, if such readers cannot tell how far others are."""
        own = self.make()
        if not own.may_be_shared:
            return own
        self._to_begin += 1
        return SharedReader(self, own)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Nobody asks for more while this lasts; what was read is given to all."""
        with self.changed:
            self.is_held = True
        try:
            yield
        finally:
            with self.changed:
                self.is_held = False
                self.changed.notify_all()

    def first_position(self, reader: Reader) -> Position | None:
        """The same for all: what is the latest row now is none a moment later."""
        with self.changed:
            if not self._begins:
                self._begins.append(reader.first_position())
            elif self._begins[0] is not None:
                reader.resume(self._begins[0])
            return self._begins[0]

    def enter(self, reader: SharedReader, own: Reader, place: Position | None, *, first_time: bool) -> Reader | None:
        """Stand in the line that is at this place, or was there with what it still has; or in a new one. Gives the
        reader of its own, if that is not needed."""
        where = _text(own.where(place))
        found = next(((one, at) for one in self.lines if (at := self._number_at(one, where)) is not None), None)
        line, number = (self._new_line(own, place), 0) if found is None else found
        reader.line, reader.next = line, number
        line.readers.append(reader)
        self._to_begin -= first_time
        return None if found is None else own

    def _number_at(self, line: _Line, where: str) -> int | None:
        """The number of the batch before which a line was at a place. Known is where it began, and that of those who
        stand at its end."""
        if line.error is not None:
            return None
        if line.first == 0:
            place = line.begins
            for number in range(len(line.batches) + 1):
                if number:
                    place = line.reader.place_after(place, [line.batches[number - 1].range])
                if _text(line.reader.where(place)) == where:
                    return number
            return None
        at_end = next((one for one in line.readers if one.next == line.end), None)
        return line.end if at_end is not None and _text(line.reader.where(at_end.place)) == where else None

    def _new_line(self, reader: Reader, place: Position | None) -> _Line:
        reader.be_shared()
        line = _Line(reader, place, reader.is_behind)
        reader.tell = lambda what: _tell_all(line, what)
        self.lines.append(line)
        return line

    def add(self, line: _Line, batch: SourceBatch) -> None:
        """Who is furthest behind reads by itself, where too much waits for it."""
        line.add(batch)
        while line.nbytes > MOST_BYTES:
            slowest = min(line.readers, key=lambda one: one.next)
            if line.end - slowest.next > FEWEST_BATCHES:
                line.readers.remove(slowest)
                slowest.fall_behind()
            before = line.first
            line.drop_taken()
            if line.first == before:
                return

    def took(self, line: _Line) -> None:
        # Those who have not begun may begin where it did.
        if not self._to_begin or line.nbytes > MOST_BYTES:
            line.drop_taken()

    def meet(self, line: _Line) -> Reader | None:
        """Nothing more is there: a line that is where another one is goes on with it. Gives the reader that is not
        needed then."""
        if len(self.lines) < 2 or any(one.next < line.end for one in line.readers):
            return None
        where = _text(line.reader.where(line.readers[0].place))
        for other in self.lines:
            at_end = any(one.next == other.end for one in other.readers)
            if other is line or not at_end or self._number_at(other, where) != other.end:
                continue
            for one in line.readers:
                one.line, one.next = other, other.end
                other.readers.append(one)
            line.readers.clear()
            self.lines.remove(line)
            return line.reader
        return None

    def leave(self, reader: SharedReader, *, has_begun: bool) -> Reader | None:
        """A query reads nothing more. Gives the reader that nobody needs then."""
        self._to_begin -= not has_begun
        line = reader.line
        if line is None:  # one that fell behind has no reader of its own any more
            return None if has_begun else reader.own
        line.readers.remove(reader)
        if line.readers:
            self.took(line)
            return None
        self.lines.remove(line)
        return line.reader


class SharedReader(Reader):
    """A query's own way through a shared source."""

    may_be_shared = True

    def __init__(self, source: SharedSource, own: Reader) -> None:
        self.source, self.own = source, own
        self.line: _Line | None = None
        self.next = 0  # the number of the batch that it is given next
        self._has_begun = self._is_closed = False
        self._begins: list[Position] = []  # where this reader was told to begin, once it was
        self._position: Position | None = None  # behind what a position was asked for
        self._given: deque[Range] = deque()  # since then
        own.tell = lambda what: self.tell(what)

    def is_beside(self, other: Reader) -> bool:
        """Whether both are given the same."""
        return isinstance(other, SharedReader) and self.line is not None and self.line is other.line

    def fall_behind(self) -> None:
        """Its line goes on without it: it reads by itself when it comes."""
        assert self.line is not None
        self.own, self.line = self.line.reader, None  # which knows what was read up to here

    @property
    def place(self) -> Position | None:
        """Where it is."""
        given = list(self._given)
        return self._reader.place_after(self._position, given) if given else self._position

    @property
    def _reader(self) -> Reader:
        return self.own if self.line is None else self.line.reader

    @property
    def pause_s(self) -> float:
        with self.source.changed:
            return self._reader.pause_s

    @property
    def is_behind(self) -> bool | None:
        with self.source.changed:
            if not self._has_begun:
                return self.own.is_behind
            line = self.line
            return True if line is None or self.next < line.end else line.is_behind

    @property
    def changed_files(self) -> int:
        with self.source.changed:
            return self._reader.changed_files

    def lag(self) -> dict[str, int]:
        with self.source.changed:
            line = self.line
            found = dict(self._reader.lag())
            for batch in [] if line is None or not found else list(line.batches)[self.next - line.first :]:
                found[batch.partition] = found.get(batch.partition, 0) + batch.rows.num_rows
        return found

    def first_position(self) -> Position | None:
        if not self._begins and self._position is None:
            self._position = self.source.first_position(self.own)
            self._begins += [] if self._position is None else [self._position]
        return self._position

    def resume(self, position: Position) -> None:
        self.own.resume(position)
        with self.source.changed:
            self._position = position
            self._begins += [] if self._begins else [position]
            self._given.clear()

    def again(self, range: Range) -> SourceBatch:
        """What comes again is of this query alone."""
        self.first_position()
        found = self.own.again(range)
        with self.source.changed:
            self._given.append(range)
        return found

    def position_after(self, range: Range) -> Position:
        with self.source.changed:
            found = next(number for number, one in enumerate(self._given, 1) if one is range or one == range)
            passed = [self._given.popleft() for _ in [None] * found]
            self._position = self._reader.place_after(self._position, passed)
            return self._position

    def where(self, position: Position | None) -> Any:
        return self.own.where(position)

    def poll(self, most_rows: int) -> SourceBatch | None:
        asked: tuple[_Line, int] | None = None
        while True:
            self._stand_in_line()
            with self.source.changed:
                line = self.line
                if line is None:  # it fell behind just now
                    continue
                batch = self._taken()
                if batch is not None:
                    return batch
                if line.error is not None:
                    raise line.error
                if self.source.is_held:
                    self.source.changed.wait(_HELD_S)
                    return None
                if not line.is_busy:
                    if asked is not None and asked[0] is line and asked[1] != line.asked:
                        return None  # another has asked meanwhile, and found nothing
                    line.is_busy = True
                    break
                asked = (line, line.asked) if asked is None else asked
                self.source.changed.wait(_WAIT_S)
        return self._ask(line, most_rows)

    def _ask(self, line: _Line, most_rows: int) -> SourceBatch | None:
        """Of those who stand in a line one asks its reader at a time."""
        batch: SourceBatch | None = None
        error: BaseException | None = None
        is_behind: bool | None = None
        try:
            batch = line.reader.poll(most_rows)
            is_behind = line.reader.is_behind
        except BaseException as raised:
            error = raised
        unused: Reader | None = None
        with self.source.changed:
            line.is_busy, line.asked, line.is_behind, line.error = False, line.asked + 1, is_behind, error
            if error is None and batch is not None:
                self.source.add(line, batch)
                batch = self._taken()
            elif error is None:
                unused = self.source.meet(line)
            self.source.changed.notify_all()
        if error is not None:
            raise error
        _close(unused)
        return batch

    def _stand_in_line(self) -> None:
        """What takes long, such as to look for a place in a file, nobody else waits for."""
        if self.line is not None:
            return
        first_time = not self._has_begun
        if first_time:
            self.first_position()
        own = self.own if first_time else self._made_anew()
        with self.source.changed:
            unused = self.source.enter(self, own, self.place, first_time=first_time)
            self._has_begun = True
        _close(unused)

    def _made_anew(self) -> Reader:
        """A reader that goes on where this has come to."""
        made = self.source.make()
        made.tell = lambda what: self.tell(what)
        with self.source.changed:
            place = self.place
        try:
            for position in [*self._begins, *([] if place is None else [place])]:
                made.resume(position)
        except BaseException:
            _close(made)
            raise
        return made

    def _taken(self) -> SourceBatch | None:
        line = self.line
        if line is None or self.next == line.end:
            return None
        batch = line.batches[self.next - line.first]
        self.next += 1
        self._given.append(batch.range)
        self.source.took(line)
        return batch

    def close(self) -> None:
        with self.source.changed:
            if self._is_closed:
                return
            self._is_closed = True
            unused = self.source.leave(self, has_begun=self._has_begun)
        if unused is not None:
            unused.close()


def _close(unused: Reader | None) -> None:
    """All that it was asked for is where it should be."""
    if unused is not None:
        with suppress(Exception):
            unused.close()


def _nbytes(batch: SourceBatch) -> int:
    bad = 0 if batch.bad is None else batch.bad.nbytes
    return int(max(batch.rows.nbytes + bad, BATCH_BYTES))


def _tell_all(line: _Line, what: Warning) -> None:
    for one in list(line.readers):
        one.tell(what)


def _text(where: Any) -> str:
    return json.dumps(where, sort_keys=True)
