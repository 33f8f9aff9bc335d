"""Files read straight into packets, so that Spark never makes rows of them (see packed_source.py)."""

from __future__ import annotations

import base64
import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from watersmeet.errors import CatalogError, SourceError
from watersmeet.hosts.spark.job import SparkJob, stream_of
from watersmeet.hosts.spark.nanoseconds import nanosecond_files
from watersmeet.hosts.spark.pack import PACKED_SCHEMA, end_packets, gathered, packets, timed
from watersmeet.hosts.spark.packed_source import (
    FORMAT,
    NEWEST,
    ROWS_FORMAT,
    FilePartition,
    PackedFiles,
    RowsFiles,
    listing,
)
from watersmeet.hosts.spark.placing import Placing
from watersmeet.hosts.spark.types import spark_layout, spark_schema
from watersmeet.io.conform import check_columns, conform, enter
from watersmeet.io.files import first_schema, readable, with_nanoseconds
from watersmeet.io.formats import Csv, Format, Parquet
from watersmeet.model.catalog import Stream
from watersmeet.model.time import Times
from watersmeet.plan.nodes import Input

READ_ROWS = 1 << 18
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

    def check(self, declared: pa.Schema, name: str) -> None:
        """Refuse declared columns that the first file does not have, before anything runs."""
        for path in listing(self.path, name)[:1]:
            with readable(Path(path)):
                found = self.format.schema(Path(path), declared)
            if found is not None:
                check_file(self.format, found, declared, name, path)

    @property
    def _kind(self) -> str:
        return {"parquet": "Parquet", "csv": "CSV", "json": "JSON"}[self.format.kind]

    def dataframe(self, spark: SparkSession, stream: Stream) -> DataFrame:
        """The same stream as ordinary Spark rows, for queries that keep no state."""
        reader = spark.readStream.schema(spark_schema(stream.schema)).options(**self.options)
        if self.max_files_per_trigger is not None:
            reader = reader.option("maxFilesPerTrigger", self.max_files_per_trigger)
        if self._is_for_spark:
            return reader.parquet(self.path)
        spark.dataSource.register(RowsFiles)
        # Options of a data source are texts. The source itself stays on the driver.
        shipped = base64.b64encode(pickle.dumps((replace(stream, source=None), self.format))).decode()
        return reader.format(ROWS_FORMAT).option("source", stream.name).option("job", shipped).load(self.path)

    @property
    def _is_for_spark(self) -> bool:
        """Whether Spark's own reader reads the same rows, which is faster where rows are what is wanted."""
        return self.format.has_footer and Path(self.path).is_dir() and not nanosecond_files(self.path)


class ParquetStream(FileStream):
    """A folder of Parquet files as an unbounded stream: every file that appears in it is read once.

    Give it to `Session(spark).stream(…)` as data. Files must appear whole (write elsewhere, then move), as for
    Spark's own file source.
    """


def packed_dataframe(
    spark: SparkSession, job: SparkJob, source: str, stream: FileStream, late_ms: int, ending: str | None = None
) -> DataFrame:
    """The packets of a source, with the watermark its rows drive. A run of the name `ending` tells when it ends."""
    spark.dataSource.register(PackedFiles)
    # Whoever packs rows joins nothing, so the static tables need not travel.
    shipped = replace(job, tables={})
    reader = spark.readStream.format(FORMAT).option("path", stream.path).option("source", source)
    reader = reader.option("job", base64.b64encode(pickle.dumps((shipped, stream.format))).decode())
    if stream.max_files_per_trigger is not None:
        reader = reader.option("maxFilesPerTrigger", str(stream.max_files_per_trigger))
    if ending is not None:
        reader = reader.option("ending", ending)
    future_us = next(stream_of(one) for one in job.streams if one.relation.name == source).arrival.max_future_us
    if future_us is not None:
        reader = reader.option("maxFuture", str(future_us))
    columns = [field.name for field in PACKED_SCHEMA]
    return reader.load().withWatermark(NEWEST, f"{late_ms} milliseconds").select(*columns)


def end_of_stream(encoded_job: str, source: str, run: str) -> pa.RecordBatch:
    """What tells every bucket that a stream has ended in a run."""
    job, _ = _shipped(encoded_job)
    # A time of 1970 moves no watermark.
    return _timed(end_packets(job, {source}, run), 0)


def packets_of_file(encoded_job: str, source: str, partition: FilePartition) -> Iterator[pa.RecordBatch]:
    job, format_ = _shipped(encoded_job)
    inputs = [one for one in job.streams if one.relation.name == source]
    placings = [Placing(job, one) for one in inputs]
    needed = {name for one in inputs for name in job.columns_needed(one)}
    by_position = isinstance(format_, Csv) and not format_.header
    # Without a header, columns are known by their position, so all of them are named to the reader.
    wanted = pa.schema([column for column in inputs[0].schema if by_position or column.name in needed])
    batches = read_file(partition.path, wanted, source, format_, stream_of(inputs[0]).rounding)
    for number, group in enumerate(gathered(batches)):
        limit_us, times = partition.limit_us, _times(group, inputs[0])
        packed = packets(job, inputs, placings, group, (partition.number << 32) + number, limit_us)
        usual = times if limit_us is None else times[times <= limit_us]
        yield _timed(packed, int(usual.max(initial=0)))


def rows_of_file(encoded_stream: str, source: str, partition: FilePartition) -> Iterator[pa.RecordBatch]:
    """The rows themselves, as Spark has them."""
    stream: Stream
    stream, format_ = pickle.loads(base64.b64decode(encoded_stream))
    layout = spark_layout(stream.schema)
    for batch in read_file(partition.path, stream.schema, source, format_, stream.rounding):
        yield conform(enter(batch, stream.schema, stream), layout)


def _shipped(encoded_job: str) -> tuple[SparkJob, Format]:
    job, format_ = pickle.loads(base64.b64decode(encoded_job))
    return job, format_


def read_file(
    path: str, wanted: pa.Schema, source: str, format_: Format = PARQUET, rounding: str = "error"
) -> Iterator[pa.RecordBatch]:
    """The wanted columns of a file as it has them, after a check that their types fit. Text is read with all its
    digits where they may be rounded."""
    file = Path(path)
    with readable(file):
        found = format_.schema(file, wanted)
        if found is None:
            return
        check_file(format_, found, wanted, source, path)
        finest = wanted if format_.has_footer or rounding == "error" else with_nanoseconds(wanted)
        yield from format_.read(file, finest, found, READ_ROWS)


def check_file(format_: Format, found: pa.Schema, wanted: pa.Schema, source: str, path: str) -> None:
    """Refuse a file that lacks a column. Text is parsed with the wanted types, so there only the names count."""
    if not format_.has_footer:
        wanted = pa.schema([found.field(one.name) if found.names.count(one.name) == 1 else one for one in wanted])
    check_columns(found, wanted, source, path)


def _times(group: Sequence[pa.RecordBatch], one: Input) -> Times:
    return np.concatenate([timed(batch, one).times for batch in group])


def _timed(packed: pa.RecordBatch, newest_us: int) -> pa.RecordBatch:
    """Packets with the time that Spark takes its watermark from."""
    column = pa.array([newest_us] * packed.num_rows, pa.int64()).cast(pa.timestamp("us", tz="UTC"))
    return packed.append_column(NEWEST, column)
