"""Reads any source of partitions, split after split, as a stream that goes on and can be read again.

Partitions are read side by side: each round takes what is new in all of them, so many rows at most. Where rows lie is
told by the part that was read, and which of its rows they are.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from itertools import repeat
from threading import Lock
from typing import Any

import pyarrow as pa

from watersmeet.errors import SourceError
from watersmeet.io.connectors.changed_files import tell_of
from watersmeet.io.connectors.contract import (
    Offsets,
    PartitionedSource,
    Position,
    Range,
    Reader,
    SourceBatch,
    Split,
    all_bad,
)
from watersmeet.io.connectors.identity import check_identity
from watersmeet.io.too_many_files import is_out_of_files, tried_again
from watersmeet.warning import ConnectorWarning


class _Cursor:
    """Reads one part from the front."""

    def __init__(self, source: PartitionedSource, split: Split) -> None:
        self.split = split
        self.row = 0
        self._batches = _closable(source.read(split))
        self._batch: SourceBatch | None = self._next()

    @property
    def is_at_end(self) -> bool:
        return self._batch is None

    def take(self, most_rows: int) -> SourceBatch | None:
        """The next rows, with what could not be read before them; None at the end."""
        batch = self._batch
        if batch is None:
            return None
        taken = SourceBatch(batch.rows.slice(0, most_rows), batch.bad, batch.left_out)
        rest = batch.rows.slice(most_rows)
        self._batch = SourceBatch(rest) if rest.num_rows else self._next()
        self.row += taken.rows.num_rows
        return taken

    def skip_to(self, row: int) -> None:
        while self.row < row and self.take(row - self.row) is not None:
            pass
        if self.row < row:
            raise self.changed(row)

    def changed(self, row: int) -> SourceError:
        partition, after, upto = self.split.partition, self.split.after, self.split.upto
        many = f"{self.row:,}" if self.is_at_end else f"more than {row:,}"
        return SourceError(
            f"partition {partition!r} has {many} rows behind {after} up to {upto}, but {row:,} were read there before",
            hint="what a checkpoint has read must stay as it is, or the run cannot go on; start anew, with another one",
        )

    def _next(self) -> SourceBatch | None:
        """The next batch that has rows, with all that could not be read before them; or what is left of that."""
        bad: list[pa.RecordBatch] = []
        left_out = 0
        batch: SourceBatch | None = None
        for batch in self._batches:
            bad += [] if batch.bad is None else [batch.bad]
            left_out += batch.left_out
            if batch.rows.num_rows:
                break
        if batch is None or not (batch.rows.num_rows or bad or left_out):
            return None
        return SourceBatch(batch.rows, all_bad(*bad), left_out)

    def close(self) -> None:
        self._batches.close()


class OffsetReader(Reader):
    """A range is [partition, after, upto, first row, row behind the last, whether the part ends there]."""

    keeps_step = True
    changed_files = 0  # that were told of

    def __init__(self, source: PartitionedSource) -> None:
        self._source = source
        self._watched = source.watched()
        self._is_gone = False
        self._offsets: dict[str, Any] | None = None  # how far partitions were read, but for the split in hand
        self._splits: deque[Split] = deque()
        self._waiting: Counter[str] = Counter()  # how many of them there are of each partition
        self._order: Sequence[str] | None = None  # in which partitions are read, if not side by side
        self._cursor: _Cursor | None = None
        self._unread: set[str] | None = None  # partitions that had rows at the beginning, of which none was read
        self._read_of: set[str] = set()
        # What was given out since the last position: each of them moves it on.
        self._given: deque[Range] = deque()
        self._lock = Lock()  # of these
        self._position: dict[str, Any] | None = None

    def first_position(self) -> Position:
        """Where it begins: kept from the first moment on, as `latest` means another place later."""
        if self._offsets is None:
            known = self._source.identity()
            self.resume({"offsets": dict(self._source.begin()), "inside": None})
            if known is not None:
                return {**(self._position or {}), "of": known}
        assert self._position is not None
        return self._position

    def keep_step(self, order: Sequence[str]) -> None:
        """Read of the first of these partitions that has rows, and before them of those that are not among them."""
        self._order = order

    def poll(self, most_rows: int) -> SourceBatch | None:
        self.first_position()
        while True:
            cursor = self._cursor or self._open_next(most_rows)
            if cursor is None:
                return None
            start = cursor.row
            batch = tried_again(lambda: self._taken(most_rows))
            cursor, split = self._in_hand, cursor.split
            where = [split.partition, split.after, split.upto, start, cursor.row, cursor.is_at_end]
            if cursor.is_at_end:
                self._done(cursor)
            self._give(where)
            if batch is not None:
                return replace(batch, range=where, partition=split.partition, waiting=self._unread_partitions())

    @property
    def _in_hand(self) -> _Cursor:
        assert self._cursor is not None
        return self._cursor

    def _taken(self, most_rows: int) -> SourceBatch | None:
        cursor = self._in_hand
        try:
            return cursor.take(most_rows)
        except Exception as error:
            if is_out_of_files(error):  # it is read from there once more
                self._cursor = self._cursor_at(cursor.split, cursor.row)
            raise

    def _cursor_at(self, split: Split, row: int = 0) -> _Cursor:
        cursor = _Cursor(self._source, split)
        cursor.skip_to(row)
        return cursor

    def _unread_partitions(self) -> tuple[str, ...]:
        """The partitions that have rows which are not read yet: time waits for the first of each."""
        partitions = [partition for partition, many in self._waiting.items() if many]
        if self._unread is None:  # at the beginning, as so many rows at most may be those of a few partitions only
            assert self._offsets is not None
            newest = self._source.newest(self._offsets)
            several = len(newest) > 1
            self._unread = {one.partition for one in self._source.splits(self._offsets, newest)} if several else set()
        self._unread -= set(self._read_of)
        return tuple(sorted({*partitions, *self._unread} - {""}))  # one without a name has no time of its own

    def again(self, range: Range) -> SourceBatch:
        """With the records that could not be read."""
        partition, after, upto, start, end, is_last = _as_noted(range, 6)
        self.first_position()
        split = Split(partition, after, upto)
        cursor = self._cursor
        if cursor is None or cursor.split != split or cursor.row > start:
            self._close_cursor()
            cursor = self._cursor = self._cursor_at(split)
        cursor.skip_to(start)
        batches: list[SourceBatch] = []
        while cursor.row < end or not batches:
            batch = cursor.take(end - cursor.row)
            if batch is None:
                raise cursor.changed(end)
            batches.append(batch)
        if is_last:
            if not cursor.is_at_end:
                raise cursor.changed(end)
            self._done(cursor)
        self._give(range)
        return replace(SourceBatch.of_all(batches), range=range, partition=partition)

    def position_after(self, range: Range) -> Position:
        with self._lock:
            found = next(number for number, one in enumerate(self._given, 1) if one is range or one == range)
            passed = [self._given.popleft() for _ in repeat(None, found)]
        self._position = self.place_after(self._position, passed)
        return self._position

    may_be_shared = True

    def place_after(self, position: Position | None, ranges: Sequence[Range]) -> dict[str, Any]:
        assert position is not None
        offsets, inside = dict(position["offsets"]), position["inside"]
        for partition, after, upto, _, end, is_last in ranges:
            if is_last:
                offsets[partition], inside = upto, None
            else:
                inside = [partition, after, upto, end]
        # What grows at its end is first, so that a checkpoint writes that alone.
        files = {} if self._watched is None else {"files": self._watched.noted(offsets)}
        return {**files, "offsets": offsets, "inside": inside}

    def where(self, position: Position | None) -> Any:
        return None if position is None else [position["offsets"], position["inside"]]

    def be_shared(self) -> None:
        with self._lock:
            self._given = deque(maxlen=0)

    def _give(self, range: Range) -> None:
        with self._lock:
            self._given.append(range)

    def resume(self, position: Position) -> None:
        _as_noted(position.get("offsets"))
        check_identity(self._source, position.get("of"))
        self._close_cursor()
        self._splits.clear()
        self._waiting.clear()
        self._given.clear()
        self._position = {name: position[name] for name in ("files", "offsets", "inside") if name in position}
        self._offsets = dict(position["offsets"])
        if self._watched is not None:
            self._watched.remember(position.get("files", []), self._offsets)
        if position["inside"] is not None:
            partition, after, upto, row = position["inside"]
            self._cursor = self._cursor_at(Split(partition, after, upto), row)

    def close(self) -> None:
        self._close_cursor()
        self._source.close()

    def _open_next(self, most_rows: int) -> _Cursor | None:
        assert self._offsets is not None
        if not self._splits and self._order is not None:
            self._add(self._splits_in_step(self._order, most_rows))
        elif not self._splits:
            newest: Offsets = self._source.newest(self._offsets, most_rows)
            self._tell_of_files()
            self._add(self._source.splits(self._offsets, newest))
            if not self._splits:
                self._offsets = dict(newest)  # nothing lies between, or partitions that are empty yet
        if not self._splits:
            return None
        split = self._splits.popleft()
        self._waiting[split.partition] -= 1
        self._cursor = tried_again(lambda: self._cursor_at(split))
        self._read_of.add(split.partition)
        return self._cursor

    def _tell_of_files(self) -> None:
        """Who appends to a file that was read should hear that nobody reads on. A folder that was there and is not
        holds no new files, for a reason that somebody should know."""
        if self._watched is None:
            return
        if changed := self._watched.changed_files():
            self.changed_files += len(changed)
            tell_of(self._watched.stream, changed, self.tell)
        gone, stream = self._watched.gone(), self._watched.stream
        if gone is not None and not self._is_gone:
            sentence = f"{gone}, which stream {stream!r} is read from, is gone; the run waits for it"
            self.tell(ConnectorWarning("source_gone", sentence))
        self._is_gone = gone is not None

    def _add(self, splits: Sequence[Split]) -> None:
        self._splits += splits
        self._waiting.update(split.partition for split in splits)

    def _splits_in_step(self, order: Sequence[str], most_rows: int) -> list[Split]:
        """What is new in the partition that is furthest behind, of those that have rows; so many at most."""
        assert self._offsets is not None
        newest = self._source.newest(self._offsets)
        fuller = dict.fromkeys(split.partition for split in self._source.splits(self._offsets, newest))
        if not fuller:
            return []
        places = {partition: place for place, partition in enumerate(order)}
        partition = min(fuller, key=lambda one: places.get(one, -1))  # those that nothing came of are first
        # All others as if they had been read, so that as many rows as may be are of this one.
        after = {one: offset for one, offset in newest.items() if one != partition}
        after |= {partition: self._offsets[partition]} if partition in self._offsets else {}
        return [
            split
            for split in self._source.splits(after, self._source.newest(after, most_rows))
            if split.partition == partition
        ]

    def _done(self, cursor: _Cursor) -> None:
        assert self._offsets is not None
        self._offsets[cursor.split.partition] = cursor.split.upto
        self._close_cursor()

    def _close_cursor(self) -> None:
        if self._cursor is not None:
            self._cursor.close()
        self._cursor = None


def _as_noted(found: Any, many: int | None = None) -> Any:
    """A range or offsets that were noted, of so many values."""
    if found is None or (many is not None and len(found) != many):
        raise SourceError(
            "how far a stream was read was noted by another version of watersmeet",
            hint="go on with that version, or start anew with another checkpoint",
        )
    return found


def reader_of_partitions(partitioned: PartitionedSource, *, in_step: bool = False) -> Reader:
    """The reader that a source has itself, if it has one, else that of its offsets. in_step: one that can be told in
    which order partitions are read."""
    own = partitioned.reader()
    if own is None:
        return OffsetReader(partitioned)
    if not in_step or own.keeps_step:
        return own
    own.close()
    return OffsetReader(partitioned)


def _closable(batches: Iterator[SourceBatch]) -> Generator[SourceBatch, None, None]:
    """The same; who closes it lets go of what it reads from."""
    yield from batches
