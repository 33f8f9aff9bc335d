"""A static table loaded from a PostgreSQL server, through COPY."""

from __future__ import annotations

from contextlib import closing
from io import BytesIO
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.csv as pa_csv

from watersmeet.errors import SourceError
from watersmeet.io.connectors.contract import TableOpening
from watersmeet.io.connectors.databases.database import query_of
from watersmeet.io.connectors.databases.postgres_server import connected, dsn_of, place_of, said_by
from watersmeet.io.connectors.databases.postgres_types import BYTES, arrow_type, from_hexadecimal


def load_table(opening: TableOpening) -> pa.Table:
    dsn, query = dsn_of(opening.name, opening.options, SourceError), query_of(opening)
    try:
        with closing(connected(dsn)) as connection:
            # One state of the database, and nothing that a query could change.
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            columns = connection.execute(f"SELECT * FROM ({query}) AS q LIMIT 0").description or []
            text = _copied(connection, query)
    except psycopg.Error as error:
        raise SourceError(
            f"table {opening.name!r} cannot be loaded from {place_of(dsn)}: {said_by(error, dsn)}"
        ) from None
    declared = {} if opening.columns is None else {field.name: field.type for field in opening.columns}
    numbers = {one.name: one.type_code for one in columns}
    types = {one.name: declared.get(one.name) or _type(opening.name, one) for one in columns}
    return _read(opening.name, text, [one.name for one in columns], types, numbers)


def _copied(connection: psycopg.Connection[Any], query: str) -> bytes:
    with connection.cursor() as cursor, cursor.copy(f"COPY ({query}) TO STDOUT (FORMAT csv)") as copy:
        return b"".join(bytes(part) for part in copy)


def _type(table: str, column: psycopg.Column) -> pa.DataType:
    found = arrow_type(column.type_code, column.precision, column.scale)
    if found is None:
        raise SourceError(
            f"column {column.name!r} of table {table!r} is numeric without a number of digits",
            hint=f"declare it, or CAST it in the query: {column.name}::numeric(18, 2), or ::float8",
        )
    return found


def _read(
    table: str, text: bytes, names: list[str], types: dict[str, pa.DataType], numbers: dict[str, int]
) -> pa.Table:
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise SourceError(f"table {table!r} would have two columns {twice!r}", hint="name one with AS in the query")
    raw = [name for name in names if numbers[name] == BYTES]
    read_as = {name: pa.string() if name in raw else kind for name, kind in types.items()}
    if not text:
        return pa.schema([(name, types[name] if name not in raw else pa.binary()) for name in names]).empty_table()
    try:
        rows = pa_csv.read_csv(
            BytesIO(text),
            # In one block, as a value may be long and hold ends of lines.
            pa_csv.ReadOptions(column_names=names, block_size=min(len(text) + 1, (1 << 31) - 1)),
            pa_csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
            pa_csv.ConvertOptions(
                column_types=read_as,
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                true_values=["t"],
                false_values=["f"],
            ),
        )
    except pa.ArrowException as error:
        raise SourceError(
            f"table {table!r} has a value that cannot be taken: {str(error).splitlines()[0]}",
            hint="CAST the column in the query",
        ) from None
    for name in raw:
        rows = rows.set_column(names.index(name), name, from_hexadecimal(rows[name]))
    return rows
