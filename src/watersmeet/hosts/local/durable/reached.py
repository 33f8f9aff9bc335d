"""How far a run has come for certain, noted beside the files that hold it: if they say less, something is lost.

The end of the journal may be torn by a crash, which is harmless, or be damaged later, which is not. Nothing in it can
tell the two apart; that its last batch was acknowledged stands here. It is written when the journal is on the disk,
and is not waited for: a process that dies loses nothing of it, and of a machine that goes down it may lack the last
moments.
"""

from __future__ import annotations

import os
import struct
from contextlib import suppress
from threading import Lock
from time import monotonic
from zlib import crc32

from watersmeet.errors import RunError
from watersmeet.hosts.local.durable.place import Place
from watersmeet.io.whole_files import sync

FILE = "reached"
_NUMBERS = struct.Struct("<4sqqq")
_SUM = struct.Struct("<I")
_MAGIC = b"wmr1"
_PUT_S = 5.0  # in a store it is put so often, at most


class Reached:
    """`logged`: up to this batch the journal is on the disk. `given`: up to it all answers are in their sinks, or were
    taken. `saved`: the newest snapshot."""

    def __init__(self, place: Place, run: str = "", *, has_begun: bool = False) -> None:
        """has_begun: whether batches are there, so that this must be there too."""
        self._place, self._path = place, place.folder / FILE
        self._seed = crc32(run.encode())
        self._file: int | None = None
        self._lock = Lock()
        self._put_at_s = 0.0
        self.logged = self.given = self.saved = -1
        self.is_known = self._read() or not has_begun

    def _read(self) -> bool:
        try:
            data = self._path.read_bytes()
        except OSError:
            return False
        numbers = data[: _NUMBERS.size]
        if data[_NUMBERS.size :] != _SUM.pack(self._sum(numbers)):
            return False
        _, self.logged, self.given, self.saved = _NUMBERS.unpack(numbers)
        return True

    def check_known(self) -> None:
        """Where something else is damaged, nobody can say what is lost without it."""
        if not self.is_known:
            raise self.damage()

    def damage(self) -> RunError:
        return self._place.damaged(FILE, "it does not say up to where all must be there")

    def begin(self, logged: int, given: int, saved: int) -> None:
        """Batches go on from here."""
        with self._place.writing(FILE):
            self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            os.ftruncate(self._file, _NUMBERS.size + _SUM.size)
            self._tell(max(self.logged, logged), max(self.given, given), saved)
            os.fsync(self._file)
            sync(self._place.folder)
        self.is_known = True
        self._place.put(FILE)

    def log(self, number: int) -> None:
        """The journal is on the disk up to a batch."""
        with self._lock, self._place.writing(FILE):
            if self._file is None or number <= self.logged:
                return
            self._tell(number, self.given, self.saved)
        if self._place.has_copy and monotonic() >= self._put_at_s:
            self._put_at_s = monotonic() + _PUT_S
            self._place.put(FILE)

    def give(self, number: int) -> None:
        """All answers up to a batch are in their sinks. On the disk when this returns."""
        self._note(self.logged, number, self.saved)

    def save(self, number: int) -> None:
        """The snapshot of a batch counts."""
        self._note(self.logged, self.given, number)

    def _note(self, logged: int, given: int, saved: int) -> None:
        with self._lock, self._place.writing(FILE):
            if self._file is None:
                return
            self._tell(max(self.logged, logged), given, saved)
            os.fdatasync(self._file)
        self._place.put(FILE)

    def _tell(self, logged: int, given: int, saved: int) -> None:
        assert self._file is not None
        self.logged, self.given, self.saved = logged, given, saved
        data = _NUMBERS.pack(_MAGIC, logged, given, saved)
        os.pwrite(self._file, data + _SUM.pack(self._sum(data)), 0)

    def _sum(self, data: bytes) -> int:
        return crc32(data, self._seed)

    def close(self) -> None:
        with self._lock:
            if self._file is not None:
                os.close(self._file)
                self._file = None
                with suppress(RunError):  # who has lost the checkpoint says so elsewhere
                    self._place.put(FILE)
