"""Compiled kernels that nobody asks for any more: those for a Python, Numba or processor that was before, and those of
lines that have changed since. A new version of anything leaves its predecessor's behind, so they are tidied up."""

from __future__ import annotations

import logging
import os
import time
from contextlib import suppress
from typing import BinaryIO

from watersmeet.private_folders import PrivateFolder

FOLDERS = "kernels-"
MOST_FOLDERS = 4  # a few environments side by side are common
MOST_BYTES = 100 << 20  # of one folder; all kernels together are some 15 MB
DAY_S = 86_400.0
_log = logging.getLogger(__name__)


def note_use(file: BinaryIO) -> None:
    """A file that is read stays longer than others. Once a day is enough to know."""
    with suppress(OSError, NotImplementedError, TypeError):  # where nothing can be written, or files have no numbers
        if time.time() - os.fstat(file.fileno()).st_mtime > DAY_S:
            os.utime(file.fileno())


def prune(cache: PrivateFolder, current: PrivateFolder) -> None:
    """Keep the folders that were used last, never remove one that a process has open; bound the one that is ours."""
    others = [path for path in cache.path.glob(f"{FOLDERS}*") if path.name != current.path.name]
    for path in sorted(others, key=_last_used, reverse=True)[MOST_FOLDERS - 1 :]:
        if cache.remove_unheld(path.name):
            _log.info("removed %s, compiled kernels that were not used lately", path)
    _bound(current)


def _last_used(path: os.PathLike[str]) -> float:
    with suppress(OSError):  # removed meanwhile
        return os.lstat(path).st_mtime
    return 0.0


def _bound(folder: PrivateFolder) -> None:
    """Remove what was longest not read, down to three quarters of the bound. Who has loaded it needs no file."""
    files = sorted(folder.files().items(), key=lambda item: item[1].st_mtime)
    unfinished = [name for name, status in files if "." in name and time.time() - status.st_mtime > DAY_S]
    size = sum(status.st_size for _, status in files)
    gone = set(unfinished)
    if size > MOST_BYTES:
        for name, status in files:
            if size <= MOST_BYTES * 3 // 4:
                break
            size -= status.st_size
            gone.add(name)
    for name in gone:
        with suppress(OSError):  # another process was faster
            folder.remove(name)
    if gone:
        _log.info("removed %d files of %s, compiled kernels that were not used lately", len(gone), folder.path)
