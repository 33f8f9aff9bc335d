"""Two folders that take each other's place in one step: whoever looks there finds the one or the other."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path
from typing import Any

from watersmeet.errors import SinkError

_HERE = -100  # AT_FDCWD
_EXCHANGE = 2  # RENAME_EXCHANGE of Linux, RENAME_SWAP of macOS


def exchange(one: Path, other: Path) -> None:
    libc: Any = ctypes.CDLL(None, use_errno=True) if os.name == "posix" else None
    names = [os.fsencode(one), os.fsencode(other)]
    if sys.platform == "darwin" and hasattr(libc, "renamex_np"):
        failed = libc.renamex_np(*names, ctypes.c_uint(_EXCHANGE))
    elif hasattr(libc, "renameat2"):
        failed = libc.renameat2(_HERE, names[0], _HERE, names[1], ctypes.c_uint(_EXCHANGE))
    else:
        raise _cannot(other, "this system has no call for that")
    if failed:
        raise _cannot(other, os.strerror(ctypes.get_errno()))


def _cannot(folder: Path, why: str) -> SinkError:
    return SinkError(
        f"{folder} cannot be replaced by another folder in one step: {why}",
        hint="that takes a folder that is no mount point, on a file system of Linux or macOS that can do it, such as "
        "ext4, xfs, btrfs or apfs",
    )
