"""What a run has left behind that nobody needs any more, as `watersmeet clean` finds it."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from pathlib import Path

from watersmeet.dataclass import dataclass


def _removed(path: Path) -> bool:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
    return not os.path.lexists(path)


@dataclass(frozen=True)
class Left:
    """`what` it is, for people. `remove` looks once more whether anybody uses it, and says whether it is gone."""

    path: Path
    what: str
    remove_at: Callable[[Path], bool] = field(default=_removed, repr=False)

    def bytes(self) -> int:
        return bytes_of(self.path)

    def remove(self) -> bool:
        return self.remove_at(self.path)


def bytes_of(path: Path) -> int:
    """Of a file, or of all in a folder."""
    found = path.rglob("*") if path.is_dir() and not path.is_symlink() else [path]
    total = 0
    for one in found:
        try:
            status = one.lstat()
        except OSError:  # gone meanwhile
            continue
        total += getattr(status, "st_blocks", 0) * 512 or status.st_size
    return total


def older(paths: Iterable[Path], than_s: float) -> Iterator[Path]:
    """Those that nobody has written to for so long."""
    until = time.time() - than_s
    for path in paths:
        try:
            if path.lstat().st_mtime < until:
                yield path
        except OSError:
            continue
