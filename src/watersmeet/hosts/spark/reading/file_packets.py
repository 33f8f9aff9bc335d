"""Files read straight into packets, so that Spark never makes rows of them; and as rows, where these are wanted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from watersmeet.errors import DataError
from watersmeet.hosts.spark.reading.source_packets import (
    packed_rows,
    packets_of_bad,
    shipped,
    shipped_stream,
)
from watersmeet.hosts.spark.reading.splits import FileSplit
from watersmeet.hosts.spark.types import spark_layout
from watersmeet.io.bad_rows import OnBad
from watersmeet.io.conform import check_columns, conform, enter
from watersmeet.io.files import FileSource, readable, with_nanoseconds
from watersmeet.io.formats import Csv, Format, Parquet
from watersmeet.io.read_times import Place, read_batch, stored_type
from watersmeet.model.catalog import Stream
from watersmeet.model.time_reading import TimeReading

READ_ROWS = 1 << 18
PARQUET = Parquet()


def packets_of_file(encoded_job: str, source: str, partition: FileSplit) -> Iterator[pa.RecordBatch]:
    job, format_ = shipped(encoded_job)
    bad: list[pa.RecordBatch] = []

    def read(wanted: pa.Schema, stream: Stream) -> Iterator[pa.RecordBatch]:
        if stream.arrival.keeps_going:
            return _readable_rows(partition.path, stream, format_, bad.append)
        return read_file(partition.path, wanted, source, format_, stream.rounding, stream.reading)

    # Without a header, columns are known by their position, so all of them are named to the reader.
    by_position = isinstance(format_, Csv) and not format_.header
    yield from packed_rows(job, source, read, partition.number, partition.moments, whole=by_position)
    yield from packets_of_bad(job, source, bad)


def rows_of_file(encoded_stream: str, source: str, partition: FileSplit) -> Iterator[pa.RecordBatch]:
    """The rows themselves, as Spark has them."""
    stream, format_ = shipped_stream(encoded_stream)
    schema = stream.given_schema
    layout = spark_layout(schema)
    for batch in read_file(partition.path, schema, source, format_, stream.rounding, stream.reading):
        yield conform(enter(batch, schema, stream), layout)


def _readable_rows(path: str, stream: Stream, format_: Format, on_bad: OnBad) -> Iterator[pa.RecordBatch]:
    """The rows of a file with all their columns, read as in-process; what cannot be read is handed over."""
    file = Path(path)
    source = FileSource(
        stream.name,
        (file,),
        format_,
        stream.given_schema,
        path,
        declared=True,
        rounding=stream.rounding,
        reading=stream.reading,
        stream=stream,
    )
    with readable(file):
        for batch in source.source_batches(file, READ_ROWS):
            if batch.bad is not None:
                on_bad(batch.bad)
            yield batch.rows


def read_file(
    path: str,
    wanted: pa.Schema,
    source: str,
    format_: Format = PARQUET,
    rounding: str = "error",
    reading: TimeReading | None = None,
    max_rows: int = READ_ROWS,
) -> Iterator[pa.RecordBatch]:
    """The wanted columns of a file as it has them, after a check that their types fit; event times that are written in
    some way as timestamps. Text is read with all its digits where they may be rounded."""
    file = Path(path)
    with readable(file):
        found = format_.schema(file, wanted)
        if found is None:
            return
        if reading is not None:
            wanted = held(wanted, found, reading, format_)
        check_file(format_, found, wanted, source, path)
        finest = wanted if format_.has_footer or rounding == "error" else with_nanoseconds(wanted)
        batches = format_.read(file, finest, found, max_rows)
        yield from batches if reading is None else _with_times(batches, reading, source, path)


def held(wanted: pa.Schema, found: pa.Schema, reading: TimeReading, format_: Format) -> pa.Schema:
    """The wanted columns as a file holds them."""
    if reading.column not in found.names:
        return wanted
    return reading.held(wanted, stored_type(found.field(reading.column).type, reading, format_))


def _with_times(
    batches: Iterator[pa.RecordBatch], reading: TimeReading, source: str, path: str
) -> Iterator[pa.RecordBatch]:
    before = 0
    for batch in batches:
        try:
            yield read_batch(batch, reading, Place(before, path))
        except DataError as error:
            raise DataError(f"stream {source!r}: {error.message}", hint=error.hint) from None
        before += batch.num_rows


def check_file(format_: Format, found: pa.Schema, wanted: pa.Schema, source: str, path: str) -> None:
    """Refuse a file that lacks a column. Text is parsed with the wanted types, so there only the names count."""
    if not format_.has_footer:
        wanted = pa.schema([found.field(one.name) if found.names.count(one.name) == 1 else one for one in wanted])
    check_columns(found, wanted, source, path)
