"""Files read straight into packets, so that Spark never makes rows of them (see file_source.py)."""

from __future__ import annotations

import base64
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader

from watersmeet.errors import CatalogError, DataError, SourceError
from watersmeet.hosts.spark.exchange.pack import PACKED_SCHEMA, bad_packets, end_packets, gathered, packets, timed
from watersmeet.hosts.spark.exchange.placement import Placing
from watersmeet.hosts.spark.jobs.job import SparkJob, stream_of
from watersmeet.hosts.spark.reading.file_source import (
    FORMAT,
    ROWS_FORMAT,
    FilePartition,
    PackedFiles,
    RowsFiles,
    listing,
)
from watersmeet.hosts.spark.reading.nanoseconds import nanosecond_files
from watersmeet.hosts.spark.reading.stream_reader import NEWEST, Moments
from watersmeet.hosts.spark.types import spark_layout, spark_schema
from watersmeet.io.bad_rows import OnBad
from watersmeet.io.conform import check_columns, conform, enter
from watersmeet.io.event_times import without_nulls
from watersmeet.io.files import FileSource, first_schema, readable, undeclared, with_nanoseconds
from watersmeet.io.formats import Csv, Format, Parquet
from watersmeet.io.read_times import Place, doubt_unit, read_batch, stored_type
from watersmeet.model.arriving import stamped
from watersmeet.model.catalog import Stream
from watersmeet.model.time import Times
from watersmeet.model.time_reading import TimeReading
from watersmeet.plan.nodes import Input

READ_ROWS = 1 << 18
FIRST_ROWS = 1 << 10  # that are looked at when a stream is declared
PARQUET = Parquet()


@dataclass(frozen=True)
class FileStream:
    """Files of one format as an unbounded stream: a folder, one file, or those that a pattern names. Each is read
    once, the oldest first, those of one moment by name, with the readers that a query in-process reads with."""

    path: str
    max_files_per_trigger: int | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    format: Format = field(default_factory=Parquet)

    def arrow_schema(self, name: str) -> pa.Schema:
        files = listing(self.path, name)
        if not files:
            raise CatalogError(
                f"stream {name!r}: no {self._kind} file in {self.path} to take the columns from",
                hint="put a file there first, or declare the columns",
            )
        try:
            return first_schema(name, [Path(file) for file in files], self.format)
        except SourceError as error:
            raise SourceError(f"stream {name!r}: {error.message}", hint=error.hint) from None

    def columns(
        self,
        name: str,
        declared: pa.Schema | None = None,
        reading: TimeReading | None = None,
        *,
        tolerant: bool = False,
    ) -> pa.Schema:
        """The columns as queries see them, those that were declared if any; event times may be written in some way.
        Refuses what the first file does not have, before anything runs. `tolerant`: records that cannot be read are
        left out, so that of text nothing can be told from the first lines."""
        tolerant = tolerant and not self.format.has_footer
        if tolerant and declared is None:
            raise undeclared(name)
        schema = self.arrow_schema(name) if declared is None else declared
        if reading is not None:
            unlooked = not self.format.has_footer or (declared is not None and reading.says_how)
            reading = reading.declared_in(declared).of(name, schema, is_text_file=unlooked)
        if declared is not None and not tolerant:
            self._check(declared, name, reading)
        if reading is None:
            return schema
        shown = reading.shown(schema)
        if not tolerant:
            self._look_at_times(shown, name, reading)
        return shown

    def _check(self, declared: pa.Schema, name: str, reading: TimeReading | None) -> None:
        for path in listing(self.path, name)[:1]:
            with readable(Path(path)):
                found = self.format.schema(Path(path), declared)
            if found is None:
                continue
            if reading is not None and pa.types.is_timestamp(declared.field(reading.column).type):
                declared = _held(declared, found, reading, self.format)
            check_file(self.format, found, declared, name, path)

    def _look_at_times(self, schema: pa.Schema, name: str, reading: TimeReading) -> None:
        """Read the first event times, so that a wrong unit or format is told before anything runs."""
        times = self._first_times(schema, name, reading)
        if times is not None:
            doubt_unit(times, reading, name)

    def first_value(self, column: str) -> object:
        """The first value of a column that is not NULL, for a hint."""
        schema = self.arrow_schema(column)
        found = self._first_times(pa.schema([schema.field(column)]), column, None)
        known = pa.nulls(0) if found is None else found.drop_null()
        return known[0].as_py() if len(known) else None

    def _first_times(self, schema: pa.Schema, name: str, reading: TimeReading | None) -> pa.Array | None:
        column = schema.names[0] if reading is None else reading.column
        by_position = isinstance(self.format, Csv) and not self.format.header
        wanted = schema if by_position else pa.schema([schema.field(column)])
        for path in listing(self.path, name)[:1]:
            batches = read_file(path, wanted, name, self.format, reading=reading, max_rows=FIRST_ROWS)
            first = next(iter(batches), None)
            return None if first is None else first.column(column)
        return None

    @property
    def _kind(self) -> str:
        return {"parquet": "Parquet", "csv": "CSV", "json": "JSON"}[self.format.kind]

    def dataframe(self, spark: SparkSession, stream: Stream) -> DataFrame:
        """The same stream as ordinary Spark rows, for queries that keep no state."""
        reader = spark.readStream.schema(spark_schema(stream.given_schema)).options(**self.options)
        if self.max_files_per_trigger is not None:
            reader = reader.option("maxFilesPerTrigger", self.max_files_per_trigger)
        if self._is_for_spark and stream.reading is None:
            return reader.parquet(self.path)
        spark.dataSource.register(RowsFiles)
        # The source itself stays on the driver.
        job = encoded(replace(stream, source=None), self.format)
        return reader.format(ROWS_FORMAT).option("source", stream.name).option("job", job).load(self.path)

    def packed_reader(self, spark: SparkSession, job: SparkJob) -> DataStreamReader:
        """Of its packets, for a job."""
        spark.dataSource.register(PackedFiles)
        reader = spark.readStream.format(FORMAT).option("path", self.path)
        reader = reader.option("job", encoded(job, self.format))
        limit = self.max_files_per_trigger
        return reader if limit is None else reader.option("maxFilesPerTrigger", str(limit))

    @property
    def _is_for_spark(self) -> bool:
        """Whether Spark's own reader reads the same rows, which is faster where rows are what is wanted."""
        return self.format.has_footer and Path(self.path).is_dir() and not nanosecond_files(self.path)


class ParquetStream(FileStream):
    """A folder of Parquet files as an unbounded stream: every file that appears in it is read once.

    Give it to `Session(spark).stream(…)` as data. Files must appear whole (write elsewhere, then move), as for
    Spark's own file source.
    """


class PackedStream(Protocol):
    """A stream that hands packets to Spark, and knows when it ends."""

    def packed_reader(self, spark: SparkSession, job: SparkJob) -> DataStreamReader:
        """Of its packets, for a job."""

    def dataframe(self, spark: SparkSession, stream: Stream) -> DataFrame:
        """The same stream as ordinary Spark rows."""


def packed_dataframe(
    spark: SparkSession, job: SparkJob, source: str, stream: PackedStream, late_ms: int, ending: str | None = None
) -> DataFrame:
    """The packets of a source, with the watermark its rows drive. A run of the name `ending` tells when it ends."""
    # Whoever packs rows joins nothing, so the static tables need not travel.
    reader = stream.packed_reader(spark, replace(job, tables={})).option("source", source)
    if ending is not None:
        reader = reader.option("ending", ending)
    relation = next(stream_of(one) for one in job.streams if one.relation.name == source)
    if relation.arrival.max_future_us is not None:
        reader = reader.option("maxFuture", str(relation.arrival.max_future_us))
    if relation.by_arrival:
        reader = reader.option("arrival", "true")
    columns = [field.name for field in PACKED_SCHEMA]
    return reader.load().withWatermark(NEWEST, f"{late_ms} milliseconds").select(*columns)


def end_of_stream(encoded_job: str, source: str, run: str) -> pa.RecordBatch:
    """What tells every bucket that a stream has ended in a run."""
    job, _ = shipped(encoded_job)
    # A time of 1970 moves no watermark.
    return with_newest(end_packets(job, {source}, run), 0)


# Reads columns of a stream, of whatever it is read from.
Read = Callable[[pa.Schema, Stream], Iterator[pa.RecordBatch]]


def packets_of_file(encoded_job: str, source: str, partition: FilePartition) -> Iterator[pa.RecordBatch]:
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


def packets_of_bad(job: SparkJob, source: str, records: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What tells of records of a source that cannot be read, if there are any."""
    if records:
        stream = next(stream_of(one) for one in job.streams if one.relation.name == source)
        yield with_newest(bad_packets(stream, records), 0)  # a time of 1970 moves no watermark


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
        for lot in source.lots(file, READ_ROWS):
            if lot.bad is not None:
                on_bad(lot.bad)
            yield lot.rows


def packed_rows(
    job: SparkJob,
    source: str,
    read: Read,
    number: int,
    moments: Moments,
    *,
    whole: bool = False,
    lane: str = "",
    is_alone: bool = True,
) -> Iterator[pa.RecordBatch]:
    """The packets of a part of a source, the part's number in its batch being this. `whole`: all columns are read, not
    only those that the query needs. `lane`: that of the rows, if they have one; `is_alone`: there is no other."""
    inputs = [one for one in job.streams if one.relation.name == source]
    placings = [Placing(job, one) for one in inputs]
    needed = {name for one in inputs for name in job.columns_needed(one)}
    stream = stream_of(inputs[0])
    whole = whole or stream.late_to is not None
    wanted = pa.schema([column for column in inputs[0].schema if whole or column.name in needed])
    if stream.by_arrival:
        wanted = _without_moments(wanted, stream)
    batches = read(wanted, stream)
    if moments.arrival_us is not None:
        batches = _arrived(batches, stream, moments.arrival_us)
    for place, group in enumerate(gathered(batches)):
        limit_us, times = moments.limit_us, _times([without_nulls(stream, batch) for batch in group], inputs[0])
        packed = packets(job, inputs, placings, group, (number << 32) + place, limit_us, lane=lane)
        usual = times if limit_us is None else times[times <= limit_us]
        # Spark would take the newest of all lanes for what a stream has reached, and refuse answers from slower ones.
        yield with_newest(packed, int(usual.max(initial=0)) if is_alone else 0)


def _without_moments(wanted: pa.Schema, stream: Stream) -> pa.Schema:
    """The columns to read; one of them at least, as rows without any cannot be counted."""
    read = [field for field in wanted if field.name != stream.time]
    return pa.schema(read or [stream.given_schema.field(0)])


def _arrived(batches: Iterator[pa.RecordBatch], stream: Stream, moment_us: int) -> Iterator[pa.RecordBatch]:
    field = stream.schema.field(stream.time)
    return (stamped(batch, field, moment_us) for batch in batches)


def rows_of_file(encoded_stream: str, source: str, partition: FilePartition) -> Iterator[pa.RecordBatch]:
    """The rows themselves, as Spark has them."""
    stream: Stream
    stream, format_ = pickle.loads(base64.b64decode(encoded_stream))
    schema = stream.given_schema
    layout = spark_layout(schema)
    for batch in read_file(partition.path, schema, source, format_, stream.rounding, stream.reading):
        yield conform(enter(batch, schema, stream), layout)


def encoded(job: SparkJob | Stream, beside: Format | None = None) -> str:
    """What travels with a data source, whose options are texts: a job or a stream, and the format of its files."""
    return base64.b64encode(pickle.dumps((job, beside))).decode()


def shipped(encoded_job: str) -> tuple[SparkJob, Format]:
    job, format_ = pickle.loads(base64.b64decode(encoded_job))
    return job, format_


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
            wanted = _held(wanted, found, reading, format_)
        check_file(format_, found, wanted, source, path)
        finest = wanted if format_.has_footer or rounding == "error" else with_nanoseconds(wanted)
        batches = format_.read(file, finest, found, max_rows)
        yield from batches if reading is None else _with_times(batches, reading, source, path)


def _held(wanted: pa.Schema, found: pa.Schema, reading: TimeReading, format_: Format) -> pa.Schema:
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


def _times(group: Sequence[pa.RecordBatch], one: Input) -> Times:
    return np.concatenate([timed(batch, one).times for batch in group])


def with_newest(packed: pa.RecordBatch, newest_us: int) -> pa.RecordBatch:
    """Packets with the time that Spark takes its watermark from."""
    column = pa.array([newest_us] * packed.num_rows, pa.int64()).cast(pa.timestamp("us", tz="UTC"))
    return packed.append_column(NEWEST, column)
