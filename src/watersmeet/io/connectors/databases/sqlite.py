"""Tables of an SQLite file as sinks. Python brings the library."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.errors import SinkError
from watersmeet.io.connectors.contract import SinkOpening
from watersmeet.io.connectors.databases.database import file_of, listed, quoted, table_parts
from watersmeet.io.connectors.databases.families import family_of
from watersmeet.io.connectors.databases.sqlite_types import affinity_family, type_of
from watersmeet.io.connectors.databases.table_sink import TableSink
from watersmeet.io.connectors.gone import GO_ON, gone

PATIENCE_S = 30.0  # others may write the same file
_ROWS = "watersmeet_rows"


def open_sink(opening: SinkOpening) -> TableSink:
    path = file_of(opening.name, opening.options, SinkError)
    if opening.must_be_there and not path.exists():
        raise gone(opening, f"there is no file {path}")
    return TableSink(opening, SqliteFile(path))


class SqliteFile:
    mark = "?"
    row_id = "rowid"
    for_update = ""  # whoever writes is alone
    has_indexes = True

    def __init__(self, path: Path) -> None:
        self._path = path
        self.description = str(path)
        with self._said():
            path.parent.mkdir(parents=True, exist_ok=True)
            # A sink is used by one thread at a time, not always the one that made it.
            self._connection = sqlite3.connect(path, timeout=PATIENCE_S, isolation_level=None, check_same_thread=False)

    def type_of(self, kind: pa.DataType) -> str | None:
        return type_of(kind)

    def as_kept(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        """Of the few types that SQLite has: times as text that its functions read, decimals as exact text. It has no
        NaN."""
        match family_of(column.type):
            case "decimal" | "date" | "time" | "timestamp":
                return pc.cast(column, pa.string())
            case "instant":
                return pc.cast(pc.cast(column, pa.timestamp("us", "UTC")), pa.string())
            case "truth" | "duration":
                return pc.cast(column, pa.int64())
            case "float":
                return pc.if_else(pc.is_nan(column), None, column)
            case _:
                return column

    def merges(self, kind: pa.DataType) -> bool:
        return bool(pa.types.is_floating(kind))  # NaN and NULL

    @contextmanager
    def begin(self) -> Iterator[SqliteWork]:
        with self._said():
            # At once as one that writes: a transaction that becomes one later may be refused in between.
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield SqliteWork(self._connection)
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def _said(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError, OverflowError) as error:
            raise SinkError(
                f"{self._path} cannot be written: {error}",
                hint=GO_ON,
            ) from None


class SqliteWork:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def run(self, sql: str, *values: Any) -> None:
        self._connection.execute(sql, values)

    def first(self, sql: str, *values: Any) -> tuple[Any, ...] | None:
        return self._connection.execute(sql, values).fetchone()  # type: ignore[no-any-return]

    def append(self, table: str, rows: pa.Table) -> None:
        marks = ", ".join("?" * rows.num_columns)
        columns = [column.to_pylist() for column in rows.columns]
        self._connection.executemany(
            f"INSERT INTO {table} ({listed(rows.column_names)}) VALUES ({marks})", zip(*columns, strict=True)
        )

    def stage(self, rows: pa.Table, table: str) -> str:
        self._connection.execute(f"DROP TABLE IF EXISTS temp.{_ROWS}")
        # Values are converted there as they would be in the table itself, or equal ones would not be.
        known = self._types_of(table)
        columns = ", ".join(f"{quoted(name)} {known.get(name, '')}" for name in rows.column_names)
        self._connection.execute(f"CREATE TEMP TABLE {_ROWS} ({columns})")
        self.append(f"temp.{_ROWS}", rows)
        return f"temp.{_ROWS}"

    def columns_of(self, table: str) -> Mapping[str, str] | None:
        types = self._types_of(table)
        return {name: affinity_family(kind) for name, kind in types.items()} or None

    def _types_of(self, table: str) -> dict[str, str]:
        *schema, name = table_parts(table)
        place = quoted(schema[0]) + "." if schema else ""
        return {row[1]: row[2] for row in self._connection.execute(f"PRAGMA {place}table_info({quoted(name)})")}
