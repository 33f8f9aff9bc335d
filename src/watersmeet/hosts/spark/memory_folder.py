"""The private folder in which the Python workers of a machine share what they keep of a query, in memory if they can.

One folder per query and executor: workers of an executor share their parent, the daemon. What executors left behind
that are no more, the next one removes.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any, BinaryIO

from watersmeet.leftovers import older
from watersmeet.private_folders import PrivateFolder, named_after_user, private_folder

WARM_DIR = "WATERSMEET_WARM_DIR"
SWEPT_S = 600.0
SILENT_S = 6 * 3600.0  # longer than a batch; a query that has one more rarely finds its state in the store
_sweep_at_s = 0.0


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


def sweep(query: str) -> None:
    """Now and then: remove what executors left behind that are no more, and what queries of this one have left that
    are no more, as far as can be told: they write with every batch. `query`: which one asks. The folder was found
    private."""
    global _sweep_at_s
    if time.monotonic() < _sweep_at_s:
        return
    _sweep_at_s = time.monotonic() + SWEPT_S
    for folder in left_behind():
        shutil.rmtree(folder, ignore_errors=True)
    for folder in older(base_folder().glob(f"*.{os.getppid()}"), SILENT_S):
        if folder.name != _name_of(query):
            shutil.rmtree(folder, ignore_errors=True)


def left_behind() -> list[Path]:
    """What executors left that are no more."""
    found = [(folder, folder.suffix[1:]) for folder in sorted(base_folder().glob("*.*"))]
    return [folder for folder, owner in found if owner.isdigit() and not lives(int(owner))]


def write_all(file: BinaryIO, data: Any) -> None:
    """Write everything, however little of it is taken at a time."""
    view = memoryview(data).cast("B")
    while view.nbytes:
        view = view[file.write(view) :]


def _base() -> PrivateFolder:
    return private_folder(base_folder(), WARM_DIR)


def _name_of(query: str) -> str:
    return f"{query}.{os.getppid()}"


def lives(process: int) -> bool:
    if os.name != "posix":
        return True  # asking like this would end it there
    try:
        os.kill(process, 0)  # signal 0 is not sent; this only asks
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True
