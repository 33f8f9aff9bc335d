"""Files of a path of this machine as a stream: no name is read twice, however old the times of files are.

Sources of Spark use it, for which processes are started: the module imports next to nothing. What reads a file comes
with the source.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any

from watersmeet.io.connectors.changed_files import Changed, Look, difference
from watersmeet.io.connectors.contract import Offsets, SourceBatch, Split
from watersmeet.io.connectors.folder_source import FolderSource, Found, Mark, file_of
from watersmeet.io.connectors.local_folder import LocalFolder

if TYPE_CHECKING:
    import pyarrow as pa

    from watersmeet.io.files import FileSource

READ_ROWS = 1 << 16
WATCHED = 1_000  # so many of the last files that were read are looked at again; after a start, all
WATCH_S = 1.0


class LocalFiles(FolderSource):
    """All names that were read are noted with the offsets: a file that is moved here brings its old time along, while
    the objects of a store are dated when they come, so that the last of them tell which were read."""

    def __init__(
        self, name: str, where: str, kind: str | None, files: FileSource | None, *, forgets_gone: bool = False
    ) -> None:
        """kind: the format by which files are named; None if all are data. files: how they are read; None where nobody
        reads them. forgets_gone: so that what is noted grows with the folder, not with all that ever was in it; a name
        that comes again is new then."""
        super().__init__(name)
        self.place, self._kind, self._files, self._forgets_gone = where, kind, files, forgets_gone
        self._folder = LocalFolder(where, kind)
        self._watch_at_s = 0.0
        self._compares_all = False  # what was read in lives before
        self._warned_of: set[str] = set()

    @property
    def files(self) -> FileSource:
        assert self._files is not None
        return self._files

    @property
    def schema(self) -> pa.Schema:
        return self.files.schema

    @property
    def description(self) -> str:
        return self.files.description

    def gone(self) -> str | None:
        return self.place if self._folder.is_gone() else None

    def _stands_still(self) -> bool:
        return self._folder.stands_still()

    def _listed(self) -> tuple[int, list[Found]]:
        names, found = self._folder.listed(self._life.known.__contains__)
        if self._forgets_gone and (gone := self._life.known.keys() - set(names)):
            self._life.forget(gone)
        return len(names), found

    def _all_listed(self) -> list[Found]:
        return self._folder.listed(lambda _: False)[1]

    def _shown(self, path: str) -> str:
        return str(self._folder.file(path))

    def only(self, columns: Sequence[str]) -> LocalFiles:
        files = self.files.narrowed(columns)
        return self if files is self.files else LocalFiles(self._name, self.place, self._kind, files)

    def remember(self, files: Sequence[list[Any]], upto: Offsets) -> None:
        super().remember(files, upto)
        self._life.is_listed = self._compares_all = True  # whatever has another name was not read

    def noted(self, upto: Offsets) -> list[Any]:
        if not self._life.is_listed:  # nobody has told what was read up to there
            self._look_for_new(self._mark(upto))
        return super().noted(upto)

    def _watch(self, mark: Mark) -> None:
        if monotonic() < self._watch_at_s:
            return
        stop = mark.many - self._life.before
        for place in range(0 if self._compares_all else max(0, stop - WATCHED), stop):
            before = self._life.log[place]
            now = None if before.path in self._warned_of else self._folder.look_at(before.path)
            if now is not None and self._tell_if_changed(before, now):
                self._life.log[place] = now  # it is told once, in all lives
        self._compares_all = False
        self._watch_at_s = monotonic() + WATCH_S

    def _tell_if_changed(self, before: Found, now: Found) -> bool:
        how = difference(Look(before.size, before.changed_ns), Look(now.size, now.changed_ns))
        if how is not None:
            self._warned_of.add(now.path)
            self._life.changed.append(Changed(self._shown(now.path), how))
        return how is not None

    def read(self, split: Split) -> Iterator[SourceBatch]:
        found = file_of(split)
        now = self._folder.look_at(found.path) or found
        # Of a file in which a life before has stopped, what was added is read on.
        if self._note_read(split, now) and now.size <= found.size:
            self._tell_if_changed(found, now)
        yield from self.files.of_file(self._folder.file(found.path), READ_ROWS)
