"""A Delta table that is read once, as of its newest version or another."""

from __future__ import annotations

import pyarrow as pa

from watersmeet.errors import OptionError, SourceError
from watersmeet.io.conform import check_columns, conform, plain_schema
from watersmeet.io.connectors.contract import TableOpening
from watersmeet.io.connectors.delta.opening import Place


def delta_table(opening: TableOpening) -> pa.Table:
    place = Place(opening.name, opening.options, SourceError)
    table = place.opened(_version(opening))
    columns = None if opening.columns is None else opening.columns.names
    found = pa.schema(table.schema())
    if opening.columns is not None:
        check_columns(found, opening.columns, opening.name, f"the Delta table {place.path}")
    with place.told("cannot be read"):
        rows = pa.table(table.scan(columns=columns))
    schema = opening.columns or plain_schema(rows.schema, f"the Delta table {place.path}")
    return pa.Table.from_batches([conform(batch, schema) for batch in rows.to_batches()], schema)


def _version(opening: TableOpening) -> int | None:
    written = opening.options.get("version")
    if written is not None and not written.strip().isdecimal():
        raise OptionError(f"{opening.name!r} has version = {written!r}; it must be a whole number", option="version")
    return None if written is None else int(written)
