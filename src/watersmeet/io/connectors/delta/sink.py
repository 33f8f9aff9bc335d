"""Answers into a Delta table: each commit carries the name of the run and the number of its batch, so that a repeat is
known, in the same transaction as the rows; and the start that owns the table, so that it fails if another has claimed
it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import ceil
from typing import TypeVar

import pyarrow as pa
import pyarrow.fs as pa_fs
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError

from watersmeet.errors import SinkError
from watersmeet.io.connectors.claims import TRIES, Claim, Owner, owner_in
from watersmeet.io.connectors.contract import NumberedSink, SinkOpening
from watersmeet.io.connectors.delta.log import version_file
from watersmeet.io.connectors.delta.opening import Place, columns_of
from watersmeet.io.connectors.gone import GO_ON, gone
from watersmeet.io.connectors.lake_options import column_list, interval_s, one_of, size_in_bytes, whole_number
from watersmeet.io.connectors.lake_schema import as_lake_holds, check_answer, partition_names

WEEK_S = 7 * 24 * 3600.0


class DeltaSink(NumberedSink):
    claim: DeltaClaim

    def __init__(self, opening: SinkOpening) -> None:
        name, options = opening.name, opening.options
        self._place = Place(name, options, SinkError)
        self._run = f"watersmeet-{opening.run}-{name}"
        self._grows = one_of(name, options, "new_columns", ("error", "add"), "error") == "add"
        self._file_bytes = size_in_bytes(name, options, "target_file_size")
        self.commit_every_s = interval_s(name, options, "commit_every")
        self._compact_every = whole_number(name, options, "compact_every")
        self._keep_hours = ceil((interval_s(name, options, "keep") or WEEK_S) / 3600)
        self._commits = 0
        self._schema = as_lake_holds(opening.schema, name)
        self._partition = partition_names(name, column_list(options, "partition_by"), self._schema)
        mode = one_of(name, options, "mode", ("append", "error"), "append")
        self._opening = opening
        table = self._place.opened_if_there()
        if table is None and opening.must_be_there:
            raise gone(opening, f"there is no Delta table at {self._place.path}")
        self._committed = -1 if table is None else self._last(table)
        if table is not None and mode == "error" and self._committed < 0:
            raise SinkError(f"the Delta table {self._place.path} is there already", hint="say mode = 'append'")
        if table is not None:
            self._check(name, table)
        self._table = table or self._made()
        self.claim = DeltaClaim(opening, self._run)
        with self._place.naming_errors("cannot be written", GO_ON):
            self.claim.take_over(self._table)
        self._committed = self._last(self._table)
        self._is_partial = set(columns_of(self._table, self._place.path).names) != set(self._schema.names)

    def committed(self) -> int:
        return self._committed

    def commit(self, number: int, rows: Sequence[pa.RecordBatch]) -> None:
        if number <= self._committed:
            return
        with self._place.naming_errors("cannot be written", GO_ON):
            self._table.update_incremental()
            self._check_there()
            mark = [Transaction(app_id=self._run, version=number), *self.claim.marks(self._table)]
            self._check_alone()
            with self.claim.checked_after_failure(self._table):
                self._write(rows, CommitProperties(app_transactions=mark))
        self._committed = number
        self._commits += 1
        if self._compact_every is not None and self._commits % self._compact_every == 0:
            self._compact()

    def _write(self, rows: Sequence[pa.RecordBatch], mark: CommitProperties) -> None:
        write_deltalake(
            self._table,
            pa.Table.from_batches([one.cast(self._schema) for one in rows], self._schema),
            mode="append",
            schema_mode="merge" if self._is_partial else None,
            target_file_size=self._file_bytes,
            commit_properties=mark,
        )

    def _made(self) -> DeltaTable:
        with self._place.naming_errors("cannot be made", GO_ON):
            return DeltaTable.create(
                self._place.path,
                self._schema,
                mode="ignore",  # another process may have made it since
                partition_by=self._partition or None,
                storage_options=self._place.storage,
            )

    def _last(self, table: DeltaTable) -> int:
        found = table.transaction_version(self._run)
        return -1 if found is None else int(found)

    def _check_there(self) -> None:
        """The library would write on into the log of a table that was dropped: a commit that no reader finds."""
        newest = version_file(self._table.version())
        if self._place.files().get_file_info(newest).type != pa_fs.FileType.File:
            raise gone(
                replace(self._opening, committed=self._committed),
                f"there is no Delta table at {self._place.path} any more, or another one",
            )

    def _check_alone(self) -> None:
        """A run has one process at a time; whoever was taken for dead and is not must not write beside it."""
        found = self._last(self._table)
        if found < self._committed:
            said = f"the Delta table {self._place.path} has them up to batch {found:,} only"
            raise gone(replace(self._opening, committed=self._committed), said)
        if found != self._committed:
            raise SinkError(
                f"the Delta table {self._place.path} has batch {found:,} of this run, which another "
                "process has written",
                hint="stop one of them, then start again with the same checkpoint",
            )

    def _check(self, name: str, table: DeltaTable) -> None:
        there = columns_of(table, self._place.path)
        what = f"the Delta table {self._place.path}"
        self._schema = check_answer(name, self._schema, there, what, may_grow=self._grows)
        parted = list(table.metadata().partition_columns)
        if self._partition and self._partition != parted:
            raise SinkError(
                f"sink {name!r} says partition_by = '{', '.join(self._partition)}', but the Delta table "
                f"{self._place.path} is partitioned by {', '.join(parted) or 'nothing'}",
                hint="leave partition_by out, or choose another path",
            )

    def _compact(self) -> None:
        """Small files become large ones, in a commit of its own that changes no row; what it replaced is kept for those
        who read older versions, as long as is said."""
        with self._place.naming_errors("cannot be compacted", GO_ON):
            self._table.update_incremental()
            self._table.optimize.compact(target_size=self._file_bytes)
            self._table.vacuum(retention_hours=self._keep_hours, dry_run=False, enforce_retention_duration=False)


_OWNER_TEXT = "watersmeetOwner"  # what a claim says of itself, for people
_TOKEN_BITS = 32
T = TypeVar("T")


class DeltaClaim:
    """Who owns a Delta table, for one run: an application transaction of its log, which holds a number for each name.

    The number is that of the start and its token, together. Every commit of a batch says it again: of two commits with
    the same name one fails, so none goes in beside a claim that it has not seen.
    """

    def __init__(self, opening: SinkOpening, run: str) -> None:
        self._claim = Claim.of(opening)
        self._owner, self._writer = f"{run}-owner", f"{run}-writer"

    @property
    def written_by(self) -> str | None:
        return self._claim.written_by

    def take_over(self, table: DeltaTable) -> None:
        for tries_left in reversed(range(TRIES if self._claim.is_made else 0)):
            table.update_incremental()
            owner = self._in_full(table, self._claim.taking_over)
            said = CommitProperties(
                custom_metadata={_OWNER_TEXT: json.dumps({self._owner: owner.as_text()})},
                app_transactions=[Transaction(app_id=self._owner, version=_packed(owner.start, owner.token))],
            )
            try:
                table.create_write_transaction([], "append", table.schema(), commit_properties=said)
            except CommitFailedError:  # another start was quicker; this one is newer
                if tries_left:
                    continue
                raise
            table.update_incremental()
            return

    def marks(self, table: DeltaTable) -> list[Transaction]:
        """What a commit carries; raises if the table is another start's. The table is up to date."""
        if not self._claim.is_made:
            return []
        self._in_full(table, self._claim.check)
        found = self._found(table)
        assert found is not None
        now = _packed(found.start, found.token)
        return [Transaction(app_id=one, version=now) for one in (self._owner, self._writer)]

    @contextmanager
    def checked_after_failure(self, table: DeltaTable) -> Iterator[None]:
        """A commit that failed may have met a claim."""
        try:
            yield
        except CommitFailedError:
            if self._claim.is_made:
                table.update_incremental()
                self._in_full(table, self._claim.check)
            raise

    def _in_full(self, table: DeltaTable, asked: Callable[[Owner | None], T]) -> T:
        """What is asked of the owner; if it is a refusal, with the words of the claim, which only the log has."""
        found = self._found(table)
        try:
            return asked(found)
        except SinkError:
            return asked(None if found is None else _as_claimed(table, self._owner, found))

    def _found(self, table: DeltaTable) -> Owner | None:
        owner, writer = (table.transaction_version(one) for one in (self._owner, self._writer))
        if owner is None:
            return None
        start, token = _parts(owner)
        return Owner(start, token, written_by=None if writer is None else _parts(writer)[1])


def _packed(start: int, token: str) -> int:
    return start << _TOKEN_BITS | int(token, 16)


def _parts(version: int) -> tuple[int, str]:
    """
    >>> _parts(_packed(3, "0a1b2c3d"))
    (3, '0a1b2c3d')
    """
    return version >> _TOKEN_BITS, f"{version & (1 << _TOKEN_BITS) - 1:08x}"


def _as_claimed(table: DeltaTable, name: str, found: Owner) -> Owner:
    """With the words of the claim, if they are still in the log."""
    for commit in table.history(100):
        claim = json.loads(commit.get(_OWNER_TEXT) or "{}").get(name)
        owner = owner_in(claim)
        if owner is not None and owner.token == found.token:
            return replace(owner, written_by=found.written_by)
    return found
