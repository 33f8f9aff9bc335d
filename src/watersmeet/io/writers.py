"""One file being written, by format."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pa_parquet

from watersmeet.errors import SinkError
from watersmeet.io.encoding_threads import encoded
from watersmeet.io.formats import delimiter_of
from watersmeet.io.row_texts import bytes_of, check_flat, csv_header, csv_lines, json_objects, with_ends

ROW_GROUP_ROWS = 128 * 1024
ROW_GROUP_BYTES = 64 << 20
CODECS = ("zstd", "snappy", "gzip", "brotli", "lz4", "none")  # of Parquet


@contextmanager
def writable(path: Path, hint: str | None = None) -> Iterator[None]:
    """Whatever goes wrong while a file is written becomes one sentence that names it."""
    try:
        yield
    except PermissionError:
        raise SinkError(f"{path} may not be written: permission denied", hint=hint) from None
    except (pa.ArrowException, OSError) as error:
        detail = str(error).split("\n", 1)[0].rstrip(".")
        raise SinkError(f"{path} cannot be written: {detail}", hint=hint) from None


class Writer(Protocol):
    """A file that grows batch by batch. `discard` lets go of it without finishing it."""

    def write(self, batch: pa.RecordBatch) -> None: ...

    def close(self) -> None: ...

    def discard(self) -> None: ...


class ParquetWriter:
    """Small batches are gathered into row groups of a sensible size."""

    def __init__(
        self, path: Path, schema: pa.Schema, options: Mapping[str, str], start: Path | None, threads: int
    ) -> None:
        self._schema = schema
        self._writer = pa_parquet.ParquetWriter(path, schema, compression=_codec(options))
        self._waiting: list[pa.RecordBatch] = []
        self._rows = 0
        self._bytes = 0

    def write(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch)
        self._rows += batch.num_rows
        self._bytes += batch.nbytes
        if self._rows >= ROW_GROUP_ROWS or self._bytes >= ROW_GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            table = pa.Table.from_batches(self._waiting, self._schema)
            self._writer.write_table(table, row_group_size=ROW_GROUP_ROWS)
        self._waiting, self._rows, self._bytes = [], 0, 0

    def close(self) -> None:
        self._flush()
        self._writer.close()

    def discard(self) -> None:
        # What waits is not written: the file goes anyway.
        self._writer.close()


def _codec(options: Mapping[str, str]) -> str:
    written = options.get("compression", "zstd").lower()
    if written not in CODECS:
        raise SinkError(f"compression = {written!r} is none of Parquet's", hint=f"it may be {', '.join(CODECS)}")
    return written


def check_settings(kind: str, options: Mapping[str, str]) -> None:
    """Refuse what a format cannot be written with, before anything is."""
    if kind in ("csv", "tsv"):
        delimiter_of(options, wrong=SinkError)
    elif kind == "parquet":
        _codec(options)


class TextWriter:
    """Lines, as `row_texts` makes them of rows; `start` is a file whose content comes first."""

    def __init__(
        self, path: Path, start: Path | None, threads: int, lines: Callable[[pa.RecordBatch], pa.Array]
    ) -> None:
        self._file, self._lines, self._threads = _opened(path, start), lines, threads

    def write(self, batch: pa.RecordBatch) -> None:
        for text in encoded(batch, lambda rows: bytes_of(self._lines(rows)), self._threads):
            self._file.write(text)

    def close(self) -> None:
        self._file.close()

    def discard(self) -> None:
        self.close()


class CsvWriter(TextWriter):
    delimiter = ","

    def __init__(
        self, path: Path, schema: pa.Schema, options: Mapping[str, str], start: Path | None, threads: int
    ) -> None:
        check_flat(schema)
        delimiter = delimiter_of(options, self.delimiter, SinkError)
        has_header = options.get("header", "true").lower() == "true"
        if start is not None and has_header:
            _check_header(start, schema, delimiter)
        super().__init__(path, start, threads, lambda rows: csv_lines(rows, delimiter, "\n"))
        # A file that is appended to has its header already, unless nothing was written to it yet.
        if has_header and (start is None or start.stat().st_size == 0):
            self._file.write(f"{csv_header(schema, delimiter)}\n".encode())


class TsvWriter(CsvWriter):
    delimiter = "\t"


class JsonWriter(TextWriter):
    def __init__(
        self, path: Path, schema: pa.Schema, options: Mapping[str, str], start: Path | None, threads: int
    ) -> None:
        super().__init__(path, start, threads, lambda rows: with_ends(json_objects(rows)))


def _check_header(path: Path, schema: pa.Schema, delimiter: str) -> None:
    with path.open(newline="", encoding="utf-8") as file:
        found = next(csv.reader(file, delimiter=delimiter), schema.names)
    if found != schema.names:
        raise SinkError(
            f"{path} has the columns {', '.join(found)}, but the query gives {', '.join(schema.names)}",
            hint="choose another path, or say mode = 'overwrite'",
        )


def _opened(path: Path, start: Path | None) -> Any:
    if start is None:
        return path.open("wb")
    # Into a copy: the file itself stays as it is until the new one is complete.
    shutil.copyfile(start, path)
    file = path.open("r+b")
    file.seek(0, 2)
    if file.tell():
        file.seek(-1, 2)
        ends_line = file.read(1) == b"\n"
        # The last line may have been written by hand, without an end.
        if not ends_line:
            file.write(b"\n")
    return file


# threads: in how many rows may become text.
WRITERS: dict[str, Callable[[Path, pa.Schema, Mapping[str, str], Path | None, int], Writer]] = {
    "parquet": ParquetWriter,
    "csv": CsvWriter,
    "tsv": TsvWriter,
    "json": JsonWriter,
}
