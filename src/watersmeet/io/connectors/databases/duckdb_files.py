"""Tables of a DuckDB file as sinks, and static tables loaded from one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from watersmeet.errors import SinkError, SourceError
from watersmeet.io.connectors.contract import SinkOpening, TableOpening
from watersmeet.io.connectors.databases.database import LostError, file_of, listed, query_of, table_parts
from watersmeet.io.connectors.databases.families import ANY, family_of
from watersmeet.io.connectors.databases.table_sink import TableSink
from watersmeet.io.connectors.gone import GO_ON, gone
from watersmeet.io.duckdb_ctrl_c import ctrl_c_as_such
from watersmeet.io.retrying import retried

PATIENCE_S = 30.0
_ROWS = "watersmeet_rows"
_COLUMNS = """
SELECT column_name, data_type FROM duckdb_columns()
WHERE database_name = current_database() AND schema_name = coalesce(?, current_schema()) AND table_name = ?
ORDER BY column_index
"""


def open_sink(opening: SinkOpening) -> TableSink:
    path = file_of(opening.name, opening.options, SinkError)
    if opening.must_be_there and not path.exists():
        raise gone(opening, f"there is no file {path}")
    return TableSink(opening, DuckdbFile(path))


def load_table(opening: TableOpening) -> pa.Table:
    path = file_of(opening.name, opening.options, SourceError)
    if not path.exists():
        raise SourceError(f"table {opening.name!r} cannot be loaded: there is no file {path}")
    try:
        with closing(_connected(path)) as connection:
            # A query that would change something is undone.
            connection.execute("BEGIN TRANSACTION READ ONLY")
            found = connection.sql(query_of(opening))
            if found is None:
                raise SourceError(f"the query of table {opening.name!r} gives no rows", hint="write a SELECT")
            return found.to_arrow_table()
    except duckdb.Error as error:
        raise SourceError(f"table {opening.name!r} cannot be loaded from {path}: {_first_line(error)}") from None


class DuckdbFile:
    """The file is open while a batch is written and no longer: whoever has it open keeps all other processes out."""

    mark = "?"
    row_id = "rowid"
    for_update = ""  # whoever writes is alone
    # Columns are scanned fast; and an index of DuckDB's refuses a key that goes and comes in one transaction.
    has_indexes = False

    def __init__(self, path: Path) -> None:
        self._path = path
        self.description = str(path)

    def type_of(self, kind: pa.DataType) -> str | None:
        return type_of(kind)

    def as_kept(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        return column

    def merges(self, kind: pa.DataType) -> bool:
        return False

    @contextmanager
    def begin(self) -> Iterator[DuckdbWork]:
        with self._said():
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with closing(_connected(self._path)) as connection:
                connection.execute("BEGIN")
                # What is not committed when the connection closes has not been.
                yield DuckdbWork(connection)
                connection.execute("COMMIT")

    def close(self) -> None:
        pass

    @contextmanager
    def _said(self) -> Iterator[None]:
        try:
            with ctrl_c_as_such():
                yield
        except (duckdb.Error, OSError) as error:
            raise (LostError if _met_another(error) else SinkError)(
                f"{self._path} cannot be written: {_first_line(error)}",
                hint=GO_ON,
            ) from None


class DuckdbWork:
    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection

    def run(self, sql: str, *values: Any) -> None:
        self._connection.execute(sql, values)

    def first(self, sql: str, *values: Any) -> tuple[Any, ...] | None:
        # All of them: a result that is not read to its end would be in the way of what comes next.
        return next(iter(self._connection.execute(sql, values).fetchall()), None)

    def append(self, table: str, rows: pa.Table) -> None:
        self._connection.register(_ROWS, rows)
        names = listed(rows.column_names)
        self._connection.execute(f"INSERT INTO {table} ({names}) SELECT {names} FROM {_ROWS}")

    def stage(self, rows: pa.Table, table: str) -> str:
        self._connection.register(_ROWS, rows)
        return _ROWS

    def columns_of(self, table: str) -> Mapping[str, str] | None:
        *schema, name = table_parts(table)
        found = self._connection.execute(_COLUMNS, [schema[0] if schema else None, name]).fetchall()
        return {column: family_of_name(kind) for column, kind in found} or None


def _connected(path: Path) -> duckdb.DuckDBPyConnection:
    """Another process may have the file open, or this one be about to close it; as a rule not for long."""
    return retried(
        lambda: duckdb.connect(str(path)),
        _is_held,
        for_s=PATIENCE_S,
        pause_s=0.05,
        warning=lambda error: f"{path} is held by another",
        silent_s=1.0,
    )


def _is_held(error: Exception) -> bool:
    locked = isinstance(error, duckdb.IOException) and "lock" in str(error)
    return locked or isinstance(error, duckdb.ResourceInUseException)


def _met_another(error: BaseException) -> bool:
    """Whether two of one process, which have one database, were in each other's way: the second of two that change a
    row fails, and so does one that connects while the database is being opened, before DuckDB can read Arrow in it.
    A commit for which the disk has no room is a TransactionException, too."""
    conflict = isinstance(error, duckdb.TransactionException) and "Could not write" not in str(error)
    return conflict or "python_arrow_scan" in str(error)


def _first_line(error: BaseException) -> str:
    return str(error).split("\n", 1)[0].rstrip(".")


_NAMES = {
    "truth": "BOOLEAN",
    "float": "DOUBLE",
    "date": "DATE",
    "time": "TIME",
    "timestamp": "TIMESTAMP",
    "instant": "TIMESTAMP WITH TIME ZONE",
    "duration": "INTERVAL",
    "text": "VARCHAR",
    "bytes": "BLOB",
    ANY: "VARCHAR",
}
_FAMILIES = {
    **{name: family for family, name in _NAMES.items() if family != ANY},
    **dict.fromkeys(
        ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"),
        "integer",
    ),
    "FLOAT": "float",
    "TIMESTAMP_S": "timestamp",
    "TIMESTAMP_MS": "timestamp",
    "TIMESTAMP_NS": "timestamp",
}


def type_of(kind: pa.DataType) -> str | None:
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})" if kind.precision <= 38 else None
    if pa.types.is_uint64(kind):
        return "UBIGINT"
    family = family_of(kind)
    return "BIGINT" if family == "integer" else _NAMES.get(family or "")


def family_of_name(name: str) -> str:
    return "decimal" if name.startswith("DECIMAL") else _FAMILIES.get(name, ANY)
