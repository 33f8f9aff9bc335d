"""The query that a static table is loaded by."""

from __future__ import annotations

from watersmeet.errors import SourceError
from watersmeet.io.connectors.contract import TableOpening
from watersmeet.io.connectors.databases.database import quoted_table, table_parts


def query_of(opening: TableOpening) -> str:
    table, query = opening.options.get("table"), opening.options.get("query")
    if (table is None) == (query is None):
        told = "neither table nor query" if table is None else "both table and query"
        raise SourceError(
            f"table {opening.name!r} says {told}", hint="write table = '…', or query = 'SELECT …', one of them"
        )
    if query is not None:
        return query.strip().rstrip(";")
    assert table is not None
    if not table_parts(table):
        raise SourceError(f"table {opening.name!r} has table = {table!r}, which names no table")
    return f"SELECT * FROM {quoted_table(table)}"
