"""Several files of one format as one, with their rows in their order."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import pyarrow.parquet as pa_parquet

from watersmeet.io.whole_files import sync
from watersmeet.io.writers import ParquetWriter

_ROWS = 1 << 16


def joined_lines(parts: Sequence[Path], into: Path, *, headers: bool = False) -> None:
    """headers: each begins with the same line, which is to be there once."""
    with into.open("wb") as out:
        for number, part in enumerate(parts):
            with part.open("rb") as file:
                if headers and number:
                    header_of(file)
                shutil.copyfileobj(file, out, 1 << 20)
                if file.tell():
                    file.seek(-1, 2)
                    if file.read(1) != b"\n":
                        out.write(b"\n")


def header_of(file: BinaryIO) -> bytes:
    """The first line, which ends where no quotes are open."""
    header = file.readline()
    while header.count(b'"') % 2 and (more := file.readline()):
        header += more
    return header


def joined_parquet(parts: Sequence[Path], into: Path) -> None:
    first = pa_parquet.ParquetFile(parts[0])
    writer = ParquetWriter(into, first.schema_arrow, {"compression": _codec(first)}, None, 1)
    try:
        for part in parts:
            with pa_parquet.ParquetFile(part) as file:
                for batch in file.iter_batches(_ROWS):
                    writer.write(batch)
    finally:
        first.close()
        writer.close()


def _codec(file: pa_parquet.ParquetFile) -> str:
    for group in range(file.metadata.num_row_groups):
        codec = str(file.metadata.row_group(group).column(0).compression).lower()
        return "none" if codec == "uncompressed" else codec
    return "zstd"


def looks_of_parquet(path: Path) -> object:
    """What files must have in common to be one."""
    return pa_parquet.read_schema(path)


def looks_of_text(path: Path) -> object:
    with path.open("rb") as file:
        return header_of(file)


JOIN: Mapping[str, Callable[[Sequence[Path], Path], None]] = {"parquet": joined_parquet, "json": joined_lines}


def join(kind: str, parts: Sequence[Path], into: Path, *, has_header: bool) -> None:
    """Write one file that holds the rows of all, on the disk when this returns."""
    if kind in ("csv", "tsv"):
        joined_lines(parts, into, headers=has_header)
    else:
        JOIN[kind](parts, into)
    sync(into)


def looks(kind: str, path: Path, *, has_header: bool) -> object:
    if kind == "parquet":
        return looks_of_parquet(path)
    return looks_of_text(path) if kind in ("csv", "tsv") and has_header else None
