"""A checkpoint in a store: what is written into a folder of this machine is put there, too, before it counts.

The folder is scratch: every start makes a new one and fetches what the store has, so a checkpoint outlives the machine.
A store has neither appending nor renaming, and needs none: a record of the journal is an object of its own, and so is
every file of a snapshot, which counts when the object that names its parts was put.

Nor has it locks: who holds a checkpoint says so there (`io/holding.py`).
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from threading import Lock

import pyarrow.fs as pa_fs

from watersmeet.hosts.local.durable.place import Place
from watersmeet.io.filesystems import is_in_store, located
from watersmeet.io.holding import HOLDER, Holding, naming_errors
from watersmeet.io.whole_files import put_whole
from watersmeet.private_folders import temporary_root
from watersmeet.temporary_folders import TemporaryFolder


def place_of(checkpoint: str | os.PathLike[str]) -> Place:
    """The place of a checkpoint. In a store it is held while one is in its context, and for as long as runs that were
    made meanwhile."""
    address = os.fspath(checkpoint)
    if is_in_store(address):
        return PlaceInStore(CheckpointInStore(address.rstrip("/")))
    return Place(Path(address).expanduser().absolute())


class PlaceInStore(Place):
    """What is written into the folder is put into the store."""

    has_copy = True

    def __init__(self, store: CheckpointInStore, inside: str = "") -> None:
        """inside: of the checkpoint, a folder with a slash behind it."""
        super().__init__(store.folder / inside)
        self._store, self._inside = store, inside

    def below(self, name: str) -> Place:
        return PlaceInStore(self._store, f"{self._inside}{name}/")

    def shown(self, name: str = "") -> str:
        return f"{self._store.address}/{self._inside}{name}".rstrip("/")

    def put(self, name: str) -> None:
        self._store.put(self._inside + name)

    def remove(self, name: str) -> None:
        super().remove(name)
        self._store.remove(self._inside + name)

    def hold(self) -> None:
        self._store.hold()

    def release(self) -> None:
        self._store.release()

    def check(self) -> None:
        self._store.check()


class CheckpointInStore:
    """With its folder of this machine."""

    def __init__(self, address: str) -> None:
        self.address = address
        with naming_errors(address, "be reached"):
            self._files, self._base = located(address, ())
        self._users = 0
        self._lock = Lock()
        self._holding = Holding(address)
        self.check = self._holding.check
        self._scratch = TemporaryFolder("watersmeet-checkpoint-", temporary_root())
        self.folder = self._scratch.path
        try:
            self._fetch()
        except BaseException:
            self._let_go()
            raise

    def put(self, name: str) -> None:
        self.check()
        with naming_errors(self.address, "be written"):
            put_whole(self._files, f"{self._base}/{name}", (self.folder / name).read_bytes())

    def remove(self, name: str) -> None:
        self.check()
        with naming_errors(self.address, "be written"), suppress(FileNotFoundError):
            self._files.delete_file(f"{self._base}/{name}")

    def hold(self) -> None:
        with self._lock:
            self._users += 1

    def release(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users > 0:
                return
        self._let_go()

    def _let_go(self) -> None:
        self._holding.release()
        self._scratch.remove()

    def _fetch(self) -> None:
        with naming_errors(self.address, "be read"):
            found = self._files.get_file_info(pa_fs.FileSelector(self._base, recursive=True, allow_not_found=True))
            for info in found:
                inside = info.path[len(self._base) :].lstrip("/")
                if info.type != pa_fs.FileType.File or inside == HOLDER:
                    continue
                target = self.folder / inside
                target.parent.mkdir(parents=True, exist_ok=True)
                with self._files.open_input_stream(info.path, compression=None) as stream:
                    target.write_bytes(stream.read())
