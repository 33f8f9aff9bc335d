"""Files as an unbounded stream on Spark: what the driver knows of them (see file_source.py for what is read when)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader

from watersmeet.errors import CatalogError, SourceError
from watersmeet.hosts.spark.jobs.job import SparkJob
from watersmeet.hosts.spark.reading.file_packets import check_file, held, read_file
from watersmeet.hosts.spark.reading.file_source import FORMAT, ROWS_FORMAT, PackedFiles, RowsFiles, listing
from watersmeet.hosts.spark.reading.nanoseconds import nanosecond_files
from watersmeet.hosts.spark.reading.source_packets import encoded
from watersmeet.hosts.spark.types import spark_schema
from watersmeet.io.files import first_schema, readable, undeclared
from watersmeet.io.formats import Csv, Format, Parquet
from watersmeet.io.read_times import doubt_unit
from watersmeet.model.catalog import Stream
from watersmeet.model.time_reading import TimeReading

FIRST_ROWS = 1 << 10  # that are looked at when a stream is declared


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
                declared = held(declared, found, reading, self.format)
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
