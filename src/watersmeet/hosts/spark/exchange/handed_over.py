"""Rows that stay on the machine: they lie in a file in memory, which buckets map, and Spark moves only where they lie.

On its way from one Python to another Spark copies a packet a dozen times, in Java mostly. Where all tasks run on one
machine, whoever packs many rows writes them into a file of the batch instead. It stays until the next batch, so that
what is done twice within one finds it; were it gone nevertheless, the task fails, and the batch is repeated from its
sources as after any failure. Few rows, and those for which there is no room, travel as packets.
"""

from __future__ import annotations

import json
import mmap
import os
import secrets
from collections.abc import Sequence
from contextlib import suppress
from io import BufferedWriter
from pathlib import Path

import pyarrow as pa

from watersmeet.errors import DataError, UnsafeFolderError
from watersmeet.hosts.spark.memory_folder import WARM_DIR, opened, sweep
from watersmeet.hosts.spark.packets import from_packet
from watersmeet.hosts.spark.task import batch_number, query_id
from watersmeet.private_folders import PrivateFolder, private_folder

MARK = b"\x02"  # where packets have their version
LEAST_BYTES = 1 << 20  # fewer travel sooner than a file is made and mapped
SHARE_OF_FREE = 4  # that memory must have so many times what is written, as all tasks of a machine share it
SUFFIX = ".rows"
ALIGN = 64


def hand_over(parts: Sequence[pa.RecordBatch]) -> list[bytes] | None:
    """What travels in place of some rows of a task, for each part of them; None if they are to travel themselves. A
    part that is given twice is written once."""
    distinct = {id(part): part for part in parts}
    batch = batch_number()
    if batch is None or sum(part.nbytes for part in distinct.values()) < LEAST_BYTES:
        return None
    try:
        with opened(query_id()) as folder:
            sweep(query_id())
            _let_go(folder, batch)
            places = _written(folder, f"{batch}.{secrets.token_hex(8)}{SUFFIX}", distinct)
    except (OSError, UnsafeFolderError):  # a full or missing memory disk costs speed, not correctness
        return None
    return None if places is None else [places[id(part)] for part in parts]


def rows_of(payload: bytes) -> list[pa.RecordBatch]:
    """The batches of a packet, or of what was handed over in place of one, sharing its memory."""
    if payload[:1] != MARK:
        return from_packet(payload)
    path, name, start, size = json.loads(payload[1:])
    try:
        with private_folder(Path(path), WARM_DIR) as folder, folder.read(name) as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except FileNotFoundError:
        raise DataError(
            f"rows of this batch lay in {path}, and somebody removed them",
            hint="start the query again, which repeats the batch; WATERSMEET_WARM_DIR names another place",
        ) from None
    return list(pa.ipc.open_stream(pa.py_buffer(mapped).slice(start, size)))


def let_go() -> None:
    """Of what other batches left, where this one may have handed over nothing."""
    batch = batch_number()
    with suppress(OSError, UnsafeFolderError), opened(query_id()) as folder:
        if batch is not None:
            _let_go(folder, batch)


def _let_go(folder: PrivateFolder, batch: int) -> None:
    """What other batches left: only one runs at a time."""
    for name in folder.files():
        if name.endswith(SUFFIX) and not name.startswith(f"{batch}."):
            with suppress(OSError):  # another task was faster
                folder.remove(name)


def _written(folder: PrivateFolder, name: str, parts: dict[int, pa.RecordBatch]) -> dict[int, bytes] | None:
    """Where each part lies in a new file; None if there is no room for it."""
    if not _has_room(folder, sum(part.nbytes for part in parts.values())):
        return None
    places = {}
    try:
        with BufferedWriter(folder.write(name)) as file:
            for key, part in parts.items():
                file.write(bytes(-file.tell() % ALIGN))
                start = file.tell()
                with pa.ipc.new_stream(pa.PythonFile(file, mode="w"), part.schema) as writer:
                    writer.write_batch(part)
                places[key] = MARK + json.dumps([str(folder.path), name, start, file.tell() - start]).encode()
    except OSError:
        with suppress(OSError):
            folder.remove(name)
        raise
    return places


def _has_room(folder: PrivateFolder, size: int) -> bool:
    if not hasattr(os, "statvfs"):
        return True
    disk = os.statvfs(folder.path)
    return disk.f_bavail * disk.f_frsize >= SHARE_OF_FREE * size
