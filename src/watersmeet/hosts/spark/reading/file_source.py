"""The files of a stream as offsets and partitions: the part of a Python data source that runs on the driver.

Offsets name the files of each batch, so a batch that is repeated after a failure reads the same files. They also
carry the names of all files read that are still in the folder, so no file is missed however old its time is, and how
those looked: when one has changed since, the next offset says so. The last offset of a run that ends for good names
that run: with it every bucket is told that the stream has ended.

Spark starts Python processes for every such source, so the module imports next to nothing; what reads is in
file_packets.py.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles

from watersmeet.errors import SourceError
from watersmeet.hosts.spark.reading.changed_files import CHANGED, changed_told
from watersmeet.hosts.spark.reading.splits import NEWEST, PACKED, FileSplit, Moments, Offset
from watersmeet.hosts.spark.reading.stream_reader import StreamReader
from watersmeet.io.connectors.changed_files import Changed, Look, difference

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = "watersmeet_parquet"
ROWS_FORMAT = "watersmeet_rows"


class PackedFiles(DataSource):
    """The data source of files that hands packets on; its options carry the job."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return f"{PACKED}, {NEWEST} timestamp"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return PackedReader(dict(self.options))


class PackedReader(StreamReader):
    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(options)
        self.path = self.given["path"]
        limit = self.given.get("maxfilespertrigger")
        self.max_files = int(limit) if limit else None
        self.available: frozenset[str] | None = None
        self.told: dict[str, Look] = {}  # files that have changed since they were read, as they had looked

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable() if self.max_files is None else ReadMaxFiles(self.max_files)

    def prepareForTriggerAvailableNow(self) -> None:
        self.available = frozenset(self._files())

    def initialOffset(self) -> Offset:
        # There are no lists in offsets, so names are joined by line feeds.
        return {"files": "", "read": ""}

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """The files after `start`, oldest first, as many as the limit allows; `start` itself if there are none, unless
        it remains to be told that none will come."""
        if "read" not in start:
            raise SourceError(
                f"stream {self.source!r}: this checkpoint was written when Spark's own reader read its files",
                hint="go on with it by packed = 'false' in the WITH of the stream, or start a new checkpoint",
            )
        read = _read_before(start)
        there = self._files()
        changed = self._changed(read, there)
        fresh = [name for name in there if name not in read]
        if self.available is not None:
            fresh = [name for name in fresh if name in self.available]
        taken = fresh[: limit.max_files] if isinstance(limit, ReadMaxFiles) else fresh
        ends = self.available is not None and self.ending is not None and len(taken) == len(fresh)
        # Names of files that are gone are forgotten, so an offset does not grow with all that ever was.
        now = sorted({*(name for name in read if name in there), *taken})
        looks = [there[name] for name in now]
        place: Offset = {
            "files": "\n".join(taken),
            "read": "\n".join(now),
            "looks": "\n".join(f"{one.size} {one.changed_us}" for one in looks),
        }
        if changed:
            place[CHANGED] = changed_told(self.source, changed)
        return self.reached(start, place, moved=bool(taken or changed), ends=ends)

    def _files(self) -> dict[str, Look]:
        """The files that are there, in their order; those of a folder by their names alone."""
        found = looked_at(self.path, self.source)
        return dict(found) if is_pattern(self.path) else {os.path.basename(path): look for path, look in found}

    def _changed(self, read: Mapping[str, Look | None], there: Mapping[str, Look]) -> list[Changed]:
        """Those of which nobody was told. A file is told of once in a life, however often it changes: each time costs a
        batch, as the driver hears of nothing but offsets."""
        looks = {name: (before, there[name]) for name, before in read.items() if before is not None and name in there}
        # Where the same start is asked about again, no batch has come of what was told.
        fresh = {name: both for name, both in looks.items() if self.told.get(name, both[0]) == both[0]}
        found = [Changed(name, how) for name, both in fresh.items() if (how := difference(*both)) is not None]
        self.told |= {one.path: looks[one.path][0] for one in found}
        return found

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        if start == end:
            return []
        target = Path(self.path)
        folder = target if target.is_dir() else target.parent
        moments = Moments.of(end)
        # The names of a pattern are whole paths, which the folder before them does not change.
        files: list[InputPartition] = [
            FileSplit(str(folder / name), number, moments.limit_us, moments.arrival_us)
            for number, name in enumerate(_names(end["files"]))
        ]
        return [*files, *self.end_told(start, end)]

    def rows_of(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from watersmeet.hosts.spark.reading.file_packets import packets_of_file

        assert isinstance(partition, FileSplit)
        yield from packets_of_file(self.encoded_job, self.source, partition)


class RowsFiles(PackedFiles):
    """The same files as rows, for queries that keep no state; its options carry the stream."""

    @classmethod
    def name(cls) -> str:
        return ROWS_FORMAT

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return RowsReader(dict(self.options))


class RowsReader(PackedReader):
    def rows_of(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from watersmeet.hosts.spark.reading.file_packets import rows_of_file

        assert isinstance(partition, FileSplit)
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
    return [found for found, _ in looked_at(path, source)]


def looked_at(path: str, source: str) -> list[tuple[str, Look]]:
    """The same, and how they look."""
    target = Path(path)
    if is_pattern(path):
        found = [p for p in glob.glob(path, recursive=True) if os.path.isfile(p) and _is_visible(p)]
    elif not target.exists():
        raise SourceError(f"stream {source!r}: {path} does not exist", hint="create the folder first")
    else:
        found = list(visible_files(target))
    stats = sorted((stat.st_mtime_ns, p, stat.st_size) for p in found for stat in [os.stat(p)])
    return [(p, Look(size, changed_ns // 1_000)) for changed_ns, p, size in stats]


def _read_before(offset: Offset) -> dict[str, Look | None]:
    """The files that were read, as they looked; offsets of older versions do not know."""
    names, looks = _names(offset["read"]), _names(offset.get("looks", ""))
    known = [Look(*map(int, one.split())) for one in looks]
    return dict(zip(names, known, strict=True)) if known else dict.fromkeys(names)


def _names(joined: str) -> list[str]:
    return joined.split("\n") if joined else []
