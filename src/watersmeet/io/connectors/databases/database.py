"""What a sink needs of a database, whichever it is; and names in SQL."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from watersmeet.errors import SinkError, SourceError
from watersmeet.io.connectors.contract import TableOpening


class LostError(SinkError):
    """The connection is gone, maybe in the middle of a batch, or another transaction was in the way; the batch can be
    taken once more."""


_PART = re.compile(r'"((?:[^"]|"")+)"|([^".]+)')


class Work(Protocol):
    """One transaction: all of it counts, or nothing."""

    def run(self, sql: str, *values: Any) -> None:
        """Values stand in the text as the database's `mark`."""

    def first(self, sql: str, *values: Any) -> tuple[Any, ...] | None:
        """The first row of a query."""

    def append(self, table: str, rows: pa.Table) -> None:
        """Add rows to a table; both have columns of the same names."""

    def stage(self, rows: pa.Table, table: str) -> str:
        """Put rows aside, their columns of the types that a table has, others numbers; gives what SQL calls them."""

    def columns_of(self, table: str) -> Mapping[str, str] | None:
        """The columns of a table and the family that the type of each is of; None if there is no such table."""


class Database(Protocol):
    """A place with tables. Whatever it cannot do it says as SinkError, in a sentence without a password."""

    mark: str  # stands for a value in SQL
    row_id: str  # the column by which SQL knows a row that nothing else tells from its equals
    for_update: str  # at the end of a query: nobody else may change what it has read
    has_indexes: bool  # whether rows are found faster by an index
    description: str

    def type_of(self, kind: pa.DataType) -> str | None:
        """What it calls a type; None if it has none for it."""

    def as_kept(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        """Values as they are put in: equal ones stay equal, and what it keeps as NULL is NULL."""

    def merges(self, kind: pa.DataType) -> bool:
        """Whether two values of a type that differ may become one by that, so that no row is known by them."""

    def begin(self) -> AbstractContextManager[Work]: ...

    def close(self) -> None: ...


def quoted(name: str) -> str:
    """
    >>> quoted('a "good" name')
    '"a ""good"" name"'
    """
    return '"' + name.replace('"', '""') + '"'


def quoted_table(name: str) -> str:
    """A table as people write it, maybe with its schema, in SQL.

    >>> quoted_table("totals"), quoted_table("shop.totals"), quoted_table('"a.b".c')
    ('"totals"', '"shop"."totals"', '"a.b"."c"')
    """
    return ".".join(quoted(part) for part in table_parts(name))


def table_parts(name: str) -> list[str]:
    return [one[1].replace('""', '"') if one[1] else one[2] for one in _PART.finditer(name)]


def beside(table: str, name: str) -> str:
    """Another table of the same schema."""
    return ".".join(quoted(part) for part in [*table_parts(table)[:-1], name])


def listed(names: Sequence[str], of: str = "") -> str:
    return ", ".join(of + quoted(name) for name in names)


def file_of(name: str, options: Mapping[str, str], error: type[SinkError] | type[SourceError]) -> Path:
    path = options.get("path")
    if not path:
        raise error(f"{name!r} does not say which file its database is", hint="add path = '…' to its WITH (…)")
    if "\0" in path:
        raise error(f"{name!r} has a path with a NUL character in it: {path!r}")
    return Path(path).expanduser()


def query_of(opening: TableOpening) -> str:
    table, query = opening.options.get("table"), opening.options.get("query")
    if (table is None) == (query is None):
        says = "neither table nor query" if table is None else "both table and query"
        raise SourceError(
            f"table {opening.name!r} says {says}", hint="write table = '…', or query = 'SELECT …', one of them"
        )
    if query is not None:
        return query.strip().rstrip(";")
    assert table is not None
    if not table_parts(table):
        raise SourceError(f"table {opening.name!r} has table = {table!r}, which names no table")
    return f"SELECT * FROM {quoted_table(table)}"
