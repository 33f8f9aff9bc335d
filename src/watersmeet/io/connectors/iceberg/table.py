"""An Iceberg table that is read once, as of its newest snapshot or another."""

from __future__ import annotations

import pyarrow as pa

from watersmeet.errors import OptionError, SourceError
from watersmeet.io.conform import check_columns, conform
from watersmeet.io.connectors.contract import TableOpening
from watersmeet.io.connectors.iceberg.opening import Place, columns_of


def iceberg_table(opening: TableOpening) -> pa.Table:
    place = Place(opening.name, opening.options, SourceError)
    table = place.opened()
    schema = columns_of(table, place.name)
    if opening.columns is not None:
        check_columns(schema, opening.columns, opening.name, f"the Iceberg table {place.name}")
        schema = opening.columns
    with place.told("cannot be read"):
        rows = table.scan(selected_fields=tuple(schema.names), snapshot_id=_snapshot(opening)).to_arrow()
    return pa.Table.from_batches([conform(batch, schema) for batch in rows.to_batches()], schema)


def _snapshot(opening: TableOpening) -> int | None:
    written = opening.options.get("snapshot")
    if written is not None and not written.strip().isdecimal():
        raise OptionError(f"{opening.name!r} has snapshot = {written!r}; it must be a whole number", option="snapshot")
    return None if written is None else int(written)
