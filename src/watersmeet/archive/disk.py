"""Files that appear whole or not at all, and errors that name them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pa_parquet

from watersmeet.errors import SinkError, SourceError
from watersmeet.io.whole_files import draft_of, write_whole
from watersmeet.io.writers import writable


def replace_file(path: Path, text: str) -> None:
    with writable(path):
        write_whole(path, text.encode(), on_disk=False)


def replace_parquet(path: Path, table: pa.Table) -> int:
    """The same for a table; returns the bytes written."""
    with writable(path), draft_of(path) as draft:
        # Numbers hardly repeat, so dictionaries of them would only take time; written as differences they are a
        # third smaller than compressed alone, and written in half the time.
        texts = [field.name for field in table.schema if not pa.types.is_primitive(field.type)]
        differences = dict.fromkeys(
            (field.name for field in table.schema if _is_whole(field.type)), "DELTA_BINARY_PACKED"
        )
        pa_parquet.write_table(
            table.combine_chunks(), draft, compression="zstd", use_dictionary=texts, column_encoding=differences
        )
        size = draft.stat().st_size
        draft.replace(path)
    return size


def _is_whole(kind: pa.DataType) -> bool:
    """Whether values are whole numbers, of times among them."""
    return bool(pa.types.is_integer(kind) or pa.types.is_timestamp(kind) or pa.types.is_date(kind))


@contextmanager
def reading(archive: Path, path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise SourceError(
            f"{archive} is no archive: there is no {path.relative_to(archive)} in it",
            hint="name the folder that OPTIONS (…, archive = '…') of the query names",
        ) from None
    except (pa.ArrowException, OSError, ValueError) as error:
        detail = str(error).split("\n", 1)[0].rstrip(".")
        raise SourceError(f"{path} cannot be read: {detail}") from None


@contextmanager
def locked(archive: Path) -> Iterator[None]:
    """Only one completion at a time; the lock is gone with whoever held it, however that ended."""
    with writable(archive):
        file = (archive / ".lock").open("w")
    with file:
        try:
            _lock(file.fileno())
        except (BlockingIOError, PermissionError):
            raise SinkError(
                f"the archive {archive} is being completed already", hint="wait until that is over"
            ) from None
        yield


def _lock(file: int) -> None:
    """Lock an open file, without waiting. The system gives the lock back when the process ends."""
    with suppress(ImportError):
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return
    with suppress(ImportError):  # Windows
        msvcrt: Any = import_module("msvcrt")
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        return
    raise SinkError("an archive cannot be completed here: this system is not known to have what locks files")
