"""Files that are there whole or not at all, also after a crash."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from watersmeet.errors import RunError
from watersmeet.hosts.local.durable import mirror
from watersmeet.io.too_many_files import tried_again


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
