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
import struct
from collections.abc import Callable

from watersmeet.dataclass import dataclass
from watersmeet.errors import UnsafeFolderError
from watersmeet.hosts.spark.memory_folder import opened, sweep, write_all
from watersmeet.operators.contract import Operator
from watersmeet.operators.saving import ALIGN, Saved
from watersmeet.private_folders import PrivateFolder

_HEAD = struct.Struct("<qqq")  # version, nonce, bytes of the whole file


@dataclass
class Warm:
    version: int
    nonce: int
    operator: Operator


# What this very process used last, by (query, bucket): no need to map what is still at hand.
_at_hand: dict[tuple[str, int], Warm] = {}
_trouble: str | None = None


def fetch(query: str, bucket: int, version: int, nonce: int, fresh: Callable[[], Operator]) -> Operator | None:
    """The operator of exactly this version, or None. `fresh` makes one without rows and tables, for a copy to be
    loaded into."""
    held = _at_hand.pop((query, bucket), None)  # taken away: an attempt that fails may have changed it
    if held is not None and (held.version, held.nonce) == (version, nonce):
        return held.operator
    try:
        with opened(query) as folder:
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
        with opened(query) as folder:
            sweep(query)
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
            write_all(file, _HEAD.pack(version, nonce, size).ljust(ALIGN, b"\0"))
            for part in parts:
                write_all(file, part)
        folder.replace(temporary, str(bucket))
    except OSError:
        with contextlib.suppress(FileNotFoundError):
            folder.remove(temporary)
        raise


def _load(folder: PrivateFolder, name: str, version: int, nonce: int) -> Saved | None:
    with folder.read(name) as file:
        # A private mapping: writing to the arrays changes this process's pages only.
        mapped = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    found_version, found_nonce, size = _HEAD.unpack_from(mapped, 0)
    if (found_version, found_nonce) != (version, nonce) or size != len(mapped):
        mapped.close()
        return None
    return Saved.mapped(memoryview(mapped)[ALIGN:])
