"""What every batch brought, in the order of batches, written down before it is answered.

A journal is a folder of files, each named after the first batch in it. A record is its head (a magic word, a sum, the
number of the batch, how long it is) and its bytes; the sum is also over the name of the file and the run. Only the end
of the last file can be torn, by a crash in the middle of a write: what was not brought onto the disk was never
acknowledged, and is cut off. Up to which batch all was is noted elsewhere (`reached.py`): if one of those is not there,
that is an error. Of several records that were not on the disk it may have some without those before them: their magic
word says so.

Behind the last record a file is filled with zeros for a while. So to bring a small record onto the disk is to write its
bytes and nothing else: a file that grows has the file system write down its new length as well, and wait for whatever
other processes have it write at that moment.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import Any
from zlib import crc32

from watersmeet.errors import RunError
from watersmeet.hosts.local.durable.place import Place
from watersmeet.hosts.local.durable.reached import Reached
from watersmeet.io.begun_sync import begun_sync
from watersmeet.io.too_many_files import tried_again
from watersmeet.io.whole_files import sync as sync_folder

_HEAD = struct.Struct("<4sIqQ")
_MAGIC = b"wmj1"
_FOLLOWS = b"wmj+"  # of a record that was written when the one before it was not on the disk yet
_NAME = re.compile(r"journal-(\d{15,})\.log")
_SMALL = 1 << 16
_ROOM = 1 << 20


class Journal:
    def __init__(self, place: Place, run: str = "", *, sync: bool = True, reached: Reached | None = None) -> None:
        """sync: a record counts as written when it is on the disk, not only in the system's memory. reached: is told
        then, and knows what earlier lives have told it."""
        self._place = place
        self._run = run
        self._sync = sync
        self._reached = reached or Reached(place, run)
        self._file: int | None = None
        self._path, self._name = place.folder, ""  # of the open file
        self._seed = 0  # of its sums
        self._end = 0  # of its last record
        self._filled = 0  # up to there it is filled with zeros
        self.is_torn = False  # whether an end was cut off
        self._syncing = Lock()  # of who brings it onto the disk, or closes it
        self._beside = begun_sync() if sync and not place.has_copy else None
        self._begun: int | None = None  # up to this batch it is on its way there
        self._appended = self._synced = -1  # the last batch that was written, and that is on the disk

    # ---- after a restart --------------------------------------------------------------------------------------------

    @property
    def first(self) -> int | None:
        """The first batch that is here; None if there is none."""
        return next((_first_of(path) for path in self._paths()), None)

    def records(self, after: int) -> Iterator[tuple[int, bytes]]:
        """Every record behind a batch, in order; none is missing. A torn end is cut off."""
        paths = self._paths()
        expected = after + 1
        for place, path in enumerate(paths):
            if place + 1 < len(paths) and _first_of(paths[place + 1]) <= after + 1:
                continue
            if _first_of(path) > expected:
                raise self._lacks(expected, _first_of(path) - 1, paths[:place])
            for number, payload in self._read(path, after, is_last=place + 1 == len(paths)):
                if number >= expected:
                    expected = number + 1
                    self._appended = self._synced = number
                    yield number, payload
        if expected <= self._reached.logged:
            raise self._lacks(expected, self._reached.logged, paths)

    def _read(self, path: Path, after: int, *, is_last: bool) -> Iterator[tuple[int, bytes]]:
        at, expected, seed = 0, _first_of(path), self._seed_of(path)
        with self._place.reading(path.name), path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if is_last and self._sync:  # a process that died may have left it to the system
                os.fsync(file.fileno())
            while at < size:
                head = file.read(_HEAD.size)
                payload, whole = b"", len(head) == _HEAD.size
                if whole:
                    magic, total, number, length = _HEAD.unpack(head)
                    whole = magic in (_MAGIC, _FOLLOWS) and number == expected and at + _HEAD.size + length <= size
                if whole:
                    payload = file.read(length)
                    whole = _sum_of(seed, head, payload) == total
                if not whole:
                    self._check_end(path, file, at, max(expected, after + 1), is_last=is_last)
                    if is_last and expected > after:
                        os.truncate(path, at)
                        self.is_torn = True
                    return
                yield number, payload
                at, expected = at + _HEAD.size + length, expected + 1

    def _check_end(self, path: Path, file: Any, at: int, needed: int, *, is_last: bool) -> None:
        """A file ends where it has no record any more, unless one was there: of a batch that is `needed`, or later."""
        if _is_zero(file, at):
            return
        if not is_last or needed <= self._reached.logged or _has_more(file, at, needed, self._seed_of(path)):
            raise self._place.damaged(path.name, f"what stands at byte {at:,} is no record")
        self._reached.check_known()

    def _lacks(self, first: int, last: int, before: Sequence[Path]) -> RunError:
        """Batches are gone: a file of theirs, or the end of the one before them."""
        cut = f", unless it is the end of {before[-1].name} that is" if before else ""
        how = f"the journal lacks the batches {first:,} to {last:,}; it is gone{cut}"
        return self._place.damaged(self._named(first).name, how)

    def _named(self, number: int) -> Path:
        return self._place.folder / f"journal-{number:015d}.log"

    def _seed_of(self, path: Path) -> int:
        return crc32(f"{self._run}/{path.name}".encode())

    # ---- writing ----------------------------------------------------------------------------------------------------

    def append(self, number: int, parts: Sequence[Any], *, soon: bool = False) -> None:
        """Write a record, whole, onto the disk; `soon`: only when `sync` asks for it."""
        if self._file is None:
            self._open(number)
        assert self._file is not None
        views = [memoryview(part).cast("B") for part in parts]
        length = sum(view.nbytes for view in views)
        if length < _SMALL:  # one piece is handled faster than many
            views = [memoryview(b"".join(views))]
        magic = _MAGIC if self._synced >= self._appended else _FOLLOWS
        total = _sum_of(self._seed, _HEAD.pack(magic, 0, number, length), *views)
        head = memoryview(_HEAD.pack(magic, total, number, length))
        with self._place.writing(self._name):
            if self._sync and length < _SMALL and self._end + _HEAD.size + length > self._filled:
                self._fill()
            _write_all(self._file, [head, *views], self._end)
        self._end += _HEAD.size + length
        self._appended = number
        if not soon:
            self.sync(number)
        if self._place.has_copy:  # where nothing grows: a record is a file of its own
            self.close()
            self._place.put(self._path.name)
            self._reached.log(number)

    def sync(self, until: int) -> None:
        """Return when all records up to a batch are on the disk. For any thread. What comes after it, such as a commit
        of their answers, is for who holds the checkpoint alone."""
        self._place.check()
        with self._syncing:
            self._end_begun()
            if until > self._synced:
                self._bring_to_disk()

    def begin_sync(self) -> None:
        """Have all records that are written brought onto the disk beside what follows, where that can be; `sync` waits
        for it."""
        if self._beside is None or self._file is None:
            return
        with self._syncing:
            self._end_begun()
            with self._place.writing(self._name):
                self._beside.begin(self._file)
            self._begun = self._appended

    def _end_begun(self) -> None:
        if self._begun is None:
            return
        assert self._beside is not None
        begun, self._begun = self._begun, None
        with self._place.writing(self._name):
            self._beside.end()
        self._reached.log(begun)
        self._synced = begun

    def _bring_to_disk(self) -> None:
        appended = self._appended
        if self._sync and self._file is not None:
            with self._place.writing(self._name):
                os.fdatasync(self._file)
            if not self._place.has_copy:  # else it is in the store only later
                self._reached.log(appended)
        self._synced = appended

    def _fill(self) -> None:
        assert self._file is not None
        start = max(self._end, self._filled)
        _write_all(self._file, [memoryview(bytes(_ROOM))], start)
        self._filled = start + _ROOM

    def _open(self, number: int) -> None:
        self._path = self._named(number)
        self._name = self._path.name
        self._seed = self._seed_of(self._path)
        with self._place.writing(self._name):
            path, flags = self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
            self._file = tried_again(lambda: os.open(path, flags, 0o600))
            self._end = self._filled = os.fstat(self._file).st_size
            if self._sync:
                sync_folder(self._place.folder)

    def roll(self) -> None:
        """The next record begins another file."""
        self.close()

    def forget(self, until: int) -> None:
        """Remove files that hold nothing behind a batch."""
        paths = self._paths()
        for path, following in pairwise(paths):
            if _first_of(following) <= until + 1:
                self._place.remove(path.name)

    def close(self) -> None:
        with self._syncing:
            if self._file is None:
                return
            try:
                self._end_begun()
                if self._appended > self._synced:
                    self._bring_to_disk()
            finally:
                with suppress(OSError):  # zeros at the end do no harm
                    os.ftruncate(self._file, self._end)
                os.close(self._file)
                self._file = None

    @property
    def nbytes(self) -> int:
        return sum(path.stat().st_size for path in self._paths())

    def _paths(self) -> list[Path]:
        return sorted(path for path in self._place.folder.glob("journal-*.log") if _NAME.fullmatch(path.name))


def _first_of(path: Path) -> int:
    found = _NAME.fullmatch(path.name)
    assert found is not None
    return int(found[1])


def _sum_of(seed: int, head: bytes, *data: Any) -> int:
    """Over all but the sum itself."""
    total = crc32(head[8:], crc32(head[:4], seed))
    for one in data:
        total = crc32(one, total)
    return total


def _has_more(file: Any, at: int, least: int, seed: int) -> bool:
    """Whether a record that is needed stands behind a place that has none, and all before it was on the disk when it
    was written: then the end is not torn, the middle is damaged."""
    file.seek(at + 1)
    rest = file.read()
    found = rest.find(_MAGIC)
    while found >= 0:
        head = rest[found : found + _HEAD.size]
        if len(head) == _HEAD.size:
            _, total, number, length = _HEAD.unpack(head)
            payload = rest[found + _HEAD.size : found + _HEAD.size + length]
            if number >= least and len(payload) == length and _sum_of(seed, head, payload) == total:
                return True
        found = rest.find(_MAGIC, found + 1)
    return False


def _is_zero(file: Any, at: int) -> bool:
    """Whether nothing was written from there on."""
    file.seek(at)
    return not file.read().strip(b"\0")


def _write_all(file: int, parts: Sequence[memoryview], at: int) -> None:
    waiting = [part for part in parts if part.nbytes]
    while waiting:
        taken = os.pwritev(file, waiting[:1000], at)
        at += taken
        while waiting and taken >= waiting[0].nbytes:
            taken -= waiting.pop(0).nbytes
        if taken:
            waiting[0] = waiting[0][taken:]
