"""A folder of a store that takes the files of batches: an object is there whole, once it was put.

A store has no rename. Where a commit is several files, a mark is put behind them; files of a number without a mark are
what a crash has left, and are removed by the next life of the run.

Nor has it a lock. Every start of a run puts an object of its own that says so, and looks for a newer one before and
after it puts a batch; the largest name is the newest. Nothing is replaced there, so that no claim is lost where a store
cannot compare before it writes. A put that was under way when another start claimed the folder cannot be held back:
whoever put it ends, and says so.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pyarrow.fs as pa_fs

from watersmeet.io.connectors.claims import TRIES, Claim, Owner, owner_in
from watersmeet.io.connectors.contract import SinkOpening
from watersmeet.io.connectors.files.folder import Folder
from watersmeet.io.connectors.files.local_folder import PREFIX, lock_of
from watersmeet.io.connectors.files.names import COMMITTED, STARTS
from watersmeet.io.modes import is_file_not_folder, visible_files
from watersmeet.io.sealed import sealed, sealed_note
from watersmeet.io.whole_files import put_whole
from watersmeet.private_folders import temporary_root
from watersmeet.temporary_folders import temporary_folder


class StoreFolder:
    def __init__(self, opening: SinkOpening, folder: Folder, *, several: bool) -> None:
        """several: whether a commit is several files."""
        self._folder, self._several = folder, several
        self._mark = COMMITTED.format(run=opening.run)
        self._scratch: Path | None = None
        self.claim = StoreClaim(opening, folder)
        self._lock = None if opening.start is None else f"{PREFIX}{opening.run}"

    def __str__(self) -> str:
        return self._folder.address

    def naming_errors(self, hint: str | None = None) -> AbstractContextManager[None]:
        return self._folder.naming_errors("cannot be written", hint)

    @contextmanager
    def _unmerged(self) -> Iterator[None]:
        """Where it is a folder of this machine, nobody merges files in it meanwhile."""
        if self._lock is None or not isinstance(self._folder.file_system, pa_fs.LocalFileSystem):
            yield
            return
        path = Path(self._folder.path)
        if path.is_file():
            raise is_file_not_folder(self._folder.address)
        path.mkdir(parents=True, exist_ok=True)
        with lock_of(path / self._lock, shared=True):
            yield

    def take_over(self) -> int:
        with self._unmerged():
            return self._take_over()

    def _take_over(self) -> int:
        self.claim.take_over()
        if self._folder.file_system.get_file_info(self._folder.path).type == pa_fs.FileType.File:
            raise is_file_not_folder(self._folder.address)
        if not self._several:
            return -1
        files, path = self._folder.file_system, f"{self._folder.path}/{self._mark}"
        with suppress(FileNotFoundError), files.open_input_stream(path) as stream:
            return int(sealed_note(self._mark, stream.read(), f"{self._folder.address}/{self._mark}")["number"])
        return -1

    def committed(self, marked: int, largest: int) -> int:
        return marked if self._several else largest

    def files(self) -> list[str]:
        return visible_files(self._folder.file_system, self._folder.path)

    def remove(self, files: Sequence[str]) -> None:
        for path in files:
            self._folder.file_system.delete_file(f"{self._folder.path}/{path}")

    @contextmanager
    def drafting(self) -> Iterator[Path]:
        with temporary_folder("watersmeet-store-", temporary_root()) as self._scratch:
            yield self._scratch

    def publish(self, number: int, drafts: Mapping[str, str]) -> None:
        with self._unmerged():
            self._publish(number, drafts)

    def _publish(self, number: int, drafts: Mapping[str, str]) -> None:
        assert self._scratch is not None
        self.claim.begin_commit()
        for name, place in drafts.items():
            put(self._folder, place, (self._scratch / name).read_bytes())
        if self._several:
            self.claim.check()  # the files count when the mark is there
            put(self._folder, self._mark, sealed(self._mark, json.dumps({"number": number}).encode()))
        self.claim.check()


class StoreClaim:
    def __init__(self, opening: SinkOpening, folder: Folder) -> None:
        self._claim, self._folder = Claim.of(opening), folder
        self._inside = f"{STARTS}{opening.run}"
        self._own: Owner | None = None

    @property
    def written_by(self) -> str | None:
        return self._claim.written_by

    def take_over(self) -> None:
        if not self._claim.is_made:
            return
        for _ in range(TRIES):
            before = self._names()
            self._own = own = self._next(before)
            self._put(own)
            # Again, if another start has put its object meanwhile: whose is newer is not left to chance.
            if self._names() == sorted({*before, _name(own)}):
                self._forget(before)
                break

    def _next(self, names: Sequence[str]) -> Owner:
        found = [owner for name in names if (owner := self._read(name)) is not None]
        if not found:
            return self._claim.taking_over(None)
        # The newest need not have written anything; what is there is of the newest of those that have.
        by = next((one.token for one in reversed(found) if one.written_by), None)
        return replace(self._claim.taking_over(replace(found[-1], written_by=by)), written_by=None)

    def _forget(self, names: Sequence[str]) -> None:
        """But for the start that has written what is there."""
        for name in names:
            if name.partition("-")[2] != f"{self.written_by}.json":
                with suppress(FileNotFoundError):
                    self._folder.file_system.delete_file(self._path(name))

    def begin_commit(self) -> None:
        """Before the first object of a batch: raises if the folder is another start's."""
        if self._own is None:
            return
        self.check()
        wrote = self._claim.committed(self._own)
        if wrote is not None:
            self._own = wrote
            self._put(wrote)

    def check(self) -> None:
        if self._own is None:
            return
        names = self._names()
        if not names:  # whoever reads the files may have taken away all that was there
            self._put(self._own)
            names = [_name(self._own)]
        self._claim.check(self._own if names[-1] == _name(self._own) else self._read(names[-1]))

    def _names(self) -> list[str]:
        selector = pa_fs.FileSelector(f"{self._folder.path}/{self._inside}", allow_not_found=True)
        found = self._folder.file_system.get_file_info(selector)
        return sorted(one.base_name for one in found if one.base_name.endswith(".json") and one.base_name[0] != ".")

    def _read(self, name: str) -> Owner | None:
        with suppress(FileNotFoundError), self._folder.file_system.open_input_stream(self._path(name)) as stream:
            return owner_in(stream.read(), f"{self._folder.address}/{self._inside}/{name}")
        return None

    def _put(self, owner: Owner) -> None:
        put(self._folder, f"{self._inside}/{_name(owner)}", owner.as_text().encode())

    def _path(self, name: str) -> str:
        return f"{self._folder.path}/{self._inside}/{name}"


def _name(owner: Owner) -> str:
    return f"{owner.start:09d}-{owner.token}.json"


def put(folder: Folder, name: str, data: bytes) -> None:
    """An object that is there whole or not at all."""
    put_whole(folder.file_system, f"{folder.path}/{name}", data)
