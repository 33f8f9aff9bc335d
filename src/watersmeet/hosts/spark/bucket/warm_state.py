"""Operators kept warm between batches, in memory that all Python workers of a node share.

Spark gives a bucket to any worker, so what one worker keeps to itself another misses. After each batch the state of an
operator is saved to a memory-backed file, its arrays as they are (operators/saving.py); the next worker maps them into
a fresh operator without copying. Every copy is stamped with the version and the random nonce that the state store holds
as well: what a failed or abandoned attempt left behind can never pass for the present state.

What is mapped is believed, so copies lie in a private folder (`watersmeet.private_folders`) and are read only if this
user wrote them. If the folder or a copy is refused, or nothing can be written, a query goes on without the
short cut, and `trouble` says why.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import shutil
import struct
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from watersmeet.dataclass import dataclass
from watersmeet.errors import UnsafeFolderError
from watersmeet.operators.contract import Operator
from watersmeet.operators.saving import ALIGN, Saved
from watersmeet.private_folders import PrivateFolder, named_after_user, private_folder

WARM_DIR = "WATERSMEET_WARM_DIR"
_HEAD = struct.Struct("<qqq")  # version, nonce, bytes of the whole file


@dataclass
class Warm:
    version: int
    nonce: int
    operator: Operator


# What this very process used last, by (query, bucket): no need to map what is still at hand.
_at_hand: dict[tuple[str, int], Warm] = {}
_swept = False
_trouble: str | None = None


def base_folder() -> Path:
    """This user's folder of warm copies, in the memory disk unless another place was chosen."""
    chosen = os.environ.get(WARM_DIR)
    memory = Path("/dev/shm")
    usable = memory.is_dir() and os.access(memory, os.W_OK)
    return named_after_user(Path(chosen) if chosen else memory if usable else Path(tempfile.gettempdir()))


def folder_of(query: str) -> Path:
    return base_folder() / _name_of(query)


def _name_of(query: str) -> str:
    """One folder per query and executor: workers of an executor share their parent, the daemon."""
    return f"{query}.{os.getppid()}"


def fetch(query: str, bucket: int, version: int, nonce: int, fresh: Callable[[], Operator]) -> Operator | None:
    """The operator of exactly this version, or None. `fresh` makes one without rows and tables, for a copy to be
    loaded into."""
    held = _at_hand.pop((query, bucket), None)  # taken away: an attempt that fails may have changed it
    if held is not None and (held.version, held.nonce) == (version, nonce):
        return held.operator
    try:
        with _opened(query) as folder:
            saved = _load(folder, str(bucket), version, nonce)
        if saved is not None:
            operator = fresh()
            # Its arrays are views of the mapping, which lives as long as they do, also if the file is replaced.
            operator.load(saved)
            return operator
    except UnsafeFolderError as refused:
        _note(refused)
    except Exception:  # a missing or damaged copy costs speed, not correctness
        pass
    return None


def keep(query: str, bucket: int, version: int, nonce: int, operator: Operator) -> None:
    """Save an operator for whichever worker gets the bucket next."""
    _at_hand[query, bucket] = Warm(version, nonce, operator)
    _let_go(query, version)
    try:
        with _opened(query) as folder:
            _sweep()
            _save(folder, bucket, version, nonce, operator.save())
    except (OSError, UnsafeFolderError) as error:  # a full or missing memory disk costs speed, not correctness
        _note(error)


def _let_go(query: str, version: int) -> None:
    """Buckets wander between workers: what this one has of an older batch, another has gone on with since."""
    for key in [key for key, held in _at_hand.items() if key[0] == query and held.version < version - 1]:
        del _at_hand[key]


def trouble() -> str | None:
    """Why something could not be kept warm, or was not taken, since this was last asked."""
    global _trouble
    found, _trouble = _trouble, None
    return found


def discard(query: str) -> None:
    """Remove what a query kept on this machine."""
    with _base() as base:
        for folder in base.path.glob(f"{query}.*"):
            shutil.rmtree(folder, ignore_errors=True)


def _base() -> PrivateFolder:
    return private_folder(base_folder(), WARM_DIR)


def _opened(query: str) -> PrivateFolder:
    with _base() as base:
        return base.below(_name_of(query))


def _note(error: Exception) -> None:
    global _trouble
    _trouble = str(error).replace("\n", "; ")


def _save(folder: PrivateFolder, bucket: int, version: int, nonce: int, saved: Saved) -> None:
    parts = list(saved.parts())
    # The head fills one unit of alignment, so that the arrays behind it are aligned in the mapping as in a saved state.
    size = ALIGN + sum(memoryview(part).nbytes for part in parts)
    # Renamed when complete: a worker that maps the old copy keeps it, and none ever sees half of a new one.
    temporary = f".{bucket}.{os.getpid()}"
    try:
        with folder.write(temporary) as file:
            _write(file, _HEAD.pack(version, nonce, size).ljust(ALIGN, b"\0"))
            for part in parts:
                _write(file, part)
        folder.replace(temporary, str(bucket))
    except OSError:
        with contextlib.suppress(FileNotFoundError):
            folder.remove(temporary)
        raise


def _write(file: BinaryIO, data: Any) -> None:
    """Write everything, however little of it is taken at a time."""
    view = memoryview(data).cast("B")
    while view.nbytes:
        view = view[file.write(view) :]


def _load(folder: PrivateFolder, name: str, version: int, nonce: int) -> Saved | None:
    with folder.read(name) as file:
        # A private mapping: writing to the arrays changes this process's pages only.
        mapped = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    found_version, found_nonce, size = _HEAD.unpack_from(mapped, 0)
    if (found_version, found_nonce) != (version, nonce) or size != len(mapped):
        mapped.close()
        return None
    return Saved.mapped(memoryview(mapped)[ALIGN:])


def _sweep() -> None:
    """Once per process: remove what executors left behind that are no more. The folder was found private."""
    global _swept
    if _swept:
        return
    _swept = True
    for folder in base_folder().glob("*.*"):
        owner = folder.suffix[1:]
        if owner.isdigit() and not _lives(int(owner)):
            shutil.rmtree(folder, ignore_errors=True)


def _lives(process: int) -> bool:
    if os.name != "posix":
        return True  # asking like this would end it there
    try:
        os.kill(process, 0)  # signal 0 is not sent; this only asks
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True
