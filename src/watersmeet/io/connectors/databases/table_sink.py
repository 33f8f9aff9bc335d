"""An answer kept as a table of a database: each batch is one transaction, which the number of the batch is part of, and
that the start which brings it still owns the table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.errors import SinkError
from watersmeet.io.connectors.claims import Claim, Owner, owner_in
from watersmeet.io.connectors.contract import NumberedSink, SinkOpening
from watersmeet.io.connectors.databases.database import (
    Database,
    LostError,
    Work,
    beside,
    listed,
    quoted,
    quoted_table,
    table_parts,
)
from watersmeet.io.connectors.databases.families import family_of, fits
from watersmeet.io.connectors.gone import gone
from watersmeet.io.consolidation import COUNT, by_key, by_row, consolidated
from watersmeet.io.modes import mode_of
from watersmeet.io.retrying import retried

BATCHES = "watersmeet_batches"
STARTS = "watersmeet_starts"
INSTANT = "_ts"  # when a change was: the table is what is now
PATIENCE_S, PAUSE_S = 30.0, 0.5  # a server may be started again meanwhile
_STAGED = "s"
NULLS = "watersmeet_nulls"  # which of the columns that a row is known by are NULL, as a text of 0 and 1
T = TypeVar("T")


class TableSink(NumberedSink):
    claim: Claim

    def __init__(self, opening: SinkOpening, database: Database) -> None:
        self._opening, self._name, self._run, self._database = opening, opening.name, opening.run, database
        self._written = opening.options.get("table") or opening.name
        if not table_parts(self._written):
            raise SinkError(f"sink {opening.name!r} has table = {self._written!r}, which names no table")
        self._table, self._batches = quoted_table(self._written), beside(self._written, BATCHES)
        self.claim, self._starts = Claim.of(opening), beside(self._written, STARTS)
        self._changes = opening.changes if _keeps_answer(opening) else None
        self._schema = _kept_columns(opening.schema, self._changes)
        self._names: list[str] = self._schema.names
        if not self._names:
            raise SinkError(f"sink {self._name!r} would have no columns")
        merged = any(database.merges(self._schema.field(key).type) for key in opening.keys)
        self._keys = tuple(opening.keys) if self._changes is not None and not merged else ()
        self._types = _types(self._name, self._schema, database)
        mode = mode_of(opening.name, opening.options)
        self._committed = _patiently(lambda: self._prepare(mode))

    def committed(self) -> int:
        return self._committed

    def commit(self, number: int, rows: Sequence[pa.RecordBatch]) -> None:
        if number <= self._committed:
            return
        log = self._as_kept(rows)
        _patiently(lambda: self._take(number, log))
        self._committed = number

    def _take(self, number: int, log: pa.Table | None) -> None:
        with self._database.begin() as work:
            taken = self._taken(work)
            if taken is None:
                raise self._forgotten()
            if self.claim.is_made:
                self._note_owner(work, self.claim.committed(self._owner(work)))
            if taken == number:  # by a commit of which no word came back
                return
            self._check_alone(taken)
            if log is not None:
                self._keep(work, log)
            self._note(work, number)

    def _check_alone(self, taken: int) -> None:
        """A run has one process at a time; whoever was taken for dead and is not must not write beside it."""
        if taken < self._committed:
            said = f"{self._database.description} has them up to batch {taken:,} only"
            raise gone(replace(self._opening, committed=self._committed), said)
        if taken > self._committed:
            raise SinkError(
                f"the table {self._written} of {self._database.description} has batch {taken:,} of this run, which "
                "another process has written",
                hint="stop one of them, then start again with the same checkpoint",
            )

    def close(self) -> None:
        self._database.close()

    def _as_kept(self, rows: Sequence[pa.RecordBatch]) -> pa.Table | None:
        if not any(one.num_rows for one in rows):
            return None
        log = pa.Table.from_batches(rows)
        named = {name: self._database.as_kept(log[name]) for name in self._names}
        return pa.table(named if self._changes is None else {self._changes: log[self._changes], **named})

    def _keep(self, work: Work, log: pa.Table) -> None:
        if self._changes is None:
            work.append(self._table, log.select(self._names))
            return
        net = consolidated(log, self._changes, self._names)
        if not net.num_rows:
            return
        if self._keys:
            self._keep_by_key(work, net)
        else:
            self._keep_by_row(work, net)

    def _keep_by_key(self, work: Work, net: pa.Table) -> None:
        there, gone = by_key(net, self._keys)
        if there.num_rows:
            there = _with_nulls(there, self._keys)
            staged = work.stage(there, self._table)
            values = [name for name in self._names if name not in self._keys]
            for nulls in there[NULLS].unique().to_pylist():
                same = self._same(self._keys, nulls)
                if values:
                    values_set = ", ".join(f"{quoted(one)} = {_STAGED}.{quoted(one)}" for one in values)
                    work.run(f"UPDATE {self._table} AS t SET {values_set} FROM {staged} AS {_STAGED} WHERE {same}")
                work.run(
                    f"INSERT INTO {self._table} ({listed(self._names)}) SELECT {listed(self._names, _STAGED + '.')} "
                    f"FROM {staged} AS {_STAGED} WHERE {_STAGED}.{NULLS} = '{nulls}' "
                    f"AND NOT EXISTS (SELECT 1 FROM {self._table} AS t WHERE {same})"
                )
        if gone.num_rows:
            gone = _with_nulls(gone, self._keys)
            staged, row = work.stage(gone, self._table), self._database.row_id
            for nulls in gone[NULLS].unique().to_pylist():
                same = self._same(self._keys, nulls)
                # By row numbers, as not every database turns EXISTS into a join.
                work.run(
                    f"DELETE FROM {self._table} WHERE {row} IN (SELECT t.{row} FROM {staged} AS {_STAGED}, "
                    f"{self._table} AS t WHERE {same})"
                )

    def _keep_by_row(self, work: Work, net: pa.Table) -> None:
        more, less = by_row(net)
        if less.num_rows:
            less = _with_nulls(less, self._names)
            staged, row = work.stage(less, self._table), self._database.row_id
            for nulls in less[NULLS].unique().to_pylist():
                # Of equal rows as many go as were told of; which of them does not matter.
                distinct_names = listed(self._names, _STAGED + ".")
                work.run(
                    f"DELETE FROM {self._table} WHERE {row} IN (SELECT found FROM (SELECT t.{row} AS found, "
                    f"row_number() OVER (PARTITION BY {distinct_names}) AS nth, {_STAGED}.{COUNT} AS enough "
                    f"FROM {self._table} AS t, {staged} AS {_STAGED} WHERE {self._same(self._names, nulls)}) AS each "
                    "WHERE nth <= enough)"
                )
        if more.num_rows:
            work.append(self._table, more)

    def _same(self, names: Sequence[str], nulls: str) -> str:
        """That a row of the table is one of those put aside that have these NULLs."""
        parts = [
            f"t.{quoted(name)} IS NULL" if is_null == "1" else f"t.{quoted(name)} = {_STAGED}.{quoted(name)}"
            for name, is_null in zip(names, nulls, strict=True)
        ]
        return " AND ".join([f"{_STAGED}.{NULLS} = '{nulls}'", *parts])

    def _prepare(self, mode: str) -> int:
        """See to it that the table is there, and that it is this run's; gives the last number it has."""
        with self._database.begin() as work:
            work.run(
                f"CREATE TABLE IF NOT EXISTS {self._batches} "
                "(run TEXT NOT NULL, sink TEXT NOT NULL, number BIGINT NOT NULL, PRIMARY KEY (run, sink))"
            )
            # The row of a run in the table of numbers is locked first, here and by commits: they come one by one.
            columns, taken = work.columns_of(self._written), self._taken(work)
            if self.claim.is_made:
                self._take_over(work)
            self._check_still_there(columns, taken)
            if columns is None:
                self._create(work)
            else:
                self._check_columns(columns)
            if taken is not None and columns is not None:
                return taken
            if taken is not None:  # what was in the table is gone, and what can be given again shall be
                self._note(work, -1)
                return -1
            if columns is not None:
                self._check_mode(work, mode)
            mark = self._database.mark
            work.run(f"INSERT INTO {self._batches} VALUES ({mark}, {mark}, -1)", self._run, self._name)
            return -1

    def _create(self, work: Work) -> None:
        columns = ", ".join(f"{quoted(name)} {kind}" for name, kind in self._types.items())
        work.run(f"CREATE TABLE {self._table} ({columns})")
        if self._keys and self._database.has_indexes:
            index = quoted(f"{table_parts(self._written)[-1]}_by_key")
            work.run(f"CREATE UNIQUE INDEX {index} ON {self._table} ({listed(self._keys)})")

    def _check_still_there(self, columns: Mapping[str, str] | None, taken: int | None) -> None:
        """A run that goes on finds its table, and what it has noted beside it; if it does not, nothing is made."""
        if not self._opening.must_be_there:
            return
        if columns is None:
            raise gone(self._opening, f"{self._database.description} has no table {self._written}")
        if taken is None:
            raise gone(self._opening, f"{self._database.description} has no row of it in {BATCHES}")

    def _check_columns(self, columns: Mapping[str, str]) -> None:
        missing = [name for name in self._names if name not in columns]
        if missing:
            raise SinkError(
                f"the table {self._written} of {self._database.description} has no column {missing[0]!r}, and the "
                f"answer of sink {self._name!r} has",
                hint=f"its columns are {', '.join(columns)}; name those of the query with AS, or choose another table",
            )
        for field in self._schema:
            family = family_of(field.type) or "any"
            if not fits(family, columns[field.name]):
                raise SinkError(
                    f"column {field.name!r} of the table {self._written} of {self._database.description} holds "
                    f"{columns[field.name]}, and the answer of sink {self._name!r} has {field.type}",
                    hint="CAST it in the query, or choose another table",
                )

    def _check_mode(self, work: Work, mode: str) -> None:
        """A table that is there already and not this run's."""
        if mode == "overwrite":
            work.run(f"DELETE FROM {self._table}")
        elif mode == "error" and work.first(f"SELECT 1 FROM {self._table} LIMIT 1") is not None:
            raise SinkError(
                f"the table {self._written} of {self._database.description} already holds rows",
                hint="say mode = 'append' to add to them, mode = 'overwrite' to replace them, choose another table, or "
                "go on with the checkpoint that they were written with",
            )

    def _taken(self, work: Work) -> int | None:
        mark = self._database.mark
        row = work.first(
            f"SELECT number FROM {self._batches} WHERE run = {mark} AND sink = {mark}{self._database.for_update}",
            self._run,
            self._name,
        )
        return None if row is None else int(row[0])

    def _note(self, work: Work, number: int) -> None:
        mark = self._database.mark
        work.run(
            f"UPDATE {self._batches} SET number = {number} WHERE run = {mark} AND sink = {mark}", self._run, self._name
        )

    def _take_over(self, work: Work) -> None:
        work.run(
            f"CREATE TABLE IF NOT EXISTS {self._starts} "
            "(run TEXT NOT NULL, sink TEXT NOT NULL, owner TEXT NOT NULL, PRIMARY KEY (run, sink))"
        )
        found = self._owner(work)
        owner, mark = self.claim.taking_over(found), self._database.mark
        if found is not None:
            self._note_owner(work, owner)
            return
        work.run(f"INSERT INTO {self._starts} VALUES ({mark}, {mark}, {mark})", self._run, self._name, owner.as_text())

    def _owner(self, work: Work) -> Owner | None:
        mark = self._database.mark
        row = work.first(
            f"SELECT owner FROM {self._starts} WHERE run = {mark} AND sink = {mark}", self._run, self._name
        )
        return None if row is None else owner_in(row[0], STARTS)

    def _note_owner(self, work: Work, owner: Owner | None) -> None:
        if owner is not None:
            mark = self._database.mark
            work.run(
                f"UPDATE {self._starts} SET owner = {mark} WHERE run = {mark} AND sink = {mark}",
                owner.as_text(),
                self._run,
                self._name,
            )

    def _forgotten(self) -> SinkError:
        return SinkError(
            f"{self._database.description} no longer knows what sink {self._name!r} has taken: somebody has removed "
            f"its row of {BATCHES}",
            hint="bring it back, or start anew with another checkpoint",
        )


def _keeps_answer(opening: SinkOpening) -> bool:
    """Whether the table is what the answer is now, and not a log of its changes."""
    said = opening.options.get("changes", "table").lower()
    if said not in ("table", "log"):
        raise SinkError(
            f"sink {opening.name!r} has changes = {said!r}",
            hint="it may be 'table', the answer as it is now, or 'log', all changes of it",
        )
    return opening.changes is not None and said == "table"


def _kept_columns(schema: pa.Schema, changes: str | None) -> pa.Schema:
    return pa.schema([one for one in schema if changes is None or one.name not in (changes, INSTANT)])


def _types(name: str, schema: pa.Schema, database: Database) -> dict[str, str]:
    types = {}
    for field in schema:
        kind = database.type_of(field.type)
        if kind is None:
            raise SinkError(
                f"column {field.name!r} of sink {name!r} is {field.type}, and {database.description} has no such type",
                hint="leave it out of the query, or CAST it",
            )
        types[field.name] = kind
    return types


def _with_nulls(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    """Rows and which of some columns are NULL in each. In SQL NULL equals nothing, and a comparison that it does equal
    itself in finds no index: so rows with the same NULLs are looked for together."""
    marks = [pc.cast(pc.cast(rows[name].is_null(), pa.int8()), pa.string()) for name in names]
    joined = marks[0] if len(marks) == 1 else pc.binary_join_element_wise(*marks, "")
    return rows.append_column(NULLS, joined)


def _patiently(step: Callable[[], T]) -> T:
    """One transaction, again if the connection was lost or somebody else was in its way."""
    return retried(step, _is_lost, for_s=PATIENCE_S, pause_s=PAUSE_S, warning=lambda error: str(error).split("\n")[0])


def _is_lost(error: Exception) -> bool:
    return isinstance(error, LostError)
