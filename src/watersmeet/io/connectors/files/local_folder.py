"""A folder of this machine that takes the files of batches: written there under hidden names, and renamed.

Where a commit is several files, one hidden list says where they belong: from then on it counts. They are put there one
after the other, and after a crash the list tells which are missing. A hidden file says who owns the folder, and is
locked while a batch is put in its place.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

import pyarrow.fs as pa_fs

from watersmeet.errors import SinkError
from watersmeet.io.connectors.claims import STRANGER, Claim, Owner, owner_in
from watersmeet.io.connectors.contract import Start
from watersmeet.io.drafts import put_in_place
from watersmeet.io.modes import SPARK_LOG, is_file_not_folder, visible_files
from watersmeet.io.retrying import retried
from watersmeet.io.sealed import sealed, sealed_note
from watersmeet.io.whole_files import sync, write_whole
from watersmeet.io.writers import writable

PREFIX = ".start-"
PATIENCE_S = 30.0  # a lock is held while files are renamed
# All of it is written at once, over what was there: a file that were replaced could not be the lock as well.
_SIZE = 1024


class LocalFolder:
    def __init__(self, name: str, path: Path, run: str, start: Start | None) -> None:
        self._path, self._run = path, run
        self._list = path / f".commit-{run}.json"
        self.claim = FolderClaim(name, path, run, start)

    def __str__(self) -> str:
        return str(self._path)

    def naming_errors(self, hint: str | None = None) -> AbstractContextManager[None]:
        return writable(self._path, hint)

    def take_over(self) -> int:
        if self._path.is_file():
            raise is_file_not_folder(self._path)
        self._path.mkdir(parents=True, exist_ok=True)
        with self.claim.taking_over():
            listed = self._finish()
            for drafts in (f".part-{self._run}-*.tmp", f".{self._list.name}.*.tmp"):
                for draft in self._path.glob(drafts):
                    draft.unlink(missing_ok=True)
        return listed

    def committed(self, marked: int, largest: int) -> int:
        return max(marked, largest)

    def files(self) -> list[str]:
        return visible_files(pa_fs.LocalFileSystem(), str(self._path))

    def remove(self, files: Sequence[str]) -> None:
        for name in {one.partition("/")[0] for one in files} | {SPARK_LOG}:
            if (self._path / name).is_dir():
                shutil.rmtree(self._path / name)
            else:
                (self._path / name).unlink(missing_ok=True)

    def drafting(self) -> AbstractContextManager[Path]:
        return nullcontext(self._path)

    def publish(self, number: int, drafts: Mapping[str, str]) -> None:
        with self.claim.committing():  # files may be merged there, and then the folder is another
            for name in drafts:
                sync(f"{self._path}/{name}")
            if len(drafts) == 1:
                put_in_place(self._path, drafts, self._path, on_disk=True)  # a rename is atomic
            else:
                listed = json.dumps({"number": number, "files": drafts}).encode()
                write_whole(self._list, sealed(self._list.name, listed))
                self._finish()

    def _finish(self) -> int:
        """Put the files of a list where they belong, but for those that are there; the number of the list, or -1."""
        try:
            listed = sealed_note(self._list.name, self._list.read_bytes(), str(self._list))
        except FileNotFoundError:
            return -1
        left = {draft: place for draft, place in listed["files"].items() if (self._path / draft).exists()}
        put_in_place(self._path, left, self._path, on_disk=True)
        self._list.unlink()
        return int(listed["number"])


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
        with lock_of(self._path) as file:
            yield file

    def _owner(self, file: int) -> Owner | None:
        os.lseek(file, 0, os.SEEK_SET)
        return owner_in(os.read(file, _SIZE), str(self._path))


@contextmanager
def lock_of(path: Path, *, shared: bool = False) -> Iterator[int]:
    """The file that says who owns a folder, which nobody else writes or goes by meanwhile. shared: others may hold it
    so as well."""
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        _lock(file, path, shared=shared)
        yield file
    finally:
        os.close(file)


def _lock(file: int, path: Path, *, shared: bool) -> None:
    if sys.platform == "win32":
        return
    import fcntl

    try:
        retried(
            lambda: fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB),
            lambda error: isinstance(error, BlockingIOError),
            for_s=PATIENCE_S,
            pause_s=0.005,
        )
    except BlockingIOError:
        raise SinkError(
            f"another process has held the lock of {path} for {PATIENCE_S:g} seconds",
            hint="a run that writes there may have been stopped amid a commit: end it, then start again",
        ) from None
    except OSError:  # a file system without locks: it stays as sure as looking right before
        return


def _write(file: int, owner: Owner) -> None:
    os.lseek(file, 0, os.SEEK_SET)
    os.write(file, owner.as_text().encode().ljust(_SIZE))
    os.fsync(file)
