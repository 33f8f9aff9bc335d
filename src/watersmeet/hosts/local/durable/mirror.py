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
import shutil
import socket
import tempfile
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
from watersmeet.io.filesystems import is_in_store, located
from watersmeet.io.store_errors import gist_of

HOLDER = "holder.json"
RENEW_S = 5.0
LEASE_S = 30.0
_HOLDER = {"who": str, "host": str, "pid": int, "at": float}  # what it says, and of which type
_mirrors: dict[Path, Mirror] = {}


def local_folder(checkpoint: str | os.PathLike[str]) -> Path:
    """The folder of a checkpoint: itself, or a scratch folder for one in a store."""
    address = os.fspath(checkpoint)
    if not is_in_store(address):
        return Path(address)
    address = address.rstrip("/")
    for other in [one for one in _mirrors.values() if one.address == address]:
        if other.is_used:
            raise RunError(f"another run of this process is using the checkpoint {address}", hint="stop it first")
        other.release()  # of a start that failed
        del _mirrors[other.folder]
    mirror = Mirror(address)
    _mirrors[mirror.folder] = mirror
    return mirror.folder


def put(path: Path) -> None:
    """A file of a checkpoint is whole: if its folder is that of one in a store, it is put there."""
    mirror = _mirror_of(path)
    if mirror is not None:
        mirror.put(path)


def removed(path: Path) -> None:
    mirror = _mirror_of(path)
    if mirror is not None:
        mirror.remove(path)


def is_mirrored(path: Path) -> bool:
    return _mirror_of(path) is not None


def check(folder: Path) -> None:
    """Raises if somebody else may hold the checkpoint by now."""
    mirror = _mirror_of(folder)
    if mirror is not None:
        mirror.check()


def hold(folder: Path) -> None:
    mirror = _mirror_of(folder)
    if mirror is not None:
        mirror.hold()


def release(folder: Path) -> None:
    mirror = _mirror_of(folder)
    if mirror is not None and mirror.release():
        _mirrors.pop(mirror.folder, None)


def shown(folder: Path) -> str:
    """The name of a checkpoint, for people."""
    mirror = _mirror_of(folder)
    return str(folder) if mirror is None else mirror.address_of(folder)


def _mirror_of(path: Path) -> Mirror | None:
    if not _mirrors:
        return None
    return next((_mirrors[one] for one in (path, *path.parents) if one in _mirrors), None)


class Mirror:
    def __init__(self, address: str) -> None:
        self.address = address
        with self._told("be reached"):
            self._files, self._base = located(address, ())
        self._who = {"who": uuid4().hex, "host": socket.gethostname(), "pid": os.getpid()}
        self._lost: RunError | None = None
        self._renewed_s = monotonic()
        self._users = 0
        self._lock = Lock()
        self._stop = Event()
        self._refuse_second()
        self._say()
        self.folder = Path(tempfile.mkdtemp(prefix="watersmeet-checkpoint-"))
        self._fetch()
        Thread(target=self._renew, name="watersmeet holds its checkpoint", daemon=True).start()

    def address_of(self, path: Path) -> str:
        inside = path.relative_to(self.folder).as_posix()
        return self.address if inside == "." else f"{self.address}/{inside}"

    def put(self, path: Path) -> None:
        self.check()
        with self._told("be written"):
            self._put(path.relative_to(self.folder).as_posix(), path.read_bytes())

    def remove(self, path: Path) -> None:
        self.check()
        with self._told("be written"), suppress(FileNotFoundError):
            self._files.delete_file(f"{self._base}/{path.relative_to(self.folder).as_posix()}")

    # ---- who holds it -----------------------------------------------------------------------------------------------

    @property
    def is_used(self) -> bool:
        return self._users > 0

    def hold(self) -> None:
        with self._lock:
            self._users += 1

    def release(self) -> bool:
        """Whether nobody uses it any more."""
        with self._lock:
            self._users -= 1
            if self._users > 0:
                return False
        self._stop.set()
        with suppress(OSError, pa.ArrowException, RunError):
            if self._lost is None and self._holder().get("who") == self._who["who"]:
                self._files.delete_file(f"{self._base}/{HOLDER}")
        shutil.rmtree(self.folder, ignore_errors=True)
        return True

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
        with self._told("be read"):
            try:
                with self._files.open_input_stream(f"{self._base}/{HOLDER}") as stream:
                    told = json.loads(stream.read())
                    return {name: kind(told[name]) for name, kind in _HOLDER.items()}
            except FileNotFoundError:
                return {}
            except (ValueError, TypeError, KeyError):
                raise RunError(
                    f"{self.address}/{HOLDER} is damaged: it does not say who is using the checkpoint",
                    hint="remove it if nobody is",
                ) from None

    def _say(self) -> None:
        with self._told("be written"):
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
        with self._told("be read"):
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
        path = f"{self._base}/{name}"
        if isinstance(self._files, pa_fs.LocalFileSystem):
            self._files.create_dir(path.rpartition("/")[0])
            with self._files.open_output_stream(f"{path}.tmp", compression=None) as stream:
                stream.write(data)
            self._files.move(f"{path}.tmp", path)
            return
        with self._files.open_output_stream(path, compression=None) as stream:
            stream.write(data)

    @contextmanager
    def _told(self, what: str) -> Iterator[None]:
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
