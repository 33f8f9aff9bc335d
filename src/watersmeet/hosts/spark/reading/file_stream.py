"""Files as an unbounded stream on Spark: what a session is given, and what the driver knows of them."""

from __future__ import annotations

import base64
import pickle
from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from watersmeet.dataclass import dataclass
from watersmeet.errors import CatalogError, DataError, SourceError
from watersmeet.hosts.spark.reading.connector_stream import ConnectorStream
from watersmeet.hosts.spark.reading.files_frame import nanosecond_files
from watersmeet.hosts.spark.types import spark_schema
from watersmeet.io.connectors.connected_source import ConnectedSource
from watersmeet.io.connectors.guarded import GuardedSource
from watersmeet.io.connectors.local_files import LocalFiles
from watersmeet.io.connectors.local_folder import LocalFolder
from watersmeet.io.files import FileSource, first_schema, readable, undeclared, with_event_times
from watersmeet.io.formats import Format, Parquet
from watersmeet.model.catalog import Stream
from watersmeet.model.time_reading import TimeReading

ANY_AGE = "36500d"


@dataclass(frozen=True)
class FileStream:
    """Files of one format as an unbounded stream: a folder, one file, or those that a pattern names. Each is read
    once, the oldest first, those of one moment by name, with the readers that a query in-process reads with."""

    path: str
    max_files_per_trigger: int | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    format: Format = field(default_factory=Parquet)

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
        source = self._source(name, declared)
        try:
            source = source if reading is None else with_event_times(source, reading, look=not tolerant)
        except DataError as error:
            raise DataError(f"stream {error.message}", hint=error.hint) from None
        if declared is not None and not tolerant:
            self._check(source)
        return source.schema

    def _source(self, name: str, declared: pa.Schema | None) -> FileSource:
        """How files are read, and the first of them."""
        files = self.files(name)
        if declared is None and not files:
            kind = {"parquet": "Parquet", "csv": "CSV", "json": "JSON"}[self.format.kind]
            raise CatalogError(
                f"stream {name!r}: no {kind} file in {self.path} to take the columns from",
                hint="put a file there first, or declare the columns",
            )
        try:
            schema = first_schema(name, files, self.format) if declared is None else declared
        except SourceError as error:
            raise SourceError(f"stream {name!r}: {error.message}", hint=error.hint) from None
        return FileSource(name, tuple(files[:1]), self.format, schema, self.path, declared is not None, where=self.path)

    def files(self, name: str) -> list[Path]:
        """Those that are there, in the order in which they are read."""
        folder = LocalFolder(self.path, None)
        if folder.is_gone():
            raise SourceError(f"stream {name!r}: {self.path} does not exist", hint="create the folder first")
        return [folder.file(one.path) for one in sorted(folder.listed(lambda _: False)[1])]

    def _check(self, source: FileSource) -> None:
        for path in source.paths:
            with readable(path), source.naming_rows(path):
                found = self.format.schema(path, source.schema)
            if found is not None:
                source.check(found, path)

    def first_values(self, column: str) -> list[object]:
        """The first values of a column that are not NULL, for a hint."""
        return self._source(column, None).first_values(column)

    def read_as(self, stream: Stream) -> FileSource:
        """The files as a query reads them: of the columns only those must be there that it needs."""
        return FileSource(
            stream.name, (), self.format, stream.given_schema, self.path, declared=True, where=self.path,
            rounding=stream.rounding, reading=stream.reading,
        ).tolerant(replace(stream, source=None))  # fmt: skip

    def connected(self, stream: Stream) -> FolderStream:
        """The same as what a connector reads, for a stream."""
        files = self.read_as(stream)
        source = LocalFiles(stream.name, self.path, None, files)
        return FolderStream(ConnectedSource(stream.name, GuardedSource("files", source), files.schema), folder=self)


class ParquetStream(FileStream):
    """A folder of Parquet files as an unbounded stream: every file that appears in it is read once.

    Give it to `Session(spark).stream(…)` as data. Files must appear whole (write elsewhere, then move), as for
    Spark's own file source.
    """


@dataclass(frozen=True, kw_only=True)
class FolderStream(ConnectorStream):
    """Files of this machine, which the driver lists and tasks read."""

    folder: FileStream

    def dataframe(self, spark: SparkSession, stream: Stream) -> DataFrame:
        if self.place is not None or not self._is_for_spark(stream):
            return super().dataframe(spark, stream)
        # By itself Spark passes over files that are a week older than the newest, without a word.
        reader = spark.readStream.schema(spark_schema(stream.given_schema)).option("maxFileAge", ANY_AGE)
        reader = reader.options(**self.folder.options)
        limit = self.folder.max_files_per_trigger
        return (reader if limit is None else reader.option("maxFilesPerTrigger", limit)).parquet(self.folder.path)

    def _is_for_spark(self, stream: Stream) -> bool:
        """Whether Spark's own reader reads the same rows, which is faster where rows are what is wanted."""
        path, is_parquet = self.folder.path, self.folder.format.has_footer
        return is_parquet and stream.reading is None and Path(path).is_dir() and not nanosecond_files(path)

    def encoded_options(self) -> dict[str, str]:
        listed = LocalFiles(self.source.name, self.folder.path, None, None, forgets_gone=True)
        options = super().encoded_options() | {"folder": base64.b64encode(pickle.dumps(listed)).decode()}
        limit = self.folder.max_files_per_trigger
        return options | ({} if limit is None else {"maxFilesPerTrigger": str(limit)})
