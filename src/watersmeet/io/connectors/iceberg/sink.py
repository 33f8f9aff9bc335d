"""Answers into an Iceberg table: the snapshot of each commit carries the name of the run and the number of its batch,
and so does a property of the table, which outlives snapshots. Another says which start of the run owns it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NamespaceAlreadyExistsError, NoSuchTableError
from pyiceberg.table import Table

from watersmeet.errors import SinkError
from watersmeet.io.connectors.claims import TRIES, Claim, Owner, owner_in
from watersmeet.io.connectors.contract import NumberedSink, SinkOpening
from watersmeet.io.connectors.gone import GO_ON, gone
from watersmeet.io.connectors.iceberg.opening import Place, columns_of
from watersmeet.io.connectors.lake_options import column_list, interval_s, one_of, size_in_bytes
from watersmeet.io.connectors.lake_schema import as_lake_holds, check_answer, partition_names


class IcebergSink(NumberedSink):
    claim: IcebergClaim

    def __init__(self, opening: SinkOpening) -> None:
        name, options = opening.name, opening.options
        self._place = Place(name, options, SinkError)
        self._run = f"{opening.run}-{name}"
        self._key = f"watersmeet.batch.{self._run}"
        self.commit_every_s = interval_s(name, options, "commit_every")
        self._keep_s = interval_s(name, options, "keep")
        self._schema = as_lake_holds(opening.schema, name)
        partition = partition_names(name, column_list(options, "partition_by"), self._schema)
        grows = one_of(name, options, "new_columns", ("error", "add"), "error") == "add"
        mode = one_of(name, options, "mode", ("append", "error"), "append")
        size = size_in_bytes(name, options, "target_file_size")
        catalog = self._place.catalog()
        table = self._place.opened_if_there(catalog)
        self._opening = opening
        if table is None and opening.must_be_there:
            raise gone(opening, f"there is no Iceberg table {self._place.name} in its catalog")
        self._committed = -1 if table is None else self._last(table)
        if table is not None and mode == "error" and self._committed < 0:
            raise SinkError(f"the Iceberg table {self._place.name} is there already", hint="say mode = 'append'")
        if table is not None:
            self._check(name, table, grows=grows)
        self.claim = IcebergClaim(opening, self._run)
        self._table = self._made(catalog, partition, size) if table is None else table
        with self._place.naming_errors("cannot be written", GO_ON):
            self._table = self.claim.take_over(self._table)
        self._committed = self._last(self._table)

    def committed(self) -> int:
        return self._committed

    def commit(self, number: int, rows: Sequence[pa.RecordBatch]) -> None:
        if number <= self._committed:
            return
        given = pa.Table.from_batches([one.cast(self._schema) for one in rows], self._schema)
        with self._place.naming_errors("cannot be written", GO_ON):
            self._refresh()
            self._check_alone()
            with self._table.transaction() as change:
                change.append(given, snapshot_properties={"watersmeet.run": self._run, "watersmeet.batch": str(number)})
                change.set_properties({self._key: str(number), **self.claim.properties(self._table)})
            if self._keep_s is not None:
                before = datetime.now() - timedelta(seconds=self._keep_s)
                self._table.maintenance.expire_snapshots().older_than(before).commit()
        self._committed = number

    def _made(self, catalog: Catalog, partition: Sequence[str], size: int | None) -> Table:
        properties = {"commit.manifest-merge.enabled": "true"}
        if size is not None:
            properties["write.target-file-size-bytes"] = str(size)
        with self._place.naming_errors("cannot be made", GO_ON):
            with suppress(NamespaceAlreadyExistsError):  # another process was quicker
                catalog.create_namespace_if_not_exists(self._place.name.rpartition(".")[0])
            table = catalog.create_table_if_not_exists(self._place.name, self._schema, properties=properties)
            if partition:
                with table.update_spec() as spec:
                    for column in partition:
                        spec.add_identity(column)
            return table

    def _refresh(self) -> None:
        with suppress(NoSuchTableError):
            self._table.refresh()
            return
        said = f"there is no Iceberg table {self._place.name} in its catalog any more"
        raise gone(replace(self._opening, committed=self._committed), said)

    def _last(self, table: Table) -> int:
        return int(table.properties.get(self._key, -1))

    def _check_alone(self) -> None:
        """A run has one process at a time; whoever was taken for dead and is not must not write beside it."""
        found = self._last(self._table)
        if found < self._committed:
            said = f"the Iceberg table {self._place.name} has them up to batch {found:,} only"
            raise gone(replace(self._opening, committed=self._committed), said)
        if found != self._committed:
            raise SinkError(
                f"the Iceberg table {self._place.name} has batch {found:,} of this run, which another process has "
                "written",
                hint="stop one of them, then start again with the same checkpoint",
            )

    def _check(self, name: str, table: Table, *, grows: bool) -> None:
        there = columns_of(table, self._place.name)
        what = f"the Iceberg table {self._place.name}"
        self._schema = check_answer(name, self._schema, there, what, may_grow=grows)
        if set(self._schema.names) - set(there.names):
            with self._place.naming_errors("cannot be given new columns", GO_ON), table.update_schema() as change:
                change.union_by_name(self._schema)


class Meanwhile(Exception):  # noqa: N818 (nothing is wrong)
    """The table has changed since it was looked at."""


class LookedAt(Table):  # type: ignore[misc]
    """A table at which somebody looks whenever it is read anew: also by the library, before it tries again."""

    def __init__(self, table: Table, look: Callable[[Table], None]) -> None:
        super().__init__(
            table._identifier, table.metadata, table.metadata_location, table.io, table.catalog, table.config
        )
        self._look = look

    def refresh(self) -> Table:
        super().refresh()
        self._look(self)
        return self


class IcebergClaim:
    """Who owns an Iceberg table, for one run: a property of it, which changes in the commits of claims and batches.

    A catalog compares only which snapshot was the last, so a claim makes one, without rows: a batch that was under way
    meets it, and before the library tries such a commit again it is looked who owns the table by then.
    """

    def __init__(self, opening: SinkOpening, run: str) -> None:
        self._claim = Claim.of(opening)
        self._key = f"watersmeet.owner.{run}"

    @property
    def written_by(self) -> str | None:
        return self._claim.written_by

    def take_over(self, table: Table) -> Table:
        """The table, which is this start's from now on, as it is then."""
        if not self._claim.is_made:
            return table
        for _ in range(TRIES):
            with suppress(Meanwhile):
                now = LookedAt(table.refresh(), _changed)
                owner = self._claim.taking_over(self._found(now))
                with now.transaction() as change:
                    change.append(now.schema().as_arrow().empty_table())
                    change.set_properties({self._key: owner.as_text()})
                return LookedAt(now, self.check)
        raise SinkError("others commit there all the while", hint="start again with the same checkpoint")

    def check(self, table: Table) -> None:
        if self._claim.is_made:
            self._claim.check(self._found(table))

    def properties(self, table: Table) -> Mapping[str, str]:
        """What a commit sets beside its number."""
        now = self._claim.committed(self._found(table)) if self._claim.is_made else None
        return {} if now is None else {self._key: now.as_text()}

    def _found(self, table: Table) -> Owner | None:
        return owner_in(table.properties.get(self._key), f"property {self._key}")


def _changed(table: Table) -> None:
    raise Meanwhile
