"""One file being written, by format."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet

from watersmeet.errors import SinkError
from watersmeet.io.formats import delimiter_of
from watersmeet.io.rows import python_rows
from watersmeet.model.types import is_bytes

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

    def __init__(self, path: Path, schema: pa.Schema, options: Mapping[str, str], start: Path | None) -> None:
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
    if kind == "csv":
        delimiter_of(options, wrong=SinkError)
    elif kind == "parquet":
        _codec(options)


def _readable(column: pa.Array) -> pa.Array:
    """Bytes that can be written as text."""
    try:
        pc.cast(column, pa.string())
    except pa.ArrowInvalid:
        shown = [
            None if one is None else one.decode("utf-8", "backslashreplace").encode() for one in column.to_pylist()
        ]
        return pa.array(shown, column.type)
    return column


class CsvWriter:
    """NULL is an empty field, text is in quotes; `start` is a file whose content comes first. Bytes are written as the
    text that they are; those that are none as `\\xff`."""

    def __init__(self, path: Path, schema: pa.Schema, options: Mapping[str, str], start: Path | None) -> None:
        header = options.get("header", "true").lower() == "true"
        delimiter = delimiter_of(options, wrong=SinkError)
        nested = [field.name for field in schema if pa.types.is_nested(field.type)]
        if nested:
            raise SinkError(f"column {nested[0]!r} is nested and cannot be written as csv", hint="use parquet or json")
        if start is not None and header:
            _check_header(start, schema, delimiter)
        self._file = _opened(path, start)
        # What is shown of bytes may be longer than they are.
        self._schema = pa.schema([f.with_type(pa.binary()) if is_bytes(f.type) else f for f in schema])
        self._writer = pa_csv.CSVWriter(
            self._file,
            self._schema,
            # A file that is appended to has its header already, unless nothing was written to it yet.
            write_options=pa_csv.WriteOptions(
                include_header=header and (start is None or start.stat().st_size == 0), delimiter=delimiter
            ),
        )

    def write(self, batch: pa.RecordBatch) -> None:
        for index, column in enumerate(batch.columns):
            if is_bytes(column.type):
                batch = batch.set_column(index, self._schema.field(index), _readable(pc.cast(column, pa.binary())))
        self._writer.write_batch(batch)

    def close(self) -> None:
        self._writer.close()
        self._file.close()

    def discard(self) -> None:
        self.close()


def _check_header(path: Path, schema: pa.Schema, delimiter: str) -> None:
    with path.open(newline="", encoding="utf-8") as file:
        found = next(csv.reader(file, delimiter=delimiter), schema.names)
    if found != schema.names:
        raise SinkError(
            f"{path} has the columns {', '.join(found)}, but the query gives {', '.join(schema.names)}",
            hint="choose another path, or say mode = 'overwrite'",
        )


class JsonWriter:
    """One object per line. Times are ISO 8601 text, intervals microseconds; NaN and infinities, which JSON
    does not have, are null."""

    def __init__(self, path: Path, schema: pa.Schema, options: Mapping[str, str], start: Path | None) -> None:
        self._file = _opened(path, start)

    def write(self, batch: pa.RecordBatch) -> None:
        for line in json_rows(batch):
            self._file.write(line.encode() + b"\n")

    def close(self) -> None:
        self._file.close()

    def discard(self) -> None:
        self._file.close()


def json_rows(batch: pa.RecordBatch) -> Iterator[str]:
    """The rows as JSON objects."""
    names = batch.schema.names
    for row in python_rows(_finite(batch)):
        yield json.dumps(dict(zip(names, row, strict=True)), default=_json_value, ensure_ascii=False)


def _finite(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = [_finite_column(column) if pa.types.is_floating(column.type) else column for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _finite_column(column: pa.Array) -> pa.Array:
    return pc.if_else(pc.is_finite(column), column, pa.scalar(None, column.type))


def _json_value(value: Any) -> Any:
    if isinstance(value, date | datetime | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value // timedelta(microseconds=1)
    if isinstance(value, bytes):
        return value.hex()
    return str(value)


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


WRITERS: dict[str, Callable[[Path, pa.Schema, Mapping[str, str], Path | None], Writer]] = {
    "parquet": ParquetWriter,
    "csv": CsvWriter,
    "json": JsonWriter,
}
