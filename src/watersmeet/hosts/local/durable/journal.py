"""What every batch brought, in the order of batches, written down before it is answered.

A journal is a folder of files, each named after the first batch in it. A record is its head (a magic word, a sum, the
number of the batch, how long it is) and its bytes. Only the end of the last file can be torn, by a crash in the middle
of a write: what was not brought onto the disk was never acknowledged, and is cut off. Of several such records the disk
may have some without those before them: their magic word says so. Anything else that is damaged is an error.

Behind the last record a file is filled with zeros for a while. So to bring a small record onto the disk is to write its
bytes and nothing else: a file that grows has the file system write down its new length as well, and wait for whatever
other processes have it write at that moment.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import Any
from zlib import crc32

from watersmeet.errors import RunError
from watersmeet.hosts.local.durable import mirror
from watersmeet.hosts.local.durable.files import remove_file, sync_folder, written
from watersmeet.io.too_many_files import tried_again

_HEAD = struct.Struct("<4sIqQ")
_MAGIC = b"wmj1"
_FOLLOWS = b"wmj+"  # of a record that was written when the one before it was not on the disk yet
_PREFIX, _SUFFIX = "journal-", ".log"
_SMALL = 1 << 16
_ROOM = 1 << 20


class Journal:
    def __init__(self, folder: Path, *, sync: bool = True) -> None:
        """sync: a record counts as written when it is on the disk, not only in the system's memory."""
        self._folder = folder
        self._sync = sync
        self._is_mirrored = mirror.is_mirrored(folder)
        self._file: int | None = None
        self._path = folder  # of the open file
        self._end = 0  # of its last record
        self._filled = 0  # up to there it is filled with zeros
        self.is_torn = False  # whether an end was cut off
        self._syncing = Lock()  # of who brings it onto the disk, or closes it
        self._appended = self._synced = -1  # the last batch that was written, and that is on the disk

    # ---- after a restart --------------------------------------------------------------------------------------------

    def records(self, after: int) -> Iterator[tuple[int, bytes]]:
        """Every record behind a batch, in order. A torn end is cut off."""
        paths = self._paths()
        expected = None
        for place, path in enumerate(paths):
            if place + 1 < len(paths) and _first_of(paths[place + 1]) <= after + 1:
                continue
            for number, payload in self._read(path, is_last=place + 1 == len(paths)):
                if expected is not None and number != expected:
                    raise self._damaged(path, f"batch {number:,} follows batch {expected - 1:,}")
                expected = number + 1
                if number > after:
                    yield number, payload

    def _read(self, path: Path, *, is_last: bool) -> Iterator[tuple[int, bytes]]:
        size, at = path.stat().st_size, 0
        with path.open("rb") as file:
            while at < size:
                head = file.read(_HEAD.size)
                payload, whole = b"", len(head) == _HEAD.size
                if whole:
                    magic, total, number, length = _HEAD.unpack(head)
                    whole = magic in (_MAGIC, _FOLLOWS) and at + _HEAD.size + length <= size
                if whole:
                    payload = file.read(length)
                    whole = crc32(payload, crc32(head[8:])) == total
                if not whole:
                    if not _is_zero(file, at) and (not is_last or _has_more(file, at)):
                        raise self._damaged(path, f"what stands at byte {at:,} is no record")
                    if is_last:
                        os.truncate(path, at)
                        self.is_torn = True
                    return
                yield number, payload
                at += _HEAD.size + length

    def _damaged(self, path: Path, how: str) -> RunError:
        return RunError(
            f"{path} is damaged: {how}", hint="restore the checkpoint from a copy, or start anew with a new one"
        )

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
        rest = struct.pack("<qQ", number, length)
        total = crc32(rest)
        for view in views:
            total = crc32(view, total)
        magic = _MAGIC if self._synced >= self._appended else _FOLLOWS
        head = memoryview(struct.pack("<4sI", magic, total) + rest)
        with written(self._path):
            if self._sync and length < _SMALL and self._end + _HEAD.size + length > self._filled:
                self._fill()
            _write_all(self._file, [head, *views], self._end)
        self._end += _HEAD.size + length
        self._appended = number
        if not soon:
            self.sync(number)
        if self._is_mirrored:  # where nothing grows: a record is a file of its own
            self.close()
            mirror.put(self._path)

    def sync(self, until: int) -> None:
        """Return when all records up to a batch are on the disk. For any thread. What comes after it, such as a commit
        of their answers, is for who holds the checkpoint alone."""
        if self._is_mirrored:
            mirror.check(self._folder)
        with self._syncing:
            if until > self._synced:
                self._bring_to_disk()

    def _bring_to_disk(self) -> None:
        appended = self._appended
        if self._sync and self._file is not None:
            with written(self._path):
                os.fdatasync(self._file)
        self._synced = appended

    def _fill(self) -> None:
        assert self._file is not None
        start = max(self._end, self._filled)
        _write_all(self._file, [memoryview(bytes(_ROOM))], start)
        self._filled = start + _ROOM

    def _open(self, number: int) -> None:
        self._path = self._folder / f"{_PREFIX}{number:015d}{_SUFFIX}"
        with written(self._path):
            path, flags = self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
            self._file = tried_again(lambda: os.open(path, flags, 0o600))
            self._end = self._filled = os.fstat(self._file).st_size
            if self._sync:
                sync_folder(self._folder)

    def roll(self) -> None:
        """The next record begins another file."""
        self.close()

    def forget(self, until: int) -> None:
        """Remove files that hold nothing behind a batch."""
        paths = self._paths()
        for path, following in pairwise(paths):
            if _first_of(following) <= until + 1:
                remove_file(path)

    def close(self) -> None:
        with self._syncing:
            if self._file is None:
                return
            try:
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
        return sorted(self._folder.glob(f"{_PREFIX}*{_SUFFIX}"))


def _first_of(path: Path) -> int:
    return int(path.name[len(_PREFIX) : -len(_SUFFIX)])


def _has_more(file: Any, at: int) -> bool:
    """Whether a record stands behind a place that has none, and all before it was on the disk when it was written: then
    the end is not torn, the middle is damaged."""
    file.seek(at + 1)
    rest = file.read()
    found = rest.find(_MAGIC)
    while found >= 0:
        head = rest[found : found + _HEAD.size]
        if len(head) == _HEAD.size:
            _, total, _, length = _HEAD.unpack(head)
            payload = rest[found + _HEAD.size : found + _HEAD.size + length]
            if len(payload) == length and crc32(payload, crc32(head[8:])) == total:
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
