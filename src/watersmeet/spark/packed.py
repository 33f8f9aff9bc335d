"""Files read straight into packets: a Python data source that never makes Spark rows.

Offsets name the files of each batch, so a batch that is repeated after a failure reads the same files. They also
carry the names of all files read that are still in the folder, so no file is missed however old its time is. The
last offset of a run that ends for good names that run: with it every bucket is told that the stream has ended.
"""

from __future__ import annotations

import base64
import glob
import os
import pickle
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)

from watersmeet.engine.conform import check_columns, conform, plain_schema
from watersmeet.engine.files import readable
from watersmeet.engine.formats import Csv, Format, Parquet
from watersmeet.errors import CatalogError, SourceError
from watersmeet.model.time import Times
from watersmeet.plan.nodes import Input
from watersmeet.spark.job import SparkJob, stream_of
from watersmeet.spark.pack import PACKED, PACKED_SCHEMA, end_packets, gathered, packets, timed
from watersmeet.spark.placing import Placing
from watersmeet.spark.types import spark_schema

FORMAT = "watersmeet_parquet"
NEWEST = "newest"
READ_ROWS = 1 << 18
PARQUET = Parquet()


@dataclass(frozen=True)
class FileStream:
    """Files of one format as an unbounded stream: a folder, one file, or those that a pattern names. Each is read
    once, the oldest first, those of one moment by name, with the readers that a query in-process reads with.

    `rows` gives the stream as Spark's own reader reads it, for queries that keep no state.
    """

    path: str
    max_files_per_trigger: int | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    format: Format = field(default_factory=Parquet)
    rows: Callable[[], DataFrame] | None = field(default=None, repr=False, compare=False)

    def arrow_schema(self, name: str) -> pa.Schema:
        files = listing(self.path, name)
        if not files:
            raise CatalogError(
                f"stream {name!r}: no {self._kind} file in {self.path} to take the columns from",
                hint="put a file there first, or declare the columns",
            )
        first = Path(files[0])
        try:
            with readable(first):
                found = self.format.schema(first, None)
        except SourceError as error:
            raise SourceError(f"stream {name!r}: {error.message}", hint=error.hint) from None
        if found is None:
            raise SourceError(f"stream {name!r}: {first} is empty, so the columns are unknown", hint="declare them")
        return found if self.format.has_footer else plain_schema(found, str(first))

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

    def dataframe(self, spark: SparkSession, schema: pa.Schema) -> DataFrame:
        """The same stream as ordinary Spark rows, for queries that keep no state."""
        if self.rows is not None:
            return self.rows()
        reader = spark.readStream.schema(spark_schema(schema)).options(**self.options)
        if self.max_files_per_trigger is not None:
            reader = reader.option("maxFilesPerTrigger", self.max_files_per_trigger)
        return reader.parquet(self.path)


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


def visible_files(folder: Path) -> Iterator[str]:
    """Files that readers of a data folder look at: not those that begin with a dot or an underscore."""
    if folder.is_file():
        yield str(folder)
        return
    for entry in os.scandir(folder):
        if entry.is_file() and _is_visible(entry.path):
            yield entry.path


def _is_visible(path: str) -> bool:
    return not os.path.basename(path).startswith((".", "_"))


class PackedFiles(DataSource):
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
    limit_us: int | None = None  # rows beyond it move no watermark


@dataclass
class EndPartition(InputPartition):
    """Tells the buckets that the stream has ended in a run."""

    run: str


class PackedReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: Mapping[str, str]) -> None:
        given = {key.lower(): value for key, value in options.items()}
        self.path = given["path"]
        self.source = given["source"]
        self.encoded_job = given["job"]
        limit = given.get("maxfilespertrigger")
        self.max_files = int(limit) if limit else None
        self.ending = given.get("ending")
        self.max_future_us = int(given["maxfuture"]) if "maxfuture" in given else None
        self.available: frozenset[str] | None = None

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable() if self.max_files is None else ReadMaxFiles(self.max_files)

    def prepareForTriggerAvailableNow(self) -> None:
        self.available = frozenset(self._names())

    def initialOffset(self) -> dict[str, Any]:
        return {"files": "", "read": ""}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The files after `start`, oldest first, as many as the limit allows; `start` itself if there are none, unless
        it remains to be told that none will come."""
        if "read" not in start:
            raise SourceError(
                f"stream {self.source!r}: this checkpoint was written when Spark's own reader read its files",
                hint="go on with it by packed = 'false' in the WITH of the stream, or start a new checkpoint",
            )
        read = set(_names(start["read"]))
        there = self._names()
        fresh = [name for name in there if name not in read]
        if self.available is not None:
            fresh = [name for name in fresh if name in self.available]
        taken = fresh[: limit.max_files] if isinstance(limit, ReadMaxFiles) else fresh
        ends = self.available is not None and self.ending is not None and len(taken) == len(fresh)
        if not taken and (not ends or start.get("ended") == self.ending):
            return start
        reached = {"files": "\n".join(taken), "read": "\n".join(sorted({*read.intersection(there), *taken}))}
        if self.max_future_us is not None:  # logged with the batch, so that a repeat finds the same rows too far ahead
            reached["limit_us"] = str(time.time_ns() // 1000 + self.max_future_us)
        return {**reached, "ended": self.ending} if ends else reached

    def _names(self) -> list[str]:
        """The files that are there, in their order; those of a folder by their names alone."""
        paths = listing(self.path, self.source)
        return paths if is_pattern(self.path) else [os.path.basename(path) for path in paths]

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        if start == end:
            return []
        target = Path(self.path)
        folder = target if target.is_dir() else target.parent
        limit_us = int(end["limit_us"]) if "limit_us" in end else None
        names = enumerate(_names(end["files"]))
        files = [FilePartition(str(folder / name), number, limit_us) for number, name in names]
        run = end.get("ended")
        return [*files, EndPartition(run)] if run is not None and run != start.get("ended") else files

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        job, format_ = self._shipped()
        if isinstance(partition, EndPartition):
            yield _timed(end_packets(job, {self.source}, partition.run), 0)
            return
        assert isinstance(partition, FilePartition)
        inputs = [one for one in job.streams if one.relation.name == self.source]
        placings = [Placing(job, one) for one in inputs]
        needed = {name for one in inputs for name in job.columns_needed(one)}
        by_position = isinstance(format_, Csv) and not format_.header
        wanted = pa.schema([column for column in inputs[0].schema if by_position or column.name in needed])
        for number, group in enumerate(gathered(read_file(partition.path, wanted, self.source, format_))):
            limit_us, times = partition.limit_us, _times(group, inputs[0])
            future = 0 if limit_us is None else int((times > limit_us).sum())
            packed = packets(job, inputs, placings, group, (partition.number << 32) + number, future)
            usual = times if limit_us is None else times[times <= limit_us]
            yield _timed(packed, int(usual.max(initial=0)))

    def _shipped(self) -> tuple[SparkJob, Format]:
        job, format_ = pickle.loads(base64.b64decode(self.encoded_job))
        return job, format_


def read_file(path: str, wanted: pa.Schema, source: str, format_: Format = PARQUET) -> Iterator[pa.RecordBatch]:
    """The wanted columns of a file, after a check that it has them in types that fit."""
    file = Path(path)
    with readable(file):
        found = format_.schema(file, wanted)
        if found is None:
            return
        check_file(format_, found, wanted, source, path)
        for batch in format_.read(file, wanted, found, READ_ROWS):
            yield conform(batch, wanted)


def check_file(format_: Format, found: pa.Schema, wanted: pa.Schema, source: str, path: str) -> None:
    """Refuse a file that lacks a column. Text is parsed with the wanted types, so there only the names count."""
    if not format_.has_footer:
        wanted = pa.schema([found.field(one.name) if one.name in found.names else one for one in wanted])
    check_columns(found, wanted, source, path)


def is_pattern(path: str) -> bool:
    return glob.has_magic(path) and not os.path.exists(path)


def listing(path: str, source: str) -> list[str]:
    """The files of a folder, a pattern or a single one: oldest first, by the full precision that the file system has,
    those of one moment by name."""
    target = Path(path)
    if is_pattern(path):
        found = [p for p in glob.glob(path, recursive=True) if os.path.isfile(p) and _is_visible(p)]
    elif not target.exists():
        raise SourceError(f"stream {source!r}: {path} does not exist", hint="create the folder first")
    else:
        found = list(visible_files(target))
    return [p for _, p in sorted((os.stat(p).st_mtime_ns, p) for p in found)]


def _times(group: Sequence[pa.RecordBatch], one: Input) -> Times:
    return np.concatenate([timed(batch, one).times for batch in group])


def _timed(packed: pa.RecordBatch, newest_us: int) -> pa.RecordBatch:
    """Packets with the time that Spark takes its watermark from."""
    column = pa.array([newest_us] * packed.num_rows, pa.int64()).cast(pa.timestamp("us", tz="UTC"))
    return packed.append_column(NEWEST, column)


def _names(joined: str) -> list[str]:
    return joined.split("\n") if joined else []
