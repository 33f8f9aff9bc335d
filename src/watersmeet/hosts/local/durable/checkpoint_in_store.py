"""A checkpoint in a store: what is written into a folder of this machine is put there, too, before it counts.

The folder is scratch: every start makes a new one and fetches what the store has, so a checkpoint outlives the machine.
A store has neither appending nor renaming, and needs none: a record of the journal is an object of its own, and so is
every file of a snapshot, which counts when the object that names its parts was put.

Nor has it locks. Who holds a checkpoint says so in an object, and again every few seconds. Another start is refused
meanwhile; who finds that somebody else has taken it over stops before it puts anything more. Two starts in the same
moment may miss each other.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Lock, Thread
from time import monotonic, time
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.fs as pa_fs

from watersmeet.errors import RunError
from watersmeet.hosts.local.durable.place import Place
from watersmeet.io.filesystems import is_in_store, located
from watersmeet.io.store_errors import gist_of
from watersmeet.io.whole_files import put_whole
from watersmeet.private_folders import temporary_root
from watersmeet.temporary_folders import TemporaryFolder

HOLDER = "holder.json"
HOLDING = "watersmeet holds its checkpoint"  # the name of a thread
RENEW_S = 5.0
LEASE_S = 30.0
_HOLDER = {"who": str, "host": str, "pid": int, "at": float}  # what it says, and of which type


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
        with self._naming_errors("be reached"):
            self._files, self._base = located(address, ())
        self._who = {"who": uuid4().hex, "host": socket.gethostname(), "pid": os.getpid()}
        self._lost: RunError | None = None
        self._renewed_s = monotonic()
        self._users = 0
        self._lock = Lock()
        self._stop = Event()
        self._refuse_second()
        self._say()
        self._scratch = TemporaryFolder("watersmeet-checkpoint-", temporary_root())
        self.folder = self._scratch.path
        try:
            self._fetch()
        except BaseException:
            self._let_go()
            raise
        Thread(target=self._renew, name=HOLDING, daemon=True).start()

    def put(self, name: str) -> None:
        self.check()
        with self._naming_errors("be written"):
            self._put(name, (self.folder / name).read_bytes())

    def remove(self, name: str) -> None:
        self.check()
        with self._naming_errors("be written"), suppress(FileNotFoundError):
            self._files.delete_file(f"{self._base}/{name}")

    # ---- who holds it -----------------------------------------------------------------------------------------------

    def hold(self) -> None:
        with self._lock:
            self._users += 1

    def release(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users > 0:
                return
        self._stop.set()
        self._let_go()

    def _let_go(self) -> None:
        with suppress(OSError, pa.ArrowException, RunError):
            if self._lost is None and self._holder().get("who") == self._who["who"]:
                self._files.delete_file(f"{self._base}/{HOLDER}")
        self._scratch.remove()

    def _refuse_second(self) -> None:
        holder = self._holder()
        age_s = time() - float(holder.get("at", 0))
        if not holder or age_s > LEASE_S or (holder["host"] == self._who["host"] and not _is_alive(holder["pid"])):
            return
        raise RunError(
            f"another run is using the checkpoint {self.address}: process {holder['pid']} on {holder['host']}",
            hint=f"stop it first; if it died, wait {LEASE_S:.0f} seconds",
        )

    def _holder(self) -> dict[str, Any]:
        with self._naming_errors("be read"):
            try:
                with self._files.open_input_stream(f"{self._base}/{HOLDER}") as stream:
                    holder = json.loads(stream.read())
                    return {name: kind(holder[name]) for name, kind in _HOLDER.items()}
            except FileNotFoundError:
                return {}
            except (ValueError, TypeError, KeyError):
                raise RunError(
                    f"{self.address}/{HOLDER} is damaged: it does not say who is using the checkpoint",
                    hint="remove it if nobody is",
                ) from None

    def _say(self) -> None:
        with self._naming_errors("be written"):
            self._put(HOLDER, json.dumps(self._who | {"at": time()}).encode())

    def _renew(self) -> None:
        while not self._stop.wait(RENEW_S):
            try:
                if self._holder().get("who") != self._who["who"]:
                    self._lost = RunError(
                        f"another run has taken over the checkpoint {self.address}",
                        hint="only one of them may go on; this one has stopped, and nothing is lost",
                    )
                    return
                self._say()
                self._renewed_s = monotonic()
            except RunError:  # a store that is away for a moment is no reason to stop; one that stays away is
                continue

    def check(self) -> None:
        if self._lost is not None:
            raise self._lost
        if monotonic() - self._renewed_s > LEASE_S:
            raise RunError(
                f"the store of the checkpoint {self.address} has not answered for {LEASE_S:.0f} seconds",
                hint="start again with the same checkpoint: nothing is lost",
            )

    # ---- objects ----------------------------------------------------------------------------------------------------

    def _fetch(self) -> None:
        with self._naming_errors("be read"):
            found = self._files.get_file_info(pa_fs.FileSelector(self._base, recursive=True, allow_not_found=True))
            for info in found:
                inside = info.path[len(self._base) :].lstrip("/")
                if info.type != pa_fs.FileType.File or inside == HOLDER:
                    continue
                target = self.folder / inside
                target.parent.mkdir(parents=True, exist_ok=True)
                with self._files.open_input_stream(info.path, compression=None) as stream:
                    target.write_bytes(stream.read())

    def _put(self, name: str, data: bytes) -> None:
        put_whole(self._files, f"{self._base}/{name}", data)

    @contextmanager
    def _naming_errors(self, what: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            raise RunError(f"the checkpoint {self.address} cannot {what}: {_line(error)}") from None
        except (OSError, pa.ArrowException) as error:
            raise RunError(
                f"the checkpoint {self.address} cannot {what}: {_line(error)}",
                hint="mend that, then start again with the same checkpoint: nothing is lost",
            ) from None


def _line(error: BaseException) -> str:
    return gist_of(error) or str(error).split("\n", 1)[0].rstrip(".")[:300]


def _is_alive(pid: int) -> bool:
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
