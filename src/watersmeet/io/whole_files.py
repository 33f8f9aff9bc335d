"""Files that are there whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pyarrow.fs as pa_fs

from watersmeet.io.too_many_files import tried_again


def write_whole(path: Path, data: bytes, *, on_disk: bool = True) -> None:
    """Put a file in place of the one of that name: whoever reads it finds the old or the whole new one. on_disk: also
    after a crash of the machine, once this has returned."""
    with draft_of(path) as draft:
        with tried_again(lambda: draft.open("wb")) as file:
            file.write(data)
            if on_disk:
                file.flush()
                os.fsync(file.fileno())
        draft.replace(path)
    if on_disk:
        sync(path.parent)


@contextmanager
def draft_of(path: Path) -> Iterator[Path]:
    """A hidden file beside one, which is removed if something fails."""
    draft = hidden_beside(path)
    try:
        yield draft
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def hidden_beside(path: Path) -> Path:
    """A name in the same folder that sources do not read, of its own, as others may write there at the same time."""
    return path.with_name(f".{path.name}.{uuid4().hex[:8]}.tmp")


def sync(path: Path | str) -> None:
    """Make a file, or the names in a folder, outlive a crash."""
    handle = tried_again(lambda: os.open(path, os.O_RDONLY))
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def put_whole(files: pa_fs.FileSystem, path: str, data: bytes) -> None:
    """The same in a store, where an object appears when it is complete."""
    if isinstance(files, pa_fs.LocalFileSystem):  # which is a store of folders
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        write_whole(Path(path), data, on_disk=False)
        return
    with files.open_output_stream(path, compression=None) as stream:
        stream.write(data)
