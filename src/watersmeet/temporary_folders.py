"""Folders for the time that a process works in them, and what is left of them when it was killed.

Whoever has made one holds a lock on it, which goes with the process, however that ends. So of a folder that nobody
holds all may go: the next process that makes one of its kind removes it, or `watersmeet clean`.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from watersmeet.private_folders import named_after_user, our_id, scratch_folder, temporary_root

# How the names begin of those in this user's own folder, and of those beside it.
INSIDE = ("checkpoint-", "check-", "classes-", "demo-", "demo-kafka-", "draft-", "package-", "state-", "training-")
BESIDE = ("watersmeet-checkpoint-", "watersmeet-serve-", "watersmeet-sort-", "watersmeet-store-")
RANDOM = "?" * 8  # what `mkdtemp` adds
YOUNG_S = 60.0  # between the making of a folder and its lock it is nobody's


class TemporaryFolder:
    """A new folder, held until it is removed."""

    def __init__(self, prefix: str, within: Path | None = None) -> None:
        """within: where, if not in this user's own folder."""
        assert prefix in (INSIDE if within is None else BESIDE), "or nobody would look for what is left of it"
        home = scratch_folder() if within is None else within
        for left in left_in(home, (prefix,)):
            remove_left(left)
        self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=home))
        self._handle = hold(self.path)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


@contextmanager
def temporary_folder(prefix: str, within: Path | None = None) -> Iterator[Path]:
    """A new folder that is removed in the end."""
    made = TemporaryFolder(prefix, within)
    try:
        yield made.path
    finally:
        made.remove()


def left_behind() -> list[Path]:
    """Those of this user that processes of this machine have left."""
    root = temporary_root()
    return [*left_in(named_after_user(root), INSIDE), *left_in(root, BESIDE)]


def left_in(home: Path, prefixes: tuple[str, ...]) -> list[Path]:
    return left_among(path for prefix in prefixes for path in home.glob(f"{prefix}{RANDOM}"))


def left_among(folders: Iterable[Path]) -> list[Path]:
    return sorted(path for path in folders if _is_left(path))


def hold(path: Path) -> int | None:
    """Have nobody remove a folder, until what is given is closed."""
    if sys.platform == "win32":
        return None
    import fcntl

    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    with suppress(OSError):  # a file system without locks, where nothing is removed either
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    return handle


def remove_left(path: Path) -> bool:
    """Remove a folder that nobody holds; whether it was."""
    handle = _taken(path)
    if handle is None:
        return False
    try:
        shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(handle)
    return True


def _is_left(path: Path) -> bool:
    handle = _taken(path)
    if handle is not None:
        os.close(handle)
    return handle is not None


def _taken(path: Path) -> int | None:
    """The lock of a folder of ours that nobody else holds."""
    if sys.platform == "win32":
        return None
    import fcntl

    try:
        status = os.lstat(path)
        if status.st_uid != our_id() or time.time() - status.st_mtime < YOUNG_S:
            return None
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:  # gone, or no folder
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle
