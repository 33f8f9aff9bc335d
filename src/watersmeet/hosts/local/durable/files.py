"""Files that are there whole or not at all, also after a crash."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from watersmeet.errors import RunError
from watersmeet.hosts.local.durable import mirror
from watersmeet.io.sealed import BrokenSealError, sealed, unsealed
from watersmeet.io.too_many_files import tried_again

FROM_A_COPY = "restore the checkpoint from a copy, or start anew with a new one"


@contextmanager
def written(path: Path) -> Iterator[None]:
    """Whatever goes wrong while the checkpoint is written becomes one sentence that names the file."""
    try:
        yield
    except OSError as error:
        raise RunError(
            f"the checkpoint cannot be written: {path}: {error.strerror or error}",
            hint="make room or mend the folder, then start again with the same checkpoint: nothing is lost",
        ) from None


def replace_file(path: Path, data: bytes) -> None:
    """Put a file in place of the one of that name; a reader, or a restart, finds the old or the whole new one."""
    draft = path.with_name(f".{path.name}.tmp")
    with written(path):
        with tried_again(lambda: draft.open("wb")) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
        sync_folder(path.parent)
    if not path.name.startswith("."):  # else it does not count yet
        mirror.put(path)


def write_sealed(path: Path, data: bytes, run: str = "") -> None:
    """The same with a sum over its bytes, its name and the run: it cannot take the place of another."""
    replace_file(path, sealed_as(path, data, run))


def sealed_as(path: Path, data: bytes, run: str = "") -> bytes:
    return sealed(f"{run}/{path.name}", data)


def read_sealed(path: Path, run: str = "") -> memoryview:
    """What was written so; one that is damaged or not there is named."""
    with readable(path):
        return unsealed(f"{run}/{path.name}", path.read_bytes())


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Whatever is wrong with a file of the checkpoint becomes one sentence that names it."""
    try:
        yield
    except FileNotFoundError:
        raise damaged(path, "it is not there") from None
    except OSError as error:
        raise damaged(path, f"it cannot be read: {error.strerror or error}") from None
    except BrokenSealError as error:
        raise damaged(path, str(error)) from None


def damaged(path: Path, how: str) -> RunError:
    return RunError(f"{mirror.shown(path)} is damaged: {how}", hint=FROM_A_COPY)


def remove_file(path: Path) -> None:
    path.unlink(missing_ok=True)
    mirror.removed(path)


def sync_folder(folder: Path) -> None:
    """Make names in a folder outlive a crash."""
    handle = tried_again(lambda: os.open(folder, os.O_RDONLY))
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
