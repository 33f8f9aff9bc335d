"""Where compiled kernels lie: a file each, named after all that it was made from and for.

So no index is needed, nothing in a file ever changes, and processes that write the same file at once write the same.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

from watersmeet.compiling.machine import Target, this_machine
from watersmeet.compiling.pruning import FOLDERS, note_use, prune
from watersmeet.errors import UnsafeFolderError
from watersmeet.private_folders import PrivateFolder, cache_folders, private_folder
from watersmeet.warning import StateWarning, warn

# Counts up when what the files hold changes.
FORMAT = 2


def name_for(target: Target, kernel: str, stamp: str, arguments: str) -> str:
    """The name of a file. It must be the same in every process and on every machine."""
    words = [str(FORMAT), json.dumps(target.as_json(), sort_keys=True), kernel, stamp, arguments]
    return hashlib.sha256("\0".join(words).encode()).hexdigest()[:40]


def read_kept(name: str) -> bytes | None:
    folder = kept_folder()
    if folder is None:
        return None
    try:
        with folder.read(name) as file:
            note_use(file)
            return file.read()
    except FileNotFoundError:
        return None
    except (OSError, UnsafeFolderError) as error:
        _say_once(f"a compiled kernel is not used: {error}")
        return None


def keep(name: str, data: bytes) -> None:
    """Keep it for later processes, if that can be done."""
    folder = kept_folder()
    if folder is None:
        return
    # Whole or not at all: written under a name of its own first.
    unfinished = f"{name}.{os.getpid()}-{threading.get_ident()}"
    try:
        with folder.write(unfinished) as file:
            view = memoryview(data)
            while view:
                view = view[file.write(view) :]
        folder.replace(unfinished, name)
        _prune_once()
    except OSError as error:
        with suppress(OSError):
            folder.remove(unfinished)
        if (folder.path / name).exists():  # Windows replaces no file that another process has open
            return
        _say_once(f"compiled kernels cannot be kept, so every process compiles them anew: {error}")


@cache
def kept_folder() -> PrivateFolder | None:
    """This user's folder of compiled kernels, for this machine; None, which is told, if there can be none."""
    failures = []
    for root, chosen_by in _roots():
        try:
            # Loading is running, so nobody else may have put anything there.
            with private_folder(root, chosen_by) as folder:
                return _held(folder, f"{FOLDERS}{_digest(this_machine())}")
        except (OSError, UnsafeFolderError) as error:
            failures.append(str(error).splitlines()[0])
    reasons = "; ".join(failures)
    _say_once(f"compiled kernels cannot be kept, so every process compiles them anew: {reasons}")
    return None


def _held(cache: PrivateFolder, name: str) -> PrivateFolder:
    """A folder that stays as long as this process: others that tidy up leave it alone."""
    for _ in range(100):
        folder = cache.below(name)
        if folder.hold():
            return folder
        folder.close()
        time.sleep(0.01)  # somebody removes it, file by file; then it can be made anew
    raise TimeoutError(f"{folder.path} is being removed by another process")


@cache
def _prune_once() -> None:
    """Only by processes that add something, so that it costs nothing where all is found."""
    folder = kept_folder()
    if folder is not None:
        with suppress(OSError, UnsafeFolderError), private_folder(folder.path.parent) as cache:
            prune(cache, folder)


def _roots() -> Iterator[tuple[Path, str]]:
    if chosen := os.environ.get("NUMBA_CACHE_DIR"):
        yield Path(chosen) / "watersmeet", "NUMBA_CACHE_DIR"
    yield from cache_folders()


def _digest(target: Target) -> str:
    return hashlib.sha256(json.dumps(target.as_json(), sort_keys=True).encode()).hexdigest()[:12]


@cache
def _say_once(what: str) -> None:
    warn(StateWarning("kernel_cache", what))
