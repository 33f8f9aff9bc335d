"""The files of a stream as offsets and partitions: the part of a Python data source that runs on the driver.

Offsets name the files of each batch, so a batch that is repeated after a failure reads the same files. They also
carry the names of all files read that are still in the folder, so no file is missed however old its time is. The
last offset of a run that ends for good names that run: with it every bucket is told that the stream has ended.

Spark starts Python processes for every such source, so the module imports next to nothing; what reads is in packed.py.
"""

from __future__ import annotations

import glob
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)

from watersmeet.errors import SourceError

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = "watersmeet_parquet"
ROWS_FORMAT = "watersmeet_rows"
NEWEST = "newest"
PACKED = "bucket int, input int, part long, rows_in long, primary boolean, payload binary"


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
    arrival_us: int | None = None  # the moment at which its rows arrived, where that is their event time


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
        self.by_arrival = "arrival" in given
        self.max_future_us = int(given["maxfuture"]) if "maxfuture" in given else None
        self.available: frozenset[str] | None = None

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable() if self.max_files is None else ReadMaxFiles(self.max_files)

    def prepareForTriggerAvailableNow(self) -> None:
        self.available = frozenset(self._names())

    def initialOffset(self) -> dict[str, Any]:
        # Spark allows numbers, texts and nested dicts in offsets, but no lists, so names are joined by line feeds.
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
        # Names of files that are gone are forgotten, so an offset does not grow with all that ever was.
        reached = {"files": "\n".join(taken), "read": "\n".join(sorted({*read.intersection(there), *taken}))}
        if self.max_future_us is not None:  # logged with the batch, so that a repeat finds the same rows too far ahead
            reached["limit_us"] = str(time.time_ns() // 1000 + self.max_future_us)
        if self.by_arrival:  # logged for the same reason; the clock may be set back, and time is not
            reached["arrival_us"] = str(max(time.time_ns() // 1000, int(start.get("arrival_us", 0))))
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
        # The names of a pattern are whole paths, which the folder before them does not change.
        arrival_us = int(end["arrival_us"]) if "arrival_us" in end else None
        files = [FilePartition(str(folder / name), number, limit_us, arrival_us) for number, name in names]
        run = end.get("ended")
        # The same end stands in `start` if it was told before; an end is told once.
        return [*files, EndPartition(run)] if run is not None and run != start.get("ended") else files

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from watersmeet.hosts.spark.packed import end_of_stream, packets_of_file

        if isinstance(partition, EndPartition):
            yield end_of_stream(self.encoded_job, self.source, partition.run)
            return
        assert isinstance(partition, FilePartition)
        yield from packets_of_file(self.encoded_job, self.source, partition)


class RowsFiles(PackedFiles):
    """The same files as rows, for queries that keep no state; its options carry the stream."""

    @classmethod
    def name(cls) -> str:
        return ROWS_FORMAT

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return RowsReader(dict(self.options))


class RowsReader(PackedReader):
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from watersmeet.hosts.spark.packed import rows_of_file

        assert isinstance(partition, FilePartition)
        yield from rows_of_file(self.encoded_job, self.source, partition)


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


def _names(joined: str) -> list[str]:
    return joined.split("\n") if joined else []
