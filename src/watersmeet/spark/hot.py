"""Operators kept warm between batches, in memory that all Python workers of a node share.

Spark gives a bucket to any worker, so what one worker keeps to itself another misses. After each batch an
operator is saved to a memory-backed file, its arrays as they are; the next worker maps them without copying.
Every copy is stamped with the version and the random nonce that the state store holds as well: what a failed
or abandoned attempt left behind can never pass for the present state.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import pickle
import shutil
import struct
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HOT_DIR = "WATERSMEET_HOT_DIR"
_ALIGN = 64
_HEAD = struct.Struct("<qqqq")  # version, nonce, size of the pickle, number of buffers


@dataclass
class Warm:
    version: int
    nonce: int
    value: Any


# What this very process used last, by (query, bucket): no need to map what is still at hand.
_at_hand: dict[tuple[str, int], Warm] = {}
_swept = False


def base_folder() -> Path:
    chosen = os.environ.get(HOT_DIR)
    if chosen:
        return Path(chosen)
    memory = Path("/dev/shm")
    root = memory if memory.is_dir() and os.access(memory, os.W_OK) else Path(tempfile.gettempdir())
    return root / f"watersmeet-{os.getuid()}"


def folder_of(query: str) -> Path:
    """One folder per query and executor: workers of an executor share their parent, the daemon."""
    return base_folder() / f"{query}.{os.getppid()}"


def fetch(query: str, bucket: int, version: int, nonce: int) -> Any | None:
    """The operator of exactly this version, or None."""
    held = _at_hand.pop((query, bucket), None)  # taken away: an attempt that fails may have changed it
    if held is not None and (held.version, held.nonce) == (version, nonce):
        return held.value
    with contextlib.suppress(Exception):  # a missing or damaged copy costs speed, not correctness
        return _load(folder_of(query) / str(bucket), version, nonce)
    return None


def keep(query: str, bucket: int, version: int, nonce: int, value: Any) -> None:
    """Save an operator for whichever worker gets the bucket next."""
    _at_hand[query, bucket] = Warm(version, nonce, value)
    _sweep()
    folder = folder_of(query)
    with contextlib.suppress(OSError):  # a full or missing memory disk costs speed, not correctness
        folder.mkdir(parents=True, exist_ok=True)
        _save(folder, bucket, version, nonce, value)


def discard(query: str) -> None:
    """Remove what a query kept on this machine."""
    for folder in base_folder().glob(f"{query}.*"):
        shutil.rmtree(folder, ignore_errors=True)


def _save(folder: Path, bucket: int, version: int, nonce: int, value: Any) -> None:
    buffers: list[pickle.PickleBuffer] = []
    body = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    raws = [buffer.raw() for buffer in buffers]
    temporary = folder / f".{bucket}.{os.getpid()}"
    try:
        with temporary.open("wb", buffering=0) as file:
            sizes = struct.pack(f"<{len(raws)}q", *(raw.nbytes for raw in raws))
            head = _HEAD.pack(version, nonce, len(body), len(raws)) + sizes + body
            position = _write(file, head, 0)
            for raw in raws:
                position = _write(file, raw, position)
        temporary.replace(folder / str(bucket))
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def _write(file: Any, data: Any, position: int) -> int:
    """Write everything and move on to the next aligned position."""
    view = memoryview(data).cast("B") if memoryview(data).nbytes else memoryview(b"")
    while view.nbytes:
        view = view[file.write(view) :]
    end = position + memoryview(data).nbytes
    padding = -end % _ALIGN
    if padding:
        file.write(b"\0" * padding)
    return end + padding


def _load(path: Path, version: int, nonce: int) -> Any | None:
    with path.open("rb") as file:
        # A private mapping: writing to the arrays changes this process's pages only.
        mapped = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    found_version, found_nonce, body_size, count = _HEAD.unpack_from(mapped, 0)
    if (found_version, found_nonce) != (version, nonce):
        mapped.close()
        return None
    sizes = struct.unpack_from(f"<{count}q", mapped, _HEAD.size)
    view = memoryview(mapped)
    start = _HEAD.size + 8 * count
    body = view[start : start + body_size]
    position = start + body_size
    buffers = []
    for size in sizes:
        position += -position % _ALIGN
        buffers.append(view[position : position + size])
        position += size
    if position > len(mapped):
        return None
    return pickle.loads(body, buffers=buffers)


def _sweep() -> None:
    """Once per process: remove what executors left behind that are no more."""
    global _swept
    if _swept:
        return
    _swept = True
    for folder in base_folder().glob("*.*"):
        owner = folder.suffix[1:]
        if owner.isdigit() and not Path(f"/proc/{owner}").exists():
            shutil.rmtree(folder, ignore_errors=True)
