"""Who holds a checkpoint in a store: one run at a time, which says so in an object, and again every few seconds.

It is put only where none is, or in place of the very one that was read (a conditional put), so that of two who start at
one moment the store takes one. Another start is refused while the holder is alive; who finds that somebody else has
taken it over stops before it puts anything more.

Arrow's file systems put without conditions, so obstore does it, for the stores that it knows; a folder of this machine
has a lock. Elsewhere, and in stores that do not look at the conditions, two starts at one moment may miss each other,
which is told.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from threading import Event, Thread
from time import monotonic, time
from typing import Any, Protocol, Self
from uuid import uuid4

import pyarrow as pa
import pyarrow.fs as pa_fs

from watersmeet.errors import RunError
from watersmeet.io.filesystems import located
from watersmeet.io.store_errors import gist_of
from watersmeet.io.whole_files import put_whole
from watersmeet.warning import StateWarning, warn

HOLDER = "holder.json"
HOLDING = "watersmeet holds its checkpoint"  # the name of a thread
RENEW_S = 5.0
LEASE_S = 30.0
_HOLDER = {"who": str, "host": str, "pid": int, "at": float}  # what it says, and of which type
_LET_GO = {"at": 0.0}
# The schemes of stores that obstore knows, as it spells them.
_CONDITIONAL = {"s3": "s3", "s3a": "s3", "s3n": "s3", "gs": "gs", "gcs": "gs", "abfs": "abfs", "abfss": "abfss"}

Tag = str | None


class TakenError(Exception):
    """Somebody else has put an object meanwhile."""


class HolderObject(Protocol):
    """The object, with a tag that tells what was read from what is there."""

    def read(self) -> tuple[bytes, Tag] | None: ...

    def put(self, data: bytes, instead_of: Tag) -> Tag:
        """instead_of: of the object that was read; None if there was none."""


class Holding:
    """A checkpoint that this process holds, from when this is made until it is released."""

    def __init__(self, address: str) -> None:
        with naming_errors(address, "be reached"):
            found, why_not = _object(address)
        self._begin(address, found, why_not)

    @classmethod
    def by_conditions(cls, address: str, options: Mapping[str, str]) -> Self | None:
        """None, and a warning, where nothing can be put by conditions. options: how the store is entered, as obstore
        names them, beside what the environment says."""
        found, why_not = _conditional(address, options)
        if found is None:
            _tell(address, why_not)
            return None
        made = cls.__new__(cls)
        made._begin(address, found, "")
        return made

    def _begin(self, address: str, holder: HolderObject, why_not: str) -> None:
        """why_not: it is certain that nobody else does the same."""
        self.address = address
        self._object = holder
        self._who = {"who": uuid4().hex, "host": socket.gethostname(), "pid": os.getpid()}
        self._lost: RunError | None = None
        self._renewed_s = monotonic()
        self._stop = Event()
        self._tag = self._take()
        why_not = why_not or self._why_unconditional()
        if why_not:
            _tell(address, why_not)
        self._thread = Thread(target=self._renew, name=HOLDING, daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raises if somebody else may hold it by now."""
        if self._lost is not None:
            raise self._lost
        if monotonic() - self._renewed_s > LEASE_S:
            raise RunError(
                f"the store of the checkpoint {self.address} has not answered for {LEASE_S:.0f} seconds",
                hint="start again with the same checkpoint: nothing is lost",
            )

    def release(self) -> None:
        self._stop.set()
        self._thread.join(LEASE_S / 3)
        with suppress(OSError, pa.ArrowException, RunError, TakenError):
            if self._lost is None:
                self._put(self._who | _LET_GO, self._tag)

    # ---- taking and keeping it --------------------------------------------------------------------------------------

    def _take(self) -> Tag:
        holder, tag = self._read()
        self._refuse(holder)
        try:
            return self._put(self._said(), tag)
        except TakenError:
            holder, tag = self._read()
            if holder.get("who") == self._who["who"]:  # it was put, and the answer of the store was lost
                return tag
            self._refuse(holder)
            raise self._held_by(holder) from None  # who has just let it go

    def _refuse(self, holder: dict[str, Any]) -> None:
        age_s = time() - float(holder.get("at", 0))
        if not holder or age_s > LEASE_S or (holder["host"] == self._who["host"] and not _is_alive(holder["pid"])):
            return
        raise self._held_by(holder)

    def _held_by(self, holder: dict[str, Any]) -> RunError:
        return RunError(
            f"another run is using the checkpoint {self.address}: process {holder.get('pid')} on {holder.get('host')}",
            hint=f"stop it first; if it died, wait {LEASE_S:.0f} seconds",
        )

    def _why_unconditional(self) -> str:
        """There are stores that put whatever the condition: such a one puts a second time where nothing should be."""
        try:
            self._tag = self._put(self._said(), None)
        except TakenError:
            return ""
        return "this store takes an object in place of another where it was told not to"

    def _renew(self) -> None:
        while not self._stop.wait(RENEW_S):
            try:
                self._tag = self._put(self._said(), self._tag)
                self._renewed_s = monotonic()
            except TakenError:
                if not self._is_still_held():
                    return
            except RunError:  # a store that is away for a moment is no reason to stop; one that stays away is
                continue

    def _is_still_held(self) -> bool:
        """A put whose answer was lost has changed the tag as well."""
        with suppress(RunError):
            holder, tag = self._read()
            if holder.get("who") != self._who["who"]:
                self._lost = RunError(
                    f"another run has taken over the checkpoint {self.address}",
                    hint="only one of them may go on; this one has stopped, and nothing is lost",
                )
                return False
            self._tag = tag
        return True

    # ---- the object -------------------------------------------------------------------------------------------------

    def _said(self) -> dict[str, Any]:
        return self._who | {"at": time()}

    def _read(self) -> tuple[dict[str, Any], Tag]:
        with naming_errors(self.address, "be read"):
            found = self._object.read()
        if found is None:
            return {}, None
        try:
            holder = json.loads(found[0])
            return {name: kind(holder[name]) for name, kind in _HOLDER.items()}, found[1]
        except (ValueError, TypeError, KeyError):
            raise RunError(
                f"{self.address}/{HOLDER} is damaged: it does not say who is using the checkpoint",
                hint="remove it if nobody is",
            ) from None

    def _put(self, said: dict[str, Any], instead_of: Tag) -> Tag:
        with naming_errors(self.address, "be written"):
            return self._object.put(json.dumps(said).encode(), instead_of)


def _object(address: str) -> tuple[HolderObject, str]:
    """The object of a checkpoint, and why it may be put by two at once, if it may."""
    files, base = located(address, ())
    if isinstance(files, pa_fs.LocalFileSystem) and os.name == "posix":
        return FileUnderLock(Path(base)), ""
    found, why_not = _conditional(address, {})
    return (PlainObject(files, f"{base}/{HOLDER}") if found is None else found), why_not


def _conditional(address: str, options: Mapping[str, str]) -> tuple[ConditionalObject | None, str]:
    scheme, _, rest = address.partition("://")
    spelt = _CONDITIONAL.get(scheme.lower())
    if spelt is None:
        return None, f"nothing is known that puts objects of {scheme}:// only where none is"
    if find_spec("obstore") is None:
        return None, "obstore is not installed: pip install 'watersmeet[stores]'"
    try:
        found = ConditionalObject(f"{spelt}://{rest.rstrip('/')}", options)
        found.read()
    except Exception as error:
        if not _is_of_obstore(error):
            raise
        return None, f"obstore, which puts objects only where none is, cannot enter the store ({_line(error)})"
    return found, ""


def _tell(address: str, why_not: str) -> None:
    told = f"two starts of {address} at one moment may both go on: {why_not}"
    warn(StateWarning("unguarded_checkpoint", told))


class ConditionalObject:
    """In a store that puts by conditions."""

    def __init__(self, address: str, options: Mapping[str, str]) -> None:
        import obstore
        from obstore import store

        self._obstore: Any = obstore
        from_url: Any = store.from_url  # its types are those of each kind of store
        ways = dict(options)
        if address.startswith("s3:"):
            usual = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
            ways |= {} if usual is None or "endpoint" in ways else {"endpoint": usual}
        self._store = from_url(
            address,
            config=ways or None,
            client_options={"allow_http": ways.get("endpoint", "").startswith("http://"), "timeout": "10s"},
            retry_config={"max_retries": 3, "retry_timeout": timedelta(seconds=LEASE_S / 3)},
        )

    def read(self) -> tuple[bytes, Tag] | None:
        try:
            found = self._obstore.get(self._store, HOLDER)
        except FileNotFoundError:
            return None
        return bytes(found.bytes()), found.meta["e_tag"]

    def put(self, data: bytes, instead_of: Tag) -> Tag:
        errors = self._obstore.exceptions
        try:
            mode: Any = "create" if instead_of is None else {"e_tag": instead_of}
            return str(self._obstore.put(self._store, HOLDER, data, mode=mode)["e_tag"])
        except (errors.AlreadyExistsError, errors.PreconditionError, FileNotFoundError):
            raise TakenError from None


class FileUnderLock:
    """In a folder, which is locked while the file is compared and written."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self) -> tuple[bytes, Tag] | None:
        try:
            data = (self._folder / HOLDER).read_bytes()
        except FileNotFoundError:
            return None
        return data, sha256(data).hexdigest()

    def put(self, data: bytes, instead_of: Tag) -> Tag:
        import fcntl

        self._folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(self._folder, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            found = self.read()
            if (None if found is None else found[1]) != instead_of:
                raise TakenError
            put_whole(pa_fs.LocalFileSystem(), str(self._folder / HOLDER), data)
        finally:
            os.close(handle)
        return sha256(data).hexdigest()


class PlainObject:
    """Where nothing is put by conditions: it is looked at before."""

    def __init__(self, files: pa_fs.FileSystem, path: str) -> None:
        self._files, self._path = files, path

    def read(self) -> tuple[bytes, Tag] | None:
        try:
            with self._files.open_input_stream(self._path) as stream:
                data = stream.read()
        except FileNotFoundError:
            return None
        return data, sha256(data).hexdigest()

    def put(self, data: bytes, instead_of: Tag) -> Tag:
        found = self.read()
        if (None if found is None else found[1]) != instead_of:
            raise TakenError
        put_whole(self._files, self._path, data)
        return sha256(data).hexdigest()


# ---- errors ---------------------------------------------------------------------------------------------------------


@contextmanager
def naming_errors(address: str, what: str) -> Iterator[None]:
    """Whatever a store says becomes one sentence that names the checkpoint."""
    try:
        yield
    except FileNotFoundError as error:
        raise RunError(f"the checkpoint {address} cannot {what}: {_line(error)}") from None
    except Exception as error:
        if not isinstance(error, (OSError, pa.ArrowException)) and not _is_of_obstore(error):
            raise
        raise RunError(
            f"the checkpoint {address} cannot {what}: {_line(error)}",
            hint="mend that, then start again with the same checkpoint: nothing is lost",
        ) from None


def _is_of_obstore(error: BaseException) -> bool:
    return any(one.__module__ == "obstore.exceptions" for one in type(error).__mro__)


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
