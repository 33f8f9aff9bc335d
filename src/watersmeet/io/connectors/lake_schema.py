"""Whether the columns of an answer fit those of a table in a lake, and how such a table holds them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from watersmeet.errors import SinkError
from watersmeet.io.conform import fits
from watersmeet.model.names import column_named, columns_hint
from watersmeet.model.types import sql_type


def as_lake_holds(schema: pa.Schema, name: str) -> pa.Schema:
    """The columns of an answer in types that every lake has: intervals become whole microseconds."""
    if not schema.names:
        raise SinkError(f"sink {name!r} would have no columns")
    return pa.schema([pa.field(field.name, _held(field.type), field.nullable) for field in schema])


def _held(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_duration(kind):
        return pa.int64()
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", "UTC" if kind.tz else None)
    if pa.types.is_time(kind):
        return pa.string()
    return kind


def check_answer(name: str, given: pa.Schema, there: pa.Schema, what: str, *, may_grow: bool) -> pa.Schema:
    """The columns of an answer in the types of the table; refuses those that do not fit. Columns that the answer lacks
    are NULL there."""
    held: list[pa.Field] = []
    for field in given:
        if field.name not in there.names:
            if may_grow:
                held.append(field)
                continue
            raise SinkError(
                f"sink {name!r} gives a column {field.name!r}, which {what} does not have",
                hint=f"say new_columns = 'add' to add it; {columns_hint(there.names)}",
            )
        kind = there.field(field.name).type
        if not fits(field.type, kind):
            raise SinkError(
                f"sink {name!r} gives {field.name!r} as {sql_type(field.type)}, but {what} has {sql_type(kind)}",
                hint=f"CAST it in the query: CAST(… AS {sql_type(kind)}) AS {field.name}",
            )
        held.append(field.with_type(kind))
    for field in there:
        if not field.nullable and field.name not in given.names:
            raise SinkError(f"{what} needs a value in {field.name!r}, which sink {name!r} does not give")
    return pa.schema(held)


def partition_names(name: str, written: Sequence[str], schema: pa.Schema) -> list[str]:
    found = []
    for one in written:
        column = column_named(one, schema.names)
        if column is None:
            raise SinkError(
                f"sink {name!r} is to be partitioned by {one!r}, which is no column of its rows",
                hint=columns_hint(schema.names),
            )
        found.append(column)
    if found and len(set(found)) == len(schema):
        raise SinkError(f"sink {name!r} is partitioned by all of its columns, so its files would have none")
    return found
