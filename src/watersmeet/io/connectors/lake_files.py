"""Parquet files of a table, read as rows of the columns that are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pa_fs
import pyarrow.parquet as pa_parquet

from watersmeet.io.conform import conform

READ_ROWS = 1 << 16


def read_rows(
    files: pa_fs.FileSystem, path: str, schema: pa.Schema, constants: Mapping[str, Any]
) -> Iterator[pa.RecordBatch]:
    """The rows of a file with these columns: those that it has, those that are the same in all of its rows, and NULL in
    the others, which were added to the table later."""
    with files.open_input_file(path) as opened:
        file = pa_parquet.ParquetFile(opened)
        there = set(file.schema_arrow.names)
        own = [name for name in schema.names if name in there and name not in constants]
        for batch in file.iter_batches(batch_size=READ_ROWS, columns=own):
            yield _filled(batch, schema, constants)


def count_rows(files: pa_fs.FileSystem, path: str) -> int:
    with files.open_input_file(path) as opened:
        return int(pa_parquet.ParquetFile(opened).metadata.num_rows)


def _filled(batch: pa.RecordBatch, schema: pa.Schema, constants: Mapping[str, Any]) -> pa.RecordBatch:
    columns, fields = [], []
    for field in schema:
        if field.name in constants:
            column = pa.repeat(_typed(constants[field.name], field.type), batch.num_rows)
        elif field.name in batch.schema.names:
            column = batch.column(field.name)
        else:
            column = pa.nulls(batch.num_rows, field.type)
        columns.append(column)
        fields.append(pa.field(field.name, column.type))
    return conform(pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields)), schema)


def _typed(value: Any, kind: pa.DataType) -> pa.Scalar:
    """A value that may be written as text, as logs do."""
    if not isinstance(value, str) or pa.types.is_string(kind):
        return pa.scalar(value, kind)
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        naive = pc.cast(pa.scalar(value.removesuffix("Z").replace("T", " ")), pa.timestamp(kind.unit))
        return pc.assume_timezone(naive, "UTC").cast(kind)
    return pc.cast(pa.scalar(value), kind)
