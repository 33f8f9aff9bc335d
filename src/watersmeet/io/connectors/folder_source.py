"""A folder of files as a stream: those that are there by the time they were changed, then new ones. Each is a split.

An offset is a mark: how many files were read, and the newest of them; those of its step that are older than where that
began are named besides. In one life the source knows all files that it has found, in the order in which they are read;
what a later life must know of them is noted beside the offsets. Files must stay as they are until they were read for
good. A file counts once it has its name, so whoever writes it does so under a hidden name and renames it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import field
from posixpath import basename, dirname
from time import monotonic
from typing import Any, NamedTuple

from watersmeet.dataclass import dataclass
from watersmeet.errors import SourceError
from watersmeet.io.connectors.changed_files import Changed
from watersmeet.io.connectors.contract import Offsets, PartitionedSource, Split
from watersmeet.io.connectors.files.names import PartName

BYTES_OF_A_ROW = 32  # about: only files that are opened tell how many rows they have
STEP = 1_000  # files at most that are taken at once, however small they are
FEW = 1_000  # files that are listed as often as somebody asks
SHARE = 10  # of more, they are listed again after so many times as long as the last listing took


class Found(NamedTuple):
    """A file as a listing shows it; earlier ones are less."""

    changed_ns: int
    path: str
    size: int


class Mark(NamedTuple):
    """How far the files of a folder were read: so many, the newest of which is this; `late` are those of the last step
    that are older than the newest before it."""

    many: int
    changed_ns: int
    path: str
    size: int
    late: list[list[Any]]

    @property
    def last(self) -> tuple[int, str]:
        return self.changed_ns, self.path

    def behind(self, files: Sequence[Found]) -> Mark:
        """After those were read, too."""
        newest, late = Found(self.changed_ns, self.path, self.size), []
        for one in files:
            if one[:2] > newest[:2]:
                newest = one
            else:
                late.append(list(one))
        return Mark(self.many + len(files), *newest, late) if files else self


BEGINNING = Mark(0, -1, "", 0, [])


@dataclass
class Life:
    """What one life of a source knows of its files. `log`: those that were found, in the order in which they are read,
    after so many that were read `before` them. `known`: those that were found or read, with the times at which they
    were changed."""

    before: int = 0
    log: list[Found] = field(default_factory=list)
    known: dict[str, int] = field(default_factory=dict)
    is_listed: bool = False
    ask_at_s: float = 0.0
    changed: list[Changed] = field(default_factory=list)

    def forget(self, paths: Collection[str]) -> None:
        """Files that were read."""
        for path in paths:
            del self.known[path]
        kept = [one for one in self.log if one.path not in paths]
        self.before, self.log = self.before + len(self.log) - len(kept), kept

    def has(self, mark: Mark) -> bool:
        """Whether the log goes on behind a mark."""
        return 0 <= mark.many - self.before <= len(self.log)


class FolderSource(PartitionedSource):
    """What is there and what is new in it, whatever the files lie in; a subclass lists and reads them."""

    partition = ""  # of which all files are
    place: str  # where the files lie, for people

    def __init__(self, name: str) -> None:
        self._name = name
        self._life = Life()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_life": Life()}

    # ---- of what it is a source -------------------------------------------------------------------------------------

    @abstractmethod
    def _listed(self) -> tuple[int, list[Found]]:
        """How many files are there, and at least those of them that are not known."""

    @abstractmethod
    def _all_listed(self) -> list[Found]:
        """All files that are there."""

    @abstractmethod
    def _shown(self, path: str) -> str:
        """A file, for people."""

    def _stands_still(self) -> bool:
        """Whether it is known without a listing that nothing is new."""
        return False

    # ---- offsets ----------------------------------------------------------------------------------------------------

    def begin(self) -> Offsets:
        return {self.partition: list(BEGINNING)}

    def newest(self, after: Offsets, most_rows: int | None = None) -> Offsets:
        mark = self._mark(after)
        place = self._unread(mark)
        upto = None if most_rows is None else _some(self._life.log, place, most_rows)
        return {self.partition: list(mark.behind(self._life.log[place:upto]))}

    def newest_files(self, after: Offsets, most_files: int) -> Offsets:
        mark = self._mark(after)
        place = self._unread(mark)
        return {self.partition: list(mark.behind(self._life.log[place : place + most_files]))}

    def splits(self, after: Offsets, upto: Offsets) -> list[Split]:
        mark, parts = self._mark(after), []
        for one in self._between(mark, self._mark(upto)):
            following = mark.behind([one])
            parts.append(Split(self.partition, list(mark), list(following)))
            mark = following
        return parts

    def _mark(self, offsets: Offsets) -> Mark:
        found = offsets[self.partition]
        if len(found) == len(Mark._fields) and isinstance(found[2], str):
            return Mark(*found)
        raise SourceError(
            f"stream {self._name!r}: how far its files were read was noted by another version of watersmeet",
            hint="go on with that version, or start anew with another checkpoint",
        )

    def _between(self, mark: Mark, end: Mark) -> Sequence[Found]:
        many, stop = end.many - mark.many, end.many - self._life.before
        if many <= 0:
            return []
        if many <= stop and self._life.has(end):  # what is asked for is mostly what was just found
            return self._life.log[stop - many : stop]
        found = sorted(one for one in self._all_listed() if mark.last < one[:2] <= end.last)
        lacking = many - len(found)
        found = ([Found(*one) for one in end.late[-lacking:]] if lacking > 0 else []) + found
        if len(found) != many:
            raise SourceError(
                f"{self.place} has {len(found):,} files where {many:,} were found before",
                hint="files must stay until they were read for good; put them back, or start anew",
            )
        return found

    def _unread(self, mark: Mark) -> int:
        """Where in the log the files behind a mark begin; looks for new ones if there are none."""
        if not self._life.has(mark):
            self._life = Life(mark.many)
        life = self._life
        if mark.many - life.before == len(life.log):
            self._watch(mark)
            if monotonic() >= life.ask_at_s and not self._stands_still():
                self._look_for_new(mark)
        return mark.many - life.before

    def _look_for_new(self, mark: Mark) -> None:
        life, began_s = self._life, monotonic()
        many, found = self._listed()
        now_s = monotonic()
        life.ask_at_s = now_s + SHARE * (now_s - began_s) if many > FEW else 0.0
        if not life.is_listed and mark.many:
            self._know_what_is_behind(mark, found)
        life.is_listed = True
        self._check_not_merged(found)
        life.log += sorted(one for one in found if one.path not in life.known or self._is_written_anew(one, mark))
        life.known |= {one.path: one.changed_ns for one in found}

    def _check_not_merged(self, found: Sequence[Found]) -> None:
        """Rows that were read would be read again, in a file that holds those of several."""
        new = {one.path: PartName.of(basename(one.path)) for one in found if one.path not in self._life.known}
        merged = {path: name for path, name in new.items() if name is not None and name.is_merged}
        if not merged:
            return
        known = ((dirname(path), PartName.of(basename(path))) for path in self._life.known)
        read = [(above, name) for above, name in known if name is not None]
        for path, into in merged.items():
            if any(above == dirname(path) and name.is_in(into) for above, name in read):
                raise SourceError(
                    f"{self._shown(path)} holds rows that stream {self._name!r} has read, of files that were merged",
                    hint="merge no folder that a stream reads; this one can be read anew from its beginning, with "
                    "another checkpoint",
                )

    def _know_what_is_behind(self, mark: Mark, found: Sequence[Found]) -> None:
        """The first listing of a life that was not told of all that was read: what is older than a mark was."""
        behind = sorted(one for one in found if one[:2] <= mark.last)
        if len(behind) > mark.many:
            raise SourceError(
                f"{self.place} has {len(behind):,} files up to {mark.path}, of which {mark.many:,} were read: "
                "others came since that are older",
                hint="write those anew, under other names",
            )
        life = self._life
        life.known = {one.path: one.changed_ns for one in behind} | life.known
        if life.before or len(life.log) < mark.many:
            life.before, life.log = mark.many - len(behind), behind

    def _is_written_anew(self, one: Found, mark: Mark) -> bool:
        """Whether a file that is known is read again: an object that is newer than all that was read looks like any new
        one."""
        if self._life.known[one.path] == one.changed_ns:
            return False
        is_newer = one[:2] > mark.last
        self._life.changed.append(Changed(self._shown(one.path), "was written anew", is_newer))
        return is_newer

    # ---- files that were read ---------------------------------------------------------------------------------------

    @property
    def stream(self) -> str:
        return self._name

    def watched(self) -> FolderSource:
        return self

    def remember(self, files: Sequence[list[Any]], upto: Offsets) -> None:
        log = [Found(*one) for one in files]
        known = {one.path: one.changed_ns for one in log}
        self._life = Life(self._mark(upto).many - len(log), log, known)

    def noted(self, upto: Offsets) -> list[Any]:
        return self._life.log[: max(0, self._mark(upto).many - self._life.before)]

    def changed_files(self) -> list[Changed]:
        changed, self._life.changed = self._life.changed, []
        return changed

    def gone(self) -> str | None:
        return None

    def _watch(self, mark: Mark) -> None:
        """Look whether files up to a mark have changed, where a listing does not tell."""

    def _note_read(self, split: Split, found: Found) -> bool:
        """A file that is read in this process, as it is now; whether it was found in another life."""
        life, place = self._life, int(split.after[0]) - self._life.before
        is_replay = place >= len(life.log)
        if is_replay:
            life.before += place - len(life.log)  # files without any rows are passed over where batches are repeated
            life.log.append(found)
        elif place >= 0 and life.log[place].path == found.path:
            life.log[place] = found
        life.known[found.path] = found.changed_ns
        return is_replay


def file_of(split: Split) -> Found:
    """The one that a split is."""
    upto = Mark(*split.upto)
    return Found(*upto.late[-1]) if upto.late else Found(upto.changed_ns, upto.path, upto.size)


def _some(files: Sequence[Found], place: int, most_rows: int) -> int:
    """Behind which file of those from a place on there are about so many rows, one file at least."""
    rows, stop = 0, min(len(files), place + STEP)
    while place < stop and rows < most_rows:
        rows += 1 + files[place].size // BYTES_OF_A_ROW
        place += 1
    return place
