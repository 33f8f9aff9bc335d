"""Parquet folders read straight into packets: a Python data source that never makes Spark rows.

Offsets name the files of each batch, so a batch that is repeated after a failure reads the same files. They also
carry the names of all files read that are still in the folder, so no file is missed however old its time is. The
last offset of a run that ends for good names that run: with it every bucket is told that the stream has ended.
"""

from __future__ import annotations

import base64
import os
import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)

from watersmeet.engine.conform import check_columns
from watersmeet.errors import CatalogError, SourceError
from watersmeet.spark.job import SparkJob
from watersmeet.spark.pack import PACKED, PACKED_SCHEMA, end_packets, gathered, packets
from watersmeet.spark.placing import Placing
from watersmeet.spark.types import spark_schema

FORMAT = "watersmeet_parquet"
NEWEST = "newest"
READ_ROWS = 1 << 18


@dataclass(frozen=True)
class ParquetStream:
    """A folder of Parquet files as an unbounded stream: every file that appears in it is read once.

    Give it to `Session(spark).stream(…)` as data. Files must appear whole (write elsewhere, then move), as for
    Spark's own file source.
    """

    path: str
    max_files_per_trigger: int | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    def arrow_schema(self, name: str) -> pa.Schema:
        files = sorted(visible_files(Path(self.path)))
        if not files:
            raise CatalogError(
                f"stream {name!r}: no Parquet file in {self.path} to take the columns from",
                hint="put a file there first, or declare the columns",
            )
        try:
            return pq.read_schema(files[0])
        except (OSError, pa.ArrowException) as error:
            raise SourceError(f"stream {name!r}: {files[0]} is not a readable Parquet file: {error}") from None

    def dataframe(self, spark: SparkSession, schema: pa.Schema) -> DataFrame:
        """The same stream as ordinary Spark rows, for queries that keep no state."""
        reader = spark.readStream.schema(spark_schema(schema)).options(**self.options)
        if self.max_files_per_trigger is not None:
            reader = reader.option("maxFilesPerTrigger", self.max_files_per_trigger)
        return reader.parquet(self.path)


def packed_dataframe(
    spark: SparkSession, job: SparkJob, source: str, stream: ParquetStream, late_ms: int, ending: str | None = None
) -> DataFrame:
    """The packets of a source, with the watermark its rows drive. A run of the name `ending` tells when it ends."""
    spark.dataSource.register(PackedParquet)
    shipped = replace(job, tables={})
    reader = spark.readStream.format(FORMAT).option("path", stream.path).option("source", source)
    reader = reader.option("job", base64.b64encode(pickle.dumps(shipped)).decode())
    if stream.max_files_per_trigger is not None:
        reader = reader.option("maxFilesPerTrigger", str(stream.max_files_per_trigger))
    if ending is not None:
        reader = reader.option("ending", ending)
    columns = [field.name for field in PACKED_SCHEMA]
    return reader.load().withWatermark(NEWEST, f"{late_ms} milliseconds").select(*columns)


def visible_files(folder: Path) -> Iterator[str]:
    """Files that readers of a data folder look at: not those that begin with a dot or an underscore."""
    if folder.is_file():
        yield str(folder)
        return
    for entry in os.scandir(folder):
        if entry.is_file() and not entry.name.startswith((".", "_")):
            yield entry.path


class PackedParquet(DataSource):
    """The data source behind `packed_dataframe`; its options carry the job."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return f"{PACKED}, {NEWEST} timestamp"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return PackedReader(dict(self.options))


@dataclass
class FilePartition(InputPartition):
    """One file, and its place among the files of the batch."""

    path: str
    number: int


@dataclass
class EndPartition(InputPartition):
    """Tells the buckets that the stream has ended in a run."""

    run: str


class PackedReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: Mapping[str, str]) -> None:
        given = {key.lower(): value for key, value in options.items()}
        self.folder = Path(given["path"])
        self.source = given["source"]
        self.encoded_job = given["job"]
        limit = given.get("maxfilespertrigger")
        self.max_files = int(limit) if limit else None
        self.ending = given.get("ending")
        self.available: frozenset[str] | None = None

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable() if self.max_files is None else ReadMaxFiles(self.max_files)

    def prepareForTriggerAvailableNow(self) -> None:
        self.available = frozenset(name for _, name in self._listing())

    def initialOffset(self) -> dict[str, Any]:
        return {"files": "", "read": ""}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The files after `start`, oldest first, as many as the limit allows; `start` itself if there are none, unless
        it remains to be told that none will come."""
        read = set(_names(start["read"]))
        there = [name for _, name in self._listing()]
        fresh = [name for name in there if name not in read]
        if self.available is not None:
            fresh = [name for name in fresh if name in self.available]
        taken = fresh[: limit.max_files] if isinstance(limit, ReadMaxFiles) else fresh
        ends = self.available is not None and self.ending is not None and len(taken) == len(fresh)
        if not taken and (not ends or start.get("ended") == self.ending):
            return start
        reached = {"files": "\n".join(taken), "read": "\n".join(sorted({*read.intersection(there), *taken}))}
        return {**reached, "ended": self.ending} if ends else reached

    def _listing(self) -> list[tuple[int, str]]:
        """Modification time in nanoseconds and name of every file, oldest first, those of one moment by name."""
        if not self.folder.exists():
            raise SourceError(f"stream {self.source!r}: {self.folder} does not exist", hint="create the folder first")
        paths = visible_files(self.folder)
        return sorted((os.stat(path).st_mtime_ns, os.path.basename(path)) for path in paths)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        if start == end:
            return []
        folder = self.folder if self.folder.is_dir() else self.folder.parent
        files = [FilePartition(str(folder / name), number) for number, name in enumerate(_names(end["files"]))]
        run = end.get("ended")
        return [*files, EndPartition(run)] if run is not None and run != start.get("ended") else files

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        job: SparkJob = pickle.loads(base64.b64decode(self.encoded_job))
        if isinstance(partition, EndPartition):
            yield _timed(end_packets(job, {self.source}, partition.run), 0)
            return
        assert isinstance(partition, FilePartition)
        inputs = [one for one in job.streams if one.relation.name == self.source]
        placings = [Placing(job, one) for one in inputs]
        needed = {name for one in inputs for name in job.columns_needed(one)}
        wanted = pa.schema([column for column in inputs[0].schema if column.name in needed])
        for number, group in enumerate(gathered(read_file(partition.path, wanted, self.source))):
            packed = packets(job, inputs, placings, group, (partition.number << 32) + number)
            time = inputs[0].time
            newest = max(pc.max(batch.column(time)).cast(pa.timestamp("us", tz="UTC")).value for batch in group)
            yield _timed(packed, newest)


def read_file(path: str, wanted: pa.Schema, source: str) -> Iterator[pa.RecordBatch]:
    """The wanted columns of a file, after a check that it has them in types that fit."""
    try:
        file = pq.ParquetFile(path)
        check_columns(file.schema_arrow, wanted, source, path)
        yield from file.iter_batches(READ_ROWS, columns=wanted.names)
    except (OSError, pa.ArrowException) as error:
        raise SourceError(f"stream {source!r}: {path} cannot be read: {error}") from None


def _timed(packed: pa.RecordBatch, newest_us: int) -> pa.RecordBatch:
    """Packets with the time that Spark takes its watermark from."""
    column = pa.array([newest_us] * packed.num_rows, pa.int64()).cast(pa.timestamp("us", tz="UTC"))
    return packed.append_column(NEWEST, column)


def _names(joined: str) -> list[str]:
    return joined.split("\n") if joined else []
