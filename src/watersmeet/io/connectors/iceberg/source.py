"""An Iceberg table as a stream: the rows that it has, then those that each snapshot adds.

An offset is [table, snapshot, files, whole]: of what a snapshot brought so many files were read, the oldest first, then
in the order of their paths; whole is true for the snapshot whose rows are all that the table had then. Snapshots that
are still to be read must not be expired.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.manifest import ManifestEntryStatus
from pyiceberg.table import FileScanTask, Table
from pyiceberg.table.snapshots import Snapshot

from watersmeet.errors import OptionError, SourceError
from watersmeet.io.conform import check_columns, conform
from watersmeet.io.connectors.contract import Offsets, PartitionedSource, SourceBatch, SourceOpening, Split
from watersmeet.io.connectors.iceberg.opening import Place, columns_of

PARTITION = "table"
NOTHING = -1  # the snapshot of a table that has none yet
SLICE_BYTES = 128 << 20  # so many are read by one


class Offset(NamedTuple):
    """How far a table was read."""

    table: str
    snapshot: int
    files: int
    whole: bool


class IcebergSource(PartitionedSource):
    def __init__(self, opening: SourceOpening) -> None:
        self._name, self._declared = opening.name, opening.columns
        self._place = Place(opening.name, opening.options, SourceError)
        self._start = opening.options.get("start", "earliest").strip().lower()
        self._brought: dict[tuple[int, bool], list[FileScanTask]] = {}

    def __getstate__(self) -> dict[str, Any]:
        kept = {name: value for name, value in self.__dict__.items() if name not in ("_table", "schema")}
        return kept | {"_brought": {}}

    # ---- what it is -------------------------------------------------------------------------------------------------

    @cached_property
    def schema(self) -> pa.Schema:
        found = columns_of(self._table, self._place.name)
        if self._declared is None:
            return found
        check_columns(found, self._declared, self._name, self.description)
        return self._declared

    @property
    def description(self) -> str:
        return f"the Iceberg table {self._place.name}"

    @cached_property
    def _table(self) -> Table:
        return self._place.opened()

    # ---- offsets ----------------------------------------------------------------------------------------------------

    def begin(self) -> Offsets:
        newest = self._table.current_snapshot()
        number = NOTHING if newest is None else newest.snapshot_id
        name = str(self._table.metadata.table_uuid)
        if self._start == "earliest":
            return {PARTITION: [name, number, 0, True]}
        if self._start == "latest":
            return {PARTITION: list(self._end(Offset(name, number, 0, False)))}
        if not self._start.isdecimal():
            raise OptionError(
                f"{self._name!r} has start = {self._start!r}",
                hint="it may be 'earliest', 'latest', or the number of a snapshot behind which it begins",
                option="start",
            )
        return {PARTITION: list(self._end(Offset(name, int(self._start), 0, False)))}

    def _end(self, at: Offset) -> Offset:
        """Behind all that a snapshot brought."""
        return at._replace(files=len(self._files(at)))

    def newest(self, after: Offsets, most_rows: int | None = None) -> Offsets:
        at = Offset(*after[PARTITION])
        self._refresh(at)
        reached, rows = at, 0
        for following in self._from(at):
            for number, task in enumerate(self._files(following)[following.files :], following.files):
                count = int(task.file.record_count)
                if most_rows is not None and rows and rows + count > most_rows:
                    return {PARTITION: list(reached)}
                rows += count
                reached = following._replace(files=number + 1)
        return {PARTITION: list(reached)}

    def splits(self, after: Offsets, upto: Offsets) -> list[Split]:
        parts: list[Split] = []
        start = at = Offset(*after[PARTITION])
        nbytes = 0
        for end, task in self._between(at, Offset(*upto[PARTITION])):
            size = int(task.file.file_size_in_bytes)
            if nbytes and nbytes + size > SLICE_BYTES:
                parts.append(Split(PARTITION, list(start), list(at)))
                start, nbytes = at, 0
            nbytes += size
            at = end
        return parts if at == start else [*parts, Split(PARTITION, list(start), list(at))]

    def _between(self, at: Offset, upto: Offset) -> Iterator[tuple[Offset, FileScanTask]]:
        for following in self._from(at):
            tasks = self._files(following)
            is_last = following.snapshot == upto.snapshot
            for number in range(following.files, upto.files if is_last else len(tasks)):
                yield following._replace(files=number + 1), tasks[number]
            if is_last:
                return

    # ---- rows -------------------------------------------------------------------------------------------------------

    def read(self, split: Split) -> Iterator[SourceBatch]:
        at = Offset(*split.after)
        projected = self._table.schema().select(*self.schema.names)
        scan = ArrowScan(self._table.metadata, self._table.io, projected, AlwaysTrue())
        for _, task in self._between(at, Offset(*split.upto)):
            with self._place.naming_errors(f"cannot be read: {task.file.file_path}", _GONE):
                for rows in scan.to_record_batches([task]):
                    yield SourceBatch(conform(rows, self.schema))

    # ---- snapshots --------------------------------------------------------------------------------------------------

    def _refresh(self, at: Offset) -> None:
        with self._place.naming_errors("cannot be read"):
            self._table.refresh()
        if str(self._table.metadata.table_uuid) != at.table:
            raise SourceError(
                f"the Iceberg table {self._place.name} is another one than was read before: it was dropped "
                "and made anew",
                hint="start anew with a new checkpoint",
            )
        new = sorted(set(columns_of(self._table, self._place.name).names) - set(self.schema.names))
        if new and self._declared is None:
            raise SourceError(
                f"the Iceberg table {self._place.name} has a new column {new[0]!r}",
                hint="declare in CREATE STREAM the columns that are to be read: without it the run goes on, with "
                "it a new one begins",
            )

    def _from(self, at: Offset) -> list[Offset]:
        """An offset, and the beginnings of all snapshots behind it, in order."""
        lineage: list[Offset] = []
        snapshot = self._table.current_snapshot()
        while snapshot is not None and snapshot.snapshot_id != at.snapshot:
            lineage.append(Offset(at.table, snapshot.snapshot_id, 0, False))
            parent = snapshot.parent_snapshot_id
            snapshot = None if parent is None else self._table.snapshot_by_id(parent)
        if snapshot is None and at.snapshot != NOTHING:
            raise SourceError(
                f"snapshot {at.snapshot} of the Iceberg table {self._place.name} is gone: it was expired before what "
                "came behind it was read, or the table was rolled back",
                hint="start anew with a new checkpoint, and expire snapshots later",
            )
        return [at, *reversed(lineage)]

    def _files(self, at: Offset) -> list[FileScanTask]:
        if at.snapshot == NOTHING:
            return []
        found = self._brought.get((at.snapshot, at.whole))
        if found is None:
            with self._place.naming_errors("cannot be read", _GONE):
                found = self._all(at.snapshot) if at.whole else sorted(self._added(at.snapshot), key=_path)
            if len(self._brought) >= 100:
                self._brought.pop(next(iter(self._brought)))
            self._brought[at.snapshot, at.whole] = found
        return found

    def _all(self, number: int) -> list[FileScanTask]:
        """The oldest files first: by their paths, which are random, rows would come out of order, and late."""
        age = {
            entry.data_file.file_path: entry.sequence_number or 0
            for manifest in self._snapshot(number).manifests(self._table.io)
            for entry in manifest.fetch_manifest_entry(self._table.io)
        }
        tasks = self._table.scan(snapshot_id=number).plan_files()
        return sorted(tasks, key=lambda task: (age.get(task.file.file_path, 0), _path(task)))

    def _snapshot(self, number: int) -> Snapshot:
        found = self._table.snapshot_by_id(number)
        if found is None:
            raise SourceError(f"the Iceberg table {self._place.name} has no snapshot {number}", hint=_GONE)
        return found

    def _added(self, number: int) -> list[FileScanTask]:
        snapshot = self._snapshot(number)
        operation = "append" if snapshot.summary is None else str(snapshot.summary.operation.value)
        if operation == "replace":  # files are laid out anew, and rows stay as they are
            return []
        if operation != "append":
            raise SourceError(
                f"snapshot {number} of the Iceberg table {self._place.name} changes or deletes rows ({operation}), "
                "which a stream of rows cannot take back",
                hint=f"start anew behind it with start = '{number}'",
            )
        return [
            FileScanTask(entry.data_file)
            for manifest in snapshot.manifests(self._table.io)
            if manifest.added_snapshot_id == number
            for entry in manifest.fetch_manifest_entry(self._table.io)
            if entry.status == ManifestEntryStatus.ADDED and entry.snapshot_id == number
        ]

    def close(self) -> None:
        self._brought.clear()


def _path(task: FileScanTask) -> str:
    return str(task.file.file_path)


_GONE = "snapshots that are still to be read must not be expired"
