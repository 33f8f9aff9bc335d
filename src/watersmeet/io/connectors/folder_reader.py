"""Files of a folder as a stream that goes on: those that are there by the time they were changed, then new ones.

A file counts once it has its name, so whoever writes it does so under a hidden name and renames it.
"""

from __future__ import annotations

import glob
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any

import pyarrow as pa

from watersmeet.errors import SourceError, SourceGoneWarning
from watersmeet.io.connectors.changed_files import Changed, Look, difference, look_at, tell_of
from watersmeet.io.connectors.contract import Position, Range, Reader, SourceBatch, all_bad
from watersmeet.io.connectors.listing import Listing
from watersmeet.io.files import FileSource, readable
from watersmeet.io.too_many_files import is_out_of_files, tried_again

READ_ROWS = 1 << 16
KNOWN_ENDS = 1_000  # more than are read ahead
WATCHED = 100  # so many of the last files are looked at again
WATCH_S = 1.0


class _Cursor:
    """Reads one file from the front. What is bad among rows that lie together comes with the last of them; what is bad
    behind the last row comes alone."""

    def __init__(self, source: FileSource, path: str) -> None:
        self.path = path
        self.row = 0
        self.ended_with_bad = False
        self._source = source
        self._batches = source.source_batches(Path(path), READ_ROWS)
        self._batch: SourceBatch | None = None
        self._bad: list[pa.RecordBatch] = []  # that came before the rows in hand

    def take(self, most_rows: int) -> SourceBatch | None:
        """The next rows, None at the end of the file."""
        with readable(Path(self.path), self._source.hint):
            while self._batch is None or self._batch.rows.num_rows == 0:
                following = next(self._batches, None)
                if following is None:
                    return self._rest()
                self._batch = following
                self._bad += [] if following.bad is None else [following.bad]
        rows = self._batch.rows
        taken, self._batch = rows.slice(0, most_rows), SourceBatch(rows.slice(most_rows))
        self.row += taken.num_rows
        return SourceBatch(taken, None if self._batch.rows.num_rows else self._bad_so_far())

    def _rest(self) -> SourceBatch | None:
        bad = self._bad_so_far()
        if bad is None:
            return None
        self.ended_with_bad = True
        return SourceBatch(self._source.empty(), bad)

    def _bad_so_far(self) -> pa.RecordBatch | None:
        bad, self._bad = self._bad, []
        return all_bad(*bad)

    def skip_to(self, row: int) -> None:
        while self.row < row:
            if self.take(row - self.row) is None:
                raise SourceError(
                    f"{self.path} has {self.row:,} rows, but {row:,} of it were read before",
                    hint="files that a checkpoint has read must stay as they are; put them back, or start anew",
                )

    def close(self) -> None:
        self._batches.close()


class FolderReader(Reader):
    changed_files = 0  # that were told of

    def __init__(self, source: FileSource, where: str) -> None:
        """source: how files are read, and those that are there now. where: the file, folder or pattern to look in."""
        self._source = source
        self._where = where
        self._ahead: deque[str] = deque()  # files that were found, by the time they were changed
        self._found: set[str] = set()  # the same
        # The files that were read, or are being read, in order: a name, its size and when it was changed.
        self._begun: list[list[Any]] = []
        self._places: dict[str, int] = {}  # of each of them in that order
        self._cursor: _Cursor | None = None
        self._ends: dict[str, int] = {}  # of the last files that were read to their end, how many rows they have
        self._bad_ends: set[str] = set()  # those of them that have bad records behind their last row
        self._watched: dict[str, Look] = {}  # the last files, as they looked when they were opened
        self._before: list[tuple[str, Look]] = []  # those of lives before, to be compared once
        self._watch_at = 0.0
        self._is_gone = False
        self._listing = Listing(where, source.format.kind)

    def poll(self, most_rows: int) -> SourceBatch | None:
        while True:
            if self._cursor is None and not self._open_next():
                return None
            assert self._cursor is not None
            start = self._cursor.row
            batch = tried_again(lambda: self._taken(most_rows))
            if batch is not None:
                return replace(batch, range=[self._cursor.path, start, self._cursor.row])
            self._note_end(self._cursor)
            self._close_cursor()

    def _taken(self, most_rows: int) -> SourceBatch | None:
        assert self._cursor is not None
        path, row = self._cursor.path, self._cursor.row
        try:
            return self._cursor.take(most_rows)
        except Exception as error:
            if is_out_of_files(error):  # it is read from there once more
                self._cursor = _Cursor(self._source, path)
                self._cursor.skip_to(row)
            raise

    def again(self, range: Range) -> SourceBatch:
        path, start, end = range
        self._note(path)
        cursor = self._cursor
        if cursor is None or cursor.path != path or cursor.row > start:
            self._close_cursor()
            cursor = self._cursor = _Cursor(self._source, path)
        cursor.skip_to(start)
        batches: list[SourceBatch] = []
        while cursor.row < end or not batches:
            batch = cursor.take(end - cursor.row)
            if batch is None:
                cursor.skip_to(end + (start == end))  # which says what is wrong
                break
            batches.append(batch)
        return replace(SourceBatch.of_all(batches), range=range)

    def position_after(self, range: Range) -> Position:
        # Files that were found and not begun are found again.
        path, start, end = range
        place = self._places[path]
        # What comes without rows stands behind the last of them, and is the end, however long ago that was seen.
        is_end = start == end or (self._ends.get(path) == end and path not in self._bad_ends)
        if is_end:  # it may be removed from now on
            return {"done": self._begun[: place + 1], "inside": None}
        return {"done": self._begun[:place], "inside": [path, end, *self._begun[place][1:]]}

    def resume(self, position: Position) -> None:
        self._close_cursor()
        for path, *look in position["done"]:
            self._note(path, look)
            if look:
                self._before.append((path, Look(*look)))
        if position["inside"] is None:
            return
        path, row, *look = position["inside"]
        self._note(path, look)
        now = look_at(path)
        # What was added is read on.
        if look and now is not None and now != Look(*look) and now.size <= look[0]:
            self._before.append((path, Look(*look)))
        self._cursor = _Cursor(self._source, path)
        self._cursor.skip_to(row)

    def close(self) -> None:
        self._close_cursor()

    def _open_next(self) -> bool:
        if not self._ahead:
            self._look_around()
        if not self._ahead:
            return False
        path = self._ahead.popleft()
        self._found.discard(path)
        look = look_at(path)
        self._begin(path, look or ())
        if look is not None:
            self._watched[path] = look
        if len(self._watched) > WATCHED:
            self._watched.pop(next(iter(self._watched)))
        self._cursor = _Cursor(self._source, path)
        return True

    def _begin(self, path: str, look: Sequence[int]) -> None:
        self._places[path] = len(self._begun)
        self._begun.append([path, *look])

    def _note_end(self, cursor: _Cursor) -> None:
        if cursor.ended_with_bad:
            self._bad_ends.add(cursor.path)
        self._ends[cursor.path] = cursor.row
        if len(self._ends) > KNOWN_ENDS:
            forgotten = next(iter(self._ends))
            self._ends.pop(forgotten)
            self._bad_ends.discard(forgotten)

    def _look_around(self) -> None:
        found = self._listing.new(lambda path: path in self._places or path in self._found)
        self._tell_if_gone()
        self._tell_if_changed()
        self._ahead += found
        self._found.update(found)

    def _tell_if_gone(self) -> None:
        """A folder that was there and is not holds no new files, for a reason that somebody should know."""
        if glob.has_magic(self._where):
            return
        is_gone = bool(self._places) and not Path(self._where).expanduser().exists()
        if is_gone and not self._is_gone:
            self.tell(
                SourceGoneWarning(
                    f"{self._where}, which stream {self._source.name!r} is read from, is gone; the run waits for it"
                )
            )
        self._is_gone = is_gone

    def _tell_if_changed(self) -> None:
        """Who appends to a file that was read should hear that nobody reads on."""
        if monotonic() < self._watch_at:
            return
        self._watch_at = monotonic() + WATCH_S
        changed = list(self._changed([*self._before, *self._watched.items()]))
        self._before.clear()
        self.changed_files += len(changed)
        tell_of(self._source.name, changed, self.tell)

    def _changed(self, files: Iterable[tuple[str, Look]]) -> Iterator[Changed]:
        for path, before in files:
            now = look_at(path)
            how = None if now is None else difference(before, now)
            if now is not None and how is not None:
                self._watched.pop(path, None)
                self._begun[self._places[path]][1:] = now  # it is told once, in all lives
                yield Changed(path, how)

    def _note(self, path: str, look: Sequence[int] = ()) -> None:
        """A file that was found in another life."""
        if path not in self._places:
            self._begin(path, look)
        if path in self._found:
            self._found.discard(path)
            self._ahead.remove(path)

    def _close_cursor(self) -> None:
        if self._cursor is not None:
            self._cursor.close()
            self._cursor = None
