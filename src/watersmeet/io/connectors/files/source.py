"""Files of a store as a stream: those that are there by the time they were changed, then new ones.

An offset is a mark: the file that was read last, how many were read, and which of them came behind the mark, as times
of stores are coarse and files may appear out of order. Files must stay as they are until they were read for good.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, reduce
from time import monotonic
from typing import Any, NamedTuple

import pyarrow as pa

from watersmeet.errors import SourceError
from watersmeet.io.connectors.changed_files import Changed
from watersmeet.io.connectors.contract import Offsets, PartitionedSource, SourceBatch, SourceOpening, Split
from watersmeet.io.connectors.files.folder import Folder, Found, kind_of
from watersmeet.io.files import FileSource, first_schema, readable, undeclared, untold_types
from watersmeet.io.filesystems import StoreFile, address_of
from watersmeet.io.formats import Format, format_named
from watersmeet.model.arrival import arrival_of
from watersmeet.model.arriving import is_arrival, named_time
from watersmeet.model.catalog import Stream
from watersmeet.model.names import column_named
from watersmeet.model.stream_options import STREAM_OPTIONS

PARTITION = "files"
READ_ROWS = 1 << 16
BYTES_OF_A_ROW = 32  # about: only files that are opened tell how many rows they have
LATE_KEPT_US = 3_600_000_000  # files that came so long behind the mark are not listed in it any more
FEW = 1_000  # files that are listed as often as somebody asks
LISTING_SHARE = 10  # of more, the store is asked again after so many times as long as the last answer took


class Mark(NamedTuple):
    """How far the files of a folder were read: up to this one, so many, and late ones besides, with their sizes."""

    changed_us: int
    path: str
    size: int
    many: int
    late: list[list[Any]]

    @property
    def last(self) -> tuple[int, str]:
        return (self.changed_us, self.path)

    def behind(self, found: Found) -> Mark:
        """After that file was read, too."""
        if (found.changed_us, found.path) > self.last:
            late = [one for one in self.late if one[2] > found.changed_us - LATE_KEPT_US]
            return Mark(found.changed_us, found.path, found.size, self.many + 1, late)
        added = [found.path, found.size, found.changed_us]
        return self._replace(many=self.many + 1, late=[*self.late, added])

    def behind_all(self, found: Sequence[Found]) -> Mark:
        """After those were read, too, which are in order."""
        if not found or (found[0].changed_us, found[0].path) <= self.last:
            return reduce(Mark.behind, found, self)
        return self._replace(many=self.many + len(found) - 1).behind(found[-1])


BEGINNING = Mark(-1, "", 0, 0, [])


def files_source(opening: SourceOpening) -> PartitionedSource:
    return StoreFiles(opening.name, opening.options, opening.columns, opening.time)


class StoreFiles(PartitionedSource):
    def __init__(
        self, name: str, options: Mapping[str, str], declared: pa.Schema | None, time: str | None = None
    ) -> None:
        self._name, self._options, self._declared, self._time = name, dict(options), declared, time
        self._is_guessed = False  # the declared columns are those of the first file
        self._keeps_going = options.get("on_bad", "error").lower() != "error"
        self._folder = Folder(name, options, SourceError)
        self._fresh: list[Found] = []  # what the last listing found behind the mark of that time, in order
        self._late: list[Found] = []  # what it found before that, and nobody has read
        # What was read, or was there before this life, with the time at which it was changed.
        self._known: dict[str, int] | None = None
        self._remembered: dict[str, int] = {}  # what was read before this life
        self._changed: list[Changed] = []
        self._ask_at_s = 0.0

    def __getstate__(self) -> dict[str, Any]:
        own = {name: value for name, value in self.__dict__.items() if name not in ("_source", "_format")}
        if "_source" in self.__dict__:  # who reads elsewhere need not look at the first file again
            own["_declared"], own["_is_guessed"] = self._source.schema, not self._source.declared
        nothing: dict[str, Any] = {
            "_fresh": [],
            "_late": [],
            "_known": None,
            "_remembered": {},
            "_changed": [],
            "_ask_at_s": 0.0,
        }
        return own | nothing

    # ---- what it is -------------------------------------------------------------------------------------------------

    @property
    def schema(self) -> pa.Schema:
        return self._source.schema

    @property
    def description(self) -> str:
        return f"{self._format.kind} {self._folder.address}"

    @cached_property
    def _format(self) -> Format:
        return format_named(kind_of(self._name, self._options, "source", self._folder), self._options)

    @cached_property
    def _source(self) -> FileSource:
        """How files are read."""
        where, rounding = self._folder.address, self._options.get("rounding", "error").lower()
        if self._keeps_going and not self._format.has_footer and (self._declared is None or self._is_guessed):
            raise undeclared(self._name)
        if self._declared is not None and not self._is_guessed:
            return FileSource(
                self._name, (), self._format, self._declared, where, declared=True, where=where, rounding=rounding
            )
        files = [self._folder.file(one.path) for one in sorted(self._folder.listed(self._format.kind))]
        if not files:
            raise self._nothing()
        schema = self._declared or first_schema(self._name, files, self._format)
        return FileSource(
            self._name, (files[0],), self._format, schema, where, declared=False, where=where, rounding=rounding
        )

    def _nothing(self) -> SourceError:
        if not self._folder.is_there():
            return SourceError(f"there is no file or folder {self._folder.address}")
        return untold_types(self._name, self._folder.address, ())

    # ---- offsets ----------------------------------------------------------------------------------------------------

    def begin(self) -> Offsets:
        return {PARTITION: list(BEGINNING)}

    def newest(self, after: Offsets, most_rows: int | None = None) -> Offsets:
        mark, rows = Mark(*after[PARTITION]), 0
        if most_rows is None:
            return {PARTITION: list(mark.behind_all(self._unread(mark)))}
        for found in self._unread(mark):
            rows += 1 + found.size // BYTES_OF_A_ROW
            mark = mark.behind(found)
            if rows >= most_rows:
                break
        return {PARTITION: list(mark)}

    def splits(self, after: Offsets, upto: Offsets) -> list[Split]:
        mark, end = Mark(*after[PARTITION]), Mark(*upto[PARTITION])
        before = {one[0] for one in mark.late}
        found = [Found(one[2], one[0], one[1]) for one in end.late if one[0] not in before]
        if end.last > mark.last:
            found = self._between(mark, end)
        if len(found) != end.many - mark.many:
            raise SourceError(
                f"{self._folder.address} has {len(found):,} files where {end.many - mark.many:,} were found before",
                hint="files must stay until they were read for good; put them back, or start anew",
            )
        parts: list[Split] = []
        for one in found:
            following = mark.behind(one)
            parts.append(Split(PARTITION, list(mark), list(following)))
            mark = following
        return parts

    def _between(self, mark: Mark, end: Mark) -> list[Found]:
        # What is asked for is mostly what was just found, and is in order; after a restart it is not.
        begin, stop = (bisect_right(self._fresh, one.last, key=_when) for one in (mark, end))
        if stop - begin == end.many - mark.many:
            return self._fresh[begin:stop]
        files = self._folder.listed(self._format.kind)
        return sorted(one for one in files if mark.last < _when(one) <= end.last)

    def _unread(self, mark: Mark) -> list[Found]:
        """What came late, if anything did; else what is new, in order. Never both: a mark forgets late ones by and
        by as it moves on."""
        taken = {one[0] for one in mark.late}
        self._late = [one for one in self._late if one.path not in taken]
        start = bisect_right(self._fresh, mark.last, key=_when)
        if not self._late and start == len(self._fresh) and monotonic() >= self._ask_at_s:
            self._list(mark, taken)
            start = 0
        return self._late or self._fresh[start:]

    def _list(self, mark: Mark, taken: set[str]) -> None:
        began_s = monotonic()
        found = self._folder.listed(self._format.kind)
        now_s = monotonic()
        if len(found) > FEW:
            self._ask_at_s = now_s + LISTING_SHARE * (now_s - began_s)
        behind = {one.path: one.changed_us for one in found if _when(one) <= mark.last and one.path not in taken}
        if self._known is None:
            self._known = behind | self._remembered
            self._check_count(mark, len(behind) + len(taken))
        self._fresh = sorted(one for one in found if _when(one) > mark.last and one.path not in taken)
        self._note_changed(found)
        new = behind.keys() - self._known.keys()
        self._late = sorted(one for one in found if one.path in new)
        self._known.update((one.path, one.changed_us) for one in found)

    def _note_changed(self, found: Sequence[Found]) -> None:
        known, fresh = self._known or {}, {one.path for one in self._fresh}
        for one in found:
            if known.get(one.path, one.changed_us) != one.changed_us:
                address = address_of(self._folder.address, one.path)
                self._changed.append(Changed(address, "was written anew", one.path in fresh))

    def _check_count(self, mark: Mark, count: int) -> None:
        if count > mark.many:
            raise SourceError(
                f"{self._folder.address} has {count:,} files up to {mark.path}, of which {mark.many:,} were read: "
                "others came since that are older",
                hint="write those anew, under other names",
            )

    # ---- files that change after they were read ---------------------------------------------------------------------

    @property
    def stream(self) -> str:
        return self._name

    def watched(self) -> StoreFiles:
        return self

    def file_of(self, split: Split) -> list[Any]:
        found = _file_of(split)
        return [found.path, found.changed_us]

    def remember(self, files: Sequence[list[Any]]) -> None:
        self._remembered = dict(files)

    def noted(self, files: Sequence[list[Any]]) -> list[list[Any]]:
        known = self._known or {}
        return [[path, known.get(path, changed_us)] for path, changed_us in files]

    def changed_files(self) -> list[Changed]:
        changed, self._changed = self._changed, []
        return changed

    # ---- rows -------------------------------------------------------------------------------------------------------

    def read(self, split: Split) -> Iterator[SourceBatch]:
        found = _file_of(split)
        file = self._folder.file(found.path)
        with self._folder.told(f"cannot be read: {found.path}"):
            self._check_size(file, found.size)
            with readable(file, self._source.hint):
                yield from self._batches(file)

    def _batches(self, file: StoreFile) -> Iterator[SourceBatch]:
        if not self._keeps_going:
            yield from (SourceBatch(rows) for rows in self._source.read(file, READ_ROWS))
        elif self._format.has_footer:
            yield from replace(self._source, stream=self._judged).source_batches(file, READ_ROWS)
        else:
            yield from self._source.text_batches(file, self._judged)

    @property
    def _judged(self) -> Stream | None:
        """The stream by which event times are found bad here, where the file and the line are known. Times that are
        not written as timestamps are read later."""
        time = None if self._time is None or is_arrival(self._time) else named_time(self._time)
        column = None if time is None else column_named(time, self.schema.names)
        if column is None or not pa.types.is_timestamp(self.schema.field(column).type):
            return None
        words: tuple[str, ...] = ("on_null", "on_bad")
        said = {word: STREAM_OPTIONS[word].parse(self._options[word]) for word in words if word in self._options}
        return Stream(self._name, self.schema, column, arrival=arrival_of(said))

    def _check_size(self, file: StoreFile, size: int) -> None:
        with readable(file, "files must stay until they were read for good"):
            now = file.stat().st_size
        if now != size:
            raise SourceError(
                f"{file} has {now:,} bytes, but had {size:,} when it was found",
                hint="files must stay as they are; write rows that come later to files of their own",
            )

    def close(self) -> None:
        self._fresh, self._late = [], []


def _file_of(split: Split) -> Found:
    after, upto = Mark(*split.after), Mark(*split.upto)
    if upto.last != after.last:
        return Found(upto.changed_us, upto.path, upto.size)
    path, size, changed_us = upto.late[-1]
    return Found(changed_us, path, size)


def _when(found: Found) -> tuple[int, str]:
    return found.changed_us, found.path
