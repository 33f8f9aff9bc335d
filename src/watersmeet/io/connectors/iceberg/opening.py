"""An Iceberg table at the other end: its catalog, and errors as sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.table import Table

from watersmeet.errors import OptionError, SourceError, WatersmeetError
from watersmeet.io.conform import check_columns, conform, plain_schema
from watersmeet.io.connectors.contract import TableOpening
from watersmeet.io.connectors.lake_options import in_a_sentence, needed

_PREFIX = "catalog."


class Place:
    """Where a table is. Can be pickled: what it opens, it opens when it is asked."""

    def __init__(self, owner: str, options: Mapping[str, str], kind: type[WatersmeetError]) -> None:
        self.name = needed(owner, options, "table", "database.table")
        if "." not in self.name:
            raise OptionError(
                f"{owner!r} has table = {self.name!r}", hint="it is a name with its namespace: database.table"
            )
        self._catalog = options.get("catalog", "default")
        self._settings = {name[len(_PREFIX) :]: value for name, value in options.items() if name.startswith(_PREFIX)}
        self.kind = kind

    def catalog(self) -> Catalog:
        with self.naming_errors("cannot be reached, as its catalog"):
            return load_catalog(self._catalog, **self._settings)

    def opened(self) -> Table:
        catalog = self.catalog()
        with self.naming_errors("cannot be opened"):
            return catalog.load_table(self.name)

    def opened_if_there(self, catalog: Catalog) -> Table | None:
        with self.naming_errors("cannot be opened"):
            try:
                return catalog.load_table(self.name)
            except (NoSuchTableError, NoSuchNamespaceError):
                return None

    @contextmanager
    def naming_errors(self, what: str, hint: str | None = None) -> Iterator[None]:
        # An address of a catalog may have a password in it. What goes wrong may be the error of any client library.
        hidden = {**self._settings, "password": self._settings.get("uri", "")}
        try:
            with in_a_sentence(self.kind, f"the Iceberg table {self.name} {what}", (Exception,), hidden, hint):
                yield
        except self.kind as error:
            if isinstance(error.__context__, NoSuchTableError | NoSuchNamespaceError):
                raise self.kind(
                    f"there is no Iceberg table {self.name} in the catalog {self._catalog!r}",
                    hint="is the name right, and the catalog the one that has it?",
                ) from None
            raise


def columns_of(table: Table, name: str) -> pa.Schema:
    return plain_schema(_arrow(table.schema()), f"the Iceberg table {name}")


def _arrow(schema: Any) -> pa.Schema:
    return pa.schema([pa.field(field.name, field.type, field.nullable) for field in schema.as_arrow()])


def iceberg_table(opening: TableOpening) -> pa.Table:
    place = Place(opening.name, opening.options, SourceError)
    table = place.opened()
    schema = columns_of(table, place.name)
    if opening.columns is not None:
        check_columns(schema, opening.columns, opening.name, f"the Iceberg table {place.name}")
        schema = opening.columns
    with place.naming_errors("cannot be read"):
        rows = table.scan(selected_fields=tuple(schema.names), snapshot_id=_snapshot(opening)).to_arrow()
    return pa.Table.from_batches([conform(batch, schema) for batch in rows.to_batches()], schema)


def _snapshot(opening: TableOpening) -> int | None:
    written = opening.options.get("snapshot")
    if written is not None and not written.strip().isdecimal():
        raise OptionError(f"{opening.name!r} has snapshot = {written!r}; it must be a whole number", option="snapshot")
    return None if written is None else int(written)
