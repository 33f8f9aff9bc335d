"""Who owns a folder of answers, in a hidden file of it that is locked while a batch is put in its place."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from time import monotonic, sleep

from watersmeet.errors import SinkError
from watersmeet.io.connectors.claims import STRANGER, Claim, Owner, owner_in
from watersmeet.io.connectors.contract import Start

PREFIX = ".start-"
PATIENCE_S = 30.0  # a lock is held while files are renamed
# All of it is written at once, over what was there: a file that were replaced could not be the lock as well.
_SIZE = 1024


class FolderClaim:
    def __init__(self, name: str, folder: Path, run: str, start: Start | None) -> None:
        self._claim = Claim(name, run, start)
        self._path = folder / f"{PREFIX}{run}"

    @property
    def written_by(self) -> str | None:
        return self._claim.written_by

    @contextmanager
    def taking_over(self) -> Iterator[None]:
        """What is done inside is done before any other start may go on, or once it is done."""
        with self._locked() as file:
            if file is not None:
                _write(file, self._claim.taking_over(self._owner(file)))
            yield

    @contextmanager
    def committing(self) -> Iterator[None]:
        """What is done inside counts; raises if the folder is another start's."""
        with self._locked() as file:
            if file is not None:
                # Whoever reads the files may have taken away the folder with all that was in it.
                owner = self._owner(file) or self._claim.taking_over(None)
                now = self._claim.committed(owner)
                if now is not None:
                    _write(file, now)
            yield

    def check(self) -> None:
        """Raises if the folder is another start's."""
        with self._locked() as file:
            owner = None if file is None else self._owner(file)
            if owner is not None:
                self._claim.check(owner)

    def note_stranger(self) -> None:
        """That somebody has written there whom no checkpoint knows, so that no start goes on from one."""
        with self._locked() as file:
            owner = None if file is None else self._owner(file)
            if file is not None and owner is not None:
                _write(file, replace(owner, written_by=STRANGER))

    @contextmanager
    def _locked(self) -> Iterator[int | None]:
        if not self._claim.is_made:
            yield None
            return
        file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            _lock(file, self._path)
            yield file
        finally:
            os.close(file)

    def _owner(self, file: int) -> Owner | None:
        os.lseek(file, 0, os.SEEK_SET)
        return owner_in(os.read(file, _SIZE), str(self._path))


def _lock(file: int, path: Path) -> None:
    if sys.platform == "win32":
        return
    import fcntl

    until_s = monotonic() + PATIENCE_S
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if monotonic() > until_s:
                raise SinkError(
                    f"another process has held the lock of {path} for {PATIENCE_S:g} seconds",
                    hint="a run that writes there may have been stopped amid a commit: end it, then start again",
                ) from None
            sleep(0.005)
        except OSError:  # a file system without locks: it stays as sure as looking right before
            return


def _write(file: int, owner: Owner) -> None:
    os.lseek(file, 0, os.SEEK_SET)
    os.write(file, owner.as_text().encode().ljust(_SIZE))
    os.fsync(file)
