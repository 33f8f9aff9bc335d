"""A Delta table as a stream: the rows that it has, then those that each version adds; or every change, as its feed
tells it.

An offset is [table, version, files, whole]: of a version so many files were read, the first ones by the order of its
log; whole is true for the version whose rows are all that the table had then. The log and the files of versions that
are still to be read must stay where they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pa_fs
import pyarrow.parquet as pa_parquet
from deltalake import DeltaTable

from watersmeet.errors import OptionError, SourceError
from watersmeet.io.conform import check_columns, conform
from watersmeet.io.connectors.contract import Offsets, PartitionedSource, SourceBatch, SourceOpening, Split
from watersmeet.io.connectors.delta.log import TAKEN, DataFile, Version, read_version, snapshot, version_file
from watersmeet.io.connectors.delta.opening import Place, check_readable, columns_of
from watersmeet.io.connectors.lake_options import one_of

PARTITION = "table"
KNOWN_VERSIONS = 1_000
NOT_THERE = -1
SLICE_BYTES = 128 << 20  # so many are read by one
FEED = pa.schema(
    [("_change_type", pa.string()), ("_commit_version", pa.int64()), ("_commit_timestamp", pa.timestamp("us", "UTC"))]
)


_TAKEN = pa.array(["delete", "update_preimage"])


class Offset(NamedTuple):
    """How far a table was read."""

    table: str
    version: int
    files: int
    whole: bool


class DeltaSource(PartitionedSource):
    def __init__(self, opening: SourceOpening) -> None:
        options = opening.options
        self._name, self._declared = opening.name, opening.columns
        self._place = Place(opening.name, options, SourceError)
        self._start = options.get("start", "earliest").strip()
        self._feed = one_of(opening.name, options, "changes", ("refuse", "feed"), "refuse") == "feed"
        if self._feed and opening.time not in (None, "_commit_timestamp"):
            raise OptionError(
                f"{opening.name!r} reads a change feed with time = {opening.time!r}, but a row that is deleted or "
                "replaced comes with what it held, not with when that was",
                hint="say time = '_commit_timestamp'",
                option="time",
            )
        self._versions: dict[tuple[int, bool], Version] = {}
        self._table_id: str | None = None  # of the table that is read, once it was asked
        self._last: tuple[int, int] | None = None  # the newest version that was found, and when it was written

    def __getstate__(self) -> dict[str, Any]:
        kept = {name: value for name, value in self.__dict__.items() if name not in ("_files", "schema")}
        return kept | {"_versions": {}, "_table_id": None, "_last": None}

    # ---- what it is -------------------------------------------------------------------------------------------------

    @cached_property
    def schema(self) -> pa.Schema:
        table = self._place.opened()
        check_readable(table, self._place.path)
        found = columns_of(table, self._place.path)
        if self._feed:
            self._check_feed(table)
            found = pa.schema([*found, *FEED])
        if self._declared is None:
            return found
        check_columns(found, self._declared, self._name, f"the Delta table {self._place.path}")
        return self._declared

    @property
    def description(self) -> str:
        return f"the Delta table {self._place.path}"

    @cached_property
    def _files(self) -> pa_fs.FileSystem:
        return self._place.files()

    def _check_feed(self, table: Any) -> None:
        if table.metadata().configuration.get("delta.enableChangeDataFeed") != "true":
            raise SourceError(
                f"the Delta table {self._place.path} keeps no change feed",
                hint="set its property delta.enableChangeDataFeed to true, or leave changes = 'feed' out",
            )

    # ---- offsets ----------------------------------------------------------------------------------------------------

    def begin(self) -> Offsets:
        table = self._place.opened()
        name, newest = str(table.metadata().id), table.version()
        start = self._start.lower()
        if start == "earliest":
            return {PARTITION: [name, newest, 0, True]}
        if start == "latest":
            return {PARTITION: [name, newest, self._count_files(newest), False]}
        first = int(start) if start.isdecimal() else self._version_at(table)
        if first > newest:
            raise SourceError(
                f"{self._name!r} is to start at version {first:,}, but the newest of the Delta table "
                f"{self._place.path} is {newest:,}"
            )
        return {PARTITION: [name, first, 0, False]}

    def _version_at(self, table: Any) -> int:
        try:
            moment = datetime.fromisoformat(self._start)
        except ValueError:
            raise OptionError(
                f"{self._name!r} has start = {self._start!r}",
                hint="it may be 'earliest', 'latest', the number of a version, or a time such as '2026-01-31 12:00:00'",
                option="start",
            ) from None
        moment_ms = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000
        # From the newest on: old versions may be gone from the log.
        first = int(table.version()) + 1
        while first > 0 and (version := self._read(first - 1)) is not None and version.time_ms >= moment_ms:
            first -= 1
        return first

    def newest(self, after: Offsets, most_rows: int | None = None) -> Offsets:
        self.schema  # noqa: B018 - what cannot be read is told before rows are
        at = reached = Offset(*after[PARTITION])
        self._check_same(at)
        rows = 0
        while True:
            version = self._version(at)
            for number, file in enumerate(version.files[at.files :], at.files):
                if most_rows is not None and rows and rows + self._rows_of(file) > most_rows:
                    return {PARTITION: list(reached)}
                rows += self._rows_of(file)
                reached = at._replace(files=number + 1)
                if most_rows is not None and rows >= most_rows:
                    return {PARTITION: list(reached)}
            if self._read(at.version + 1) is None:
                return {PARTITION: list(reached)}
            at = Offset(at.table, at.version + 1, 0, False)

    def splits(self, after: Offsets, upto: Offsets) -> list[Split]:
        parts: list[Split] = []
        start = at = Offset(*after[PARTITION])
        nbytes = 0
        for end, file in self._between(at, Offset(*upto[PARTITION])):
            if nbytes and nbytes + file.nbytes > SLICE_BYTES:
                parts.append(Split(PARTITION, list(start), list(at)))
                start, nbytes = at, 0
            nbytes += file.nbytes
            at = end
        return parts if at == start else [*parts, Split(PARTITION, list(start), list(at))]

    def _between(self, at: Offset, upto: Offset) -> Iterator[tuple[Offset, DataFile]]:
        """The files behind an offset, up to another, each with where it ends."""
        while at.version <= upto.version:
            version = self._version(at)
            last = upto.files if at.version == upto.version else len(version.files)
            for number in range(at.files, last):
                at = at._replace(files=number + 1)
                yield at, version.files[number]
            at = Offset(at.table, at.version + 1, 0, False)

    # ---- rows -------------------------------------------------------------------------------------------------------

    def read(self, split: Split) -> Iterator[SourceBatch]:
        for at, file in self._between(Offset(*split.after), Offset(*split.upto)):
            with self._place.naming_errors(f"cannot be read: {file.path}", _GONE):
                for rows in self._rows(at, file):
                    yield SourceBatch(rows)

    def _rows(self, at: Offset, file: DataFile) -> Iterator[pa.RecordBatch]:
        if file.only is None:
            yield from read_rows(self._files, file.path, self.schema, self._constants(at, file))
            return
        # The columns that were declared may be without what is told by.
        wanted = self.schema
        if "_change_type" not in wanted.names:
            wanted = wanted.append(FEED.field("_change_type"))
        for rows in read_rows(self._files, file.path, wanted, self._constants(at, file)):
            taken = pc.is_in(rows.column("_change_type"), value_set=_TAKEN)
            kept = rows.filter(taken if file.only == TAKEN else pc.invert(taken))
            yield kept.select(self.schema.names)

    def _constants(self, at: Offset, file: DataFile) -> dict[str, Any]:
        found = {name: None if value == "" else value for name, value in file.partition.items()}
        if self._feed:
            version = self._version(at)
            found |= {"_commit_version": at.version, "_commit_timestamp": version.time_ms * 1000}
            found |= {} if file.change is None else {"_change_type": file.change}
        return found

    def _rows_of(self, file: DataFile) -> int:
        if file.rows is not None:
            return file.rows
        with self._place.naming_errors(f"cannot be read: {file.path}", _GONE):
            return count_rows(self._files, file.path)

    # ---- versions ---------------------------------------------------------------------------------------------------

    def _version(self, at: Offset) -> Version:
        """The version that an offset speaks of."""
        if at.whole:
            return self._whole(at)
        version = self._read(at.version)
        if version is None:
            raise self._gone(at)
        return version

    def _whole(self, at: Offset) -> Version:
        found = self._versions.get((at.version, True))
        if found is None:
            self._check_same(at)
            found = self._versions[at.version, True] = snapshot(self._place.opened(at.version))
        return found

    def _check_same(self, at: Offset) -> None:
        """Asked once: one that is replaced later has another log."""
        if self._table_id is None:
            table = self._place.opened()
            if str(table.metadata().id) != at.table or table.version() < at.version:
                raise self._another()
            self._table_id = at.table

    def _read(self, number: int) -> Version | None:
        found = self._versions.get((number, False))
        if found is not None:
            return found
        with self._place.naming_errors("cannot be read"):
            found = read_version(self._files, number, changes=self._feed)
        if found is None:
            self._check_newest(number - 1)
            return None
        self._check_follows(number)
        self._check(found)
        if len(self._versions) >= KNOWN_VERSIONS:
            self._versions.pop(next(key for key in self._versions if not key[1]))
        self._versions[number, False] = found
        return found

    def _check(self, version: Version) -> None:
        if version.removes and not self._feed:
            raise SourceError(
                f"version {version.number:,} of the Delta table {self._place.path} changes or deletes rows, "
                "which a stream of rows cannot take back",
                hint="read it with changes = 'feed' into a table with versions (key = '…', op = '_change_type'), or "
                f"start anew behind it with start = '{version.number + 1}'",
            )
        new = [] if version.columns is None else sorted(set(version.columns) - set(self.schema.names))
        if new and self._declared is None:
            raise SourceError(
                f"the Delta table {self._place.path} has a new column {new[0]!r} since version {version.number:,}",
                hint="declare in CREATE STREAM the columns that are to be read: without it the run goes on, with "
                "it a new one begins",
            )

    def _check_follows(self, number: int) -> None:
        """A version that comes behind the newest so far is of the same table if that one is as it was."""
        if self._last is not None and number > self._last[0]:
            if self._written(self._last[0]) != self._last[1]:
                self._opened_again()
            self._last = number, self._written(number)

    def _check_newest(self, last: int) -> None:
        """Where a version is not there, the table is at its end; or it is gone, or was made anew, or its log was
        cleaned before it was read. The table itself is asked when what was its newest version is not as it was."""
        found = last, self._written(last)
        if found == self._last:
            return
        newest = self._opened_again().version()  # which tells if there is no table
        if newest < last:
            raise self._another()
        if newest > last and self._written(last + 1) == NOT_THERE:  # else it has come just now
            raise SourceError(
                f"version {last + 1:,} of the Delta table {self._place.path} is gone from its log, before it was read",
                hint="start anew with a new checkpoint; delta.logRetentionDuration says how long the log is kept",
            )
        self._last = found

    def _opened_again(self) -> DeltaTable:
        table = self._place.opened()
        if self._table_id not in (None, str(table.metadata().id)):
            raise self._another()
        return table

    def _written(self, number: int) -> int:
        """When a version was, as its file in the log tells."""
        with self._place.naming_errors("cannot be read"):
            info = self._files.get_file_info(version_file(number))
        return NOT_THERE if info.type == pa_fs.FileType.NotFound else info.mtime_ns or 0

    def _gone(self, at: Offset) -> SourceError:
        return SourceError(f"version {at.version:,} of the Delta table {self._place.path} is gone", hint=_GONE)

    def _another(self) -> SourceError:
        return SourceError(
            f"the Delta table {self._place.path} is another one than was read before: it was dropped and made anew",
            hint="start anew with a new checkpoint",
        )

    def _count_files(self, version: int) -> int:
        found = self._read(version)
        return 0 if found is None else len(found.files)

    def close(self) -> None:
        self._versions.clear()


_GONE = "files that are still to be read must stay: VACUUM removes those of old versions"


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
