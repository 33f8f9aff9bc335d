"""Reads any source of lanes, part after part, as a stream that goes on and can be read again.

Lanes are read side by side: each round takes what is new in all of them, so many rows at most. Where rows lie is told
by the part that was read, and which of its rows they are.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from threading import Lock
from typing import Any

import pyarrow as pa

from watersmeet.errors import SourceError
from watersmeet.io.connectors.changed_files import MOST_NOTED, tell_of
from watersmeet.io.connectors.contract import (
    LanedSource,
    Lot,
    Offsets,
    Piece,
    PollingSource,
    Position,
    Range,
    Reader,
    Slice,
    untold,
    watched,
)
from watersmeet.io.connectors.guarded import GuardedSource, called
from watersmeet.io.connectors.guarded_reader import GuardedReader
from watersmeet.io.connectors.identity import check_identity, identity_of


class _Cursor:
    """Reads one part from the front."""

    def __init__(self, source: LanedSource, part: Slice) -> None:
        self.part = part
        self.row = 0
        self._lots: Iterator[Lot] = source.read(part)
        self._lot: Lot | None = self._next()

    @property
    def is_at_end(self) -> bool:
        return self._lot is None

    def take(self, most_rows: int) -> Lot | None:
        """The next rows, with what could not be read before them; None at the end."""
        lot = self._lot
        if lot is None:
            return None
        taken = Lot(lot.rows.slice(0, most_rows), lot.bad, lot.left_out)
        rest = lot.rows.slice(most_rows)
        self._lot = Lot(rest) if rest.num_rows else self._next()
        self.row += taken.rows.num_rows
        return taken

    def skip_to(self, row: int) -> None:
        while self.row < row and self.take(row - self.row) is not None:
            pass
        if self.row < row:
            raise self.changed(row)

    def changed(self, row: int) -> SourceError:
        lane, after, upto = self.part.lane, self.part.after, self.part.upto
        many = f"{self.row:,}" if self.is_at_end else f"more than {row:,}"
        return SourceError(
            f"lane {lane!r} has {many} rows behind {after} up to {upto}, but {row:,} were read there before",
            hint="what a checkpoint has read must stay as it is, or the run cannot go on; start anew, with another one",
        )

    def _next(self) -> Lot | None:
        """The next lot that has rows, with all that could not be read before them; or what is left of that."""
        bad: list[pa.RecordBatch] = []
        left_out = 0
        lot: Lot | None = None
        for lot in self._lots:
            bad += [] if lot.bad is None else [lot.bad]
            left_out += lot.left_out
            if lot.rows.num_rows:
                break
        if lot is None or not (lot.rows.num_rows or bad or left_out):
            return None
        return Lot(lot.rows, _together(bad), left_out)

    def close(self) -> None:
        close = getattr(self._lots, "close", None)
        if close is not None:
            close()


class OffsetReader:
    """A range is [lane, after, upto, first row, row behind the last, whether the part ends there]."""

    def __init__(self, source: LanedSource) -> None:
        self.tell: Callable[[Warning], None] = untold
        self.changed_files = 0  # that were told of
        self._source = source
        self._watched = watched(source)
        self._files: list[list[Any]] = []  # the last ones that were read, if it is a source of files
        self._offsets: dict[str, Any] | None = None  # how far lanes were read, but for the part in hand
        self._parts: deque[Slice] = deque()
        self._waiting: Counter[str] = Counter()  # how many of them there are of each lane
        self._order: Sequence[str] | None = None  # in which lanes are read, if not side by side
        self._cursor: _Cursor | None = None
        self._unread: set[str] | None = None  # lanes that had rows at the beginning, of which none was read
        self._read_of: set[str] = set()
        # What was given out since the last position: each of them moves it on.
        self._given: deque[Range] = deque()
        self._lock = Lock()  # of these
        self._position: dict[str, Any] | None = None

    def first_position(self) -> Position:
        """Where it begins: kept from the first moment on, as `latest` means another place later."""
        if self._offsets is None:
            known = identity_of(self._source)
            self.resume({"offsets": dict(self._source.begin()), "inside": None})
            if known is not None:
                return {**(self._position or {}), "of": known}
        assert self._position is not None
        return self._position

    def keep_step(self, order: Sequence[str]) -> None:
        """Read of the first of these lanes that has rows, and before them of those that are not among them."""
        self._order = order

    def poll(self, most_rows: int) -> Piece | None:
        self.first_position()
        while True:
            cursor = self._cursor or self._open_next(most_rows)
            if cursor is None:
                return None
            start = cursor.row
            lot = cursor.take(most_rows)
            if lot is None:
                self._done(cursor)
                continue
            part = cursor.part
            where = [part.lane, part.after, part.upto, start, cursor.row, cursor.is_at_end]
            if cursor.is_at_end:
                self._done(cursor)
            self._give(where)
            return Piece(lot.rows, where, part.lane, lot.bad, self._lanes(), lot.left_out)

    def _lanes(self) -> tuple[str, ...]:
        """The lanes that have rows which are not read yet: time waits for the first of each."""
        lanes = [lane for lane, many in self._waiting.items() if many]
        if self._unread is None:  # at the beginning, as so many rows at most may be those of a few lanes only
            assert self._offsets is not None
            newest = self._source.newest(self._offsets)
            several = len(newest) > 1
            self._unread = {part.lane for part in self._source.slices(self._offsets, newest)} if several else set()
        self._unread -= set(self._read_of)
        return tuple(sorted({*lanes, *self._unread}))

    def again(self, range: Range) -> Piece:
        """With the records that could not be read."""
        lane, after, upto, start, end, is_last = range
        self.first_position()
        part = Slice(lane, after, upto)
        cursor = self._cursor
        if cursor is None or cursor.part != part or cursor.row > start:
            self._close_cursor()
            cursor = self._cursor = _Cursor(self._source, part)
        cursor.skip_to(start)
        lots: list[Lot] = []
        while cursor.row < end or not lots:
            lot = cursor.take(end - cursor.row)
            if lot is None:
                raise cursor.changed(end)
            lots.append(lot)
        if is_last:
            if not cursor.is_at_end:
                raise cursor.changed(end)
            self._done(cursor)
        self._give(range)
        rows = lots[0].rows if len(lots) == 1 else pa.concat_batches([lot.rows for lot in lots])
        bad = _together([lot.bad for lot in lots if lot.bad is not None])
        return Piece(rows, range, lane, bad, left_out=sum(lot.left_out for lot in lots))

    def position_after(self, range: Range) -> Position:
        with self._lock:
            found = next(number for number, one in enumerate(self._given, 1) if one is range or one == range)
            passed = [self._given.popleft() for _ in repeat(None, found)]
        position = self._position
        assert position is not None
        offsets, inside = dict(position["offsets"]), position["inside"]
        for lane, after, upto, _, end, is_last in passed:
            if is_last:
                offsets[lane], inside = upto, None
                self._files += [] if self._watched is None else [self._watched.file_of(Slice(lane, after, upto))]
            else:
                inside = [lane, after, upto, end]
        self._position = {"offsets": offsets, "inside": inside}
        if self._watched is not None:
            self._files = self._watched.noted(self._files[-MOST_NOTED:])
            self._position["files"] = self._files
        return self._position

    def _give(self, range: Range) -> None:
        with self._lock:
            self._given.append(range)

    def resume(self, position: Position) -> None:
        check_identity(self._source, position.get("of"))
        self._close_cursor()
        self._parts.clear()
        self._waiting.clear()
        self._given.clear()
        self._position = {name: position[name] for name in ("offsets", "inside")}
        self._offsets = dict(position["offsets"])
        self._files = list(position.get("files", []))
        if self._watched is not None:
            self._watched.remember(self._files)
        if position["inside"] is not None:
            lane, after, upto, row = position["inside"]
            self._cursor = _Cursor(self._source, Slice(lane, after, upto))
            self._cursor.skip_to(row)

    def close(self) -> None:
        self._close_cursor()
        self._source.close()

    def _open_next(self, most_rows: int) -> _Cursor | None:
        assert self._offsets is not None
        if not self._parts and self._order is not None:
            self._add(self._parts_in_step(self._order, most_rows))
        elif not self._parts:
            newest: Offsets = self._source.newest(self._offsets, most_rows)
            self._tell_of_changed()
            self._add(self._source.slices(self._offsets, newest))
            if not self._parts:
                self._offsets = dict(newest)  # nothing lies between, or lanes that are empty yet
        if not self._parts:
            return None
        part = self._parts.popleft()
        self._waiting[part.lane] -= 1
        self._cursor = _Cursor(self._source, part)
        self._read_of.add(self._cursor.part.lane)
        return self._cursor

    def _tell_of_changed(self) -> None:
        if self._watched is not None and (changed := self._watched.changed_files()):
            self.changed_files += len(changed)
            tell_of(self._watched.stream, changed, self.tell)

    def _add(self, parts: Sequence[Slice]) -> None:
        self._parts += parts
        self._waiting.update(part.lane for part in parts)

    def _parts_in_step(self, order: Sequence[str], most_rows: int) -> list[Slice]:
        """What is new in the lane that is furthest behind, of those that have rows; so many at most."""
        assert self._offsets is not None
        newest = self._source.newest(self._offsets)
        fuller = dict.fromkeys(part.lane for part in self._source.slices(self._offsets, newest))
        if not fuller:
            return []
        places = {lane: place for place, lane in enumerate(order)}
        lane = min(fuller, key=lambda one: places.get(one, -1))  # those that nothing came of are first
        # All others as if they had been read, so that as many rows as may be are of this one.
        after = {one: offset for one, offset in newest.items() if one != lane}
        after |= {lane: self._offsets[lane]} if lane in self._offsets else {}
        return [part for part in self._source.slices(after, self._source.newest(after, most_rows)) if part.lane == lane]

    def _done(self, cursor: _Cursor) -> None:
        assert self._offsets is not None
        self._offsets[cursor.part.lane] = cursor.part.upto
        self._close_cursor()

    def _close_cursor(self) -> None:
        if self._cursor is not None:
            self._cursor.close()
        self._cursor = None


def reader_of_lanes(laned: GuardedSource, *, in_step: bool = False) -> Reader:
    """The reader that a source has itself, if it has one, else that of its offsets. in_step: one that can be told in
    which order lanes are read."""
    inner = laned.inner
    if isinstance(inner, PollingSource):
        with called(laned.connector, "reader()"):
            own: Reader = GuardedReader(laned, inner.reader())
        if not in_step or hasattr(own, "keep_step"):
            return own
        own.close()
    return OffsetReader(laned)


def _together(bad: list[pa.RecordBatch]) -> pa.RecordBatch | None:
    return None if not bad else bad[0] if len(bad) == 1 else pa.concat_batches(bad)
