"""The private folder in which the Python workers of a machine share what they keep of a query, in memory if they can.

One folder per query and executor: workers of an executor share their parent, the daemon. What executors left behind
that are no more, the next one removes.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any, BinaryIO

from watersmeet.private_folders import PrivateFolder, named_after_user, private_folder

WARM_DIR = "WATERSMEET_WARM_DIR"
_swept = False


def base_folder() -> Path:
    """This user's folder of all queries, in the memory disk unless another place was chosen."""
    chosen = os.environ.get(WARM_DIR)
    memory = Path("/dev/shm")
    usable = memory.is_dir() and os.access(memory, os.W_OK)
    return named_after_user(Path(chosen) if chosen else memory if usable else Path(tempfile.gettempdir()))


def folder_of(query: str) -> Path:
    return base_folder() / _name_of(query)


def opened(query: str) -> PrivateFolder:
    with _base() as base:
        return base.below(_name_of(query))


def discard(query: str) -> None:
    """Remove what a query kept on this machine."""
    with _base() as base:
        for folder in base.path.glob(f"{query}.*"):
            shutil.rmtree(folder, ignore_errors=True)


def sweep() -> None:
    """Once per process: remove what executors left behind that are no more. The folder was found private."""
    global _swept
    if _swept:
        return
    _swept = True
    for folder in base_folder().glob("*.*"):
        owner = folder.suffix[1:]
        if owner.isdigit() and not _lives(int(owner)):
            shutil.rmtree(folder, ignore_errors=True)


def write_all(file: BinaryIO, data: Any) -> None:
    """Write everything, however little of it is taken at a time."""
    view = memoryview(data).cast("B")
    while view.nbytes:
        view = view[file.write(view) :]


def _base() -> PrivateFolder:
    return private_folder(base_folder(), WARM_DIR)


def _name_of(query: str) -> str:
    return f"{query}.{os.getppid()}"


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
