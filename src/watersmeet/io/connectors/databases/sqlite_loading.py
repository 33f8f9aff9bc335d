"""A static table loaded from an SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.errors import SourceError
from watersmeet.io.connectors.contract import TableOpening
from watersmeet.io.connectors.databases.database import file_of, query_of
from watersmeet.io.connectors.databases.sqlite_types import arrow_type

PATIENCE_S = 30.0
_VIEW = "watersmeet_query"


def load_table(opening: TableOpening) -> pa.Table:
    path = file_of(opening.name, opening.options, SourceError)
    if not path.exists():
        raise SourceError(f"table {opening.name!r} cannot be loaded: there is no file {path}")
    query = query_of(opening)
    # To read only, so that a name with a slip of the pen makes no file, and a query cannot change anything.
    with _said(opening.name, path), closing(_opened(path)) as connection:
        types = _types(connection, query, opening.columns)
        cursor = connection.execute(query)
        names = [one[0] for one in cursor.description]
        values = list(zip(*cursor.fetchall(), strict=True)) or [()] * len(names)
    columns = [_column(opening.name, name, types.get(name), held) for name, held in zip(names, values, strict=True)]
    return pa.table(columns, names=names)


def _opened(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=PATIENCE_S)


def _types(connection: sqlite3.Connection, query: str, declared: pa.Schema | None) -> dict[str, pa.DataType]:
    """The types of a query's columns as far as they are known: as the statement declares them, or as the file does."""
    connection.execute(f"CREATE TEMP VIEW {_VIEW} AS {query}")
    types = {row[1]: arrow_type(row[2]) for row in connection.execute(f"PRAGMA table_info({_VIEW})") if row[2]}
    if declared is not None:
        types |= {field.name: field.type for field in declared}
    return {name: kind for name, kind in types.items() if kind is not None}


def _column(table: str, name: str, kind: pa.DataType | None, values: tuple[Any, ...]) -> pa.Array:
    try:
        if kind is None:
            found = pa.array(values)
            return pc.cast(found, pa.string()) if pa.types.is_null(found.type) else found
        return _typed(kind, values)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        what = "its values" if kind is None else f"a value that is no {kind}"
        raise SourceError(
            f"column {name!r} of table {table!r} has {what}: {str(error).splitlines()[0]}",
            hint="declare the column with another type, or CAST it in the query",
        ) from None


def _typed(kind: pa.DataType, values: tuple[Any, ...]) -> pa.Array:
    types = pa.types
    if types.is_boolean(kind):
        return pc.cast(pa.array(values, pa.int64()), kind)
    if types.is_decimal(kind):
        return pc.cast(pa.array([None if one is None else str(one) for one in values], pa.string()), kind)
    if types.is_temporal(kind) and not types.is_duration(kind):
        if any(isinstance(one, int | float) for one in values):
            raise TypeError("a number where a time in text is expected")
        return pc.cast(pa.array(values, pa.string()), kind)
    return pa.array(values, kind)


@contextmanager
def _said(table: str, path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise SourceError(f"table {table!r} cannot be loaded from {path}: {error}") from None
