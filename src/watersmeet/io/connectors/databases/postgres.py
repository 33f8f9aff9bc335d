"""Tables of a PostgreSQL server as sinks: rows go as CSV through COPY, columns at a time on both ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from watersmeet.errors import SinkError
from watersmeet.io.connectors.contract import SinkOpening
from watersmeet.io.connectors.databases.database import LostError, listed, quoted_table
from watersmeet.io.connectors.databases.families import ANY, family_of
from watersmeet.io.connectors.databases.postgres_server import connected, dsn_of, place_of, said_by
from watersmeet.io.connectors.databases.postgres_types import as_hexadecimal, family_of_name, type_of
from watersmeet.io.connectors.databases.table_sink import NULLS, TableSink
from watersmeet.io.connectors.gone import GO_ON
from watersmeet.io.consolidation import COUNT

_ROWS = "watersmeet_rows"
_OURS = {COUNT: "bigint", NULLS: "text"}
_COLUMNS = """
SELECT attname, format_type(atttypid, NULL) FROM pg_attribute
WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""
# Two that begin at once must not both find that there is no table and make it.
_ONE_AT_A_TIME = "SELECT pg_advisory_xact_lock(hashtext('watersmeet'))"


def open_sink(opening: SinkOpening) -> TableSink:
    return TableSink(opening, PostgresServer(dsn_of(opening.name, opening.options, SinkError)))


class PostgresServer:
    mark = "%s"
    row_id = "ctid"
    has_indexes = True
    # A batch of a connection that was lost may still be on its way there: what comes next waits for it.
    for_update = " FOR UPDATE"

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self.description = place_of(dsn)
        self._known = False  # whether it could ever be reached
        self._connection: psycopg.Connection[Any] | None = None

    def type_of(self, kind: pa.DataType) -> str | None:
        return type_of(kind)

    def as_kept(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        """As what CSV and COPY have in common."""
        match family_of(column.type):
            case "bytes":
                return as_hexadecimal(column)
            case "duration":
                microseconds = pc.cast(pc.cast(pc.cast(column, pa.duration("us")), pa.int64()), pa.string())
                return pc.binary_join_element_wise(microseconds, "microseconds", " ")
            case "instant":
                return pc.cast(column, pa.timestamp("us", "UTC"))
            case family if family == ANY:
                return pc.cast(column, pa.string())
            case _:
                return column

    def merges(self, kind: pa.DataType) -> bool:
        return False

    @contextmanager
    def begin(self) -> Iterator[PostgresWork]:
        with self._said():
            if self._connection is None:
                self._connection = connected(self._dsn)
            with self._connection.transaction():
                if not self._known:
                    self._connection.execute(_ONE_AT_A_TIME)
                yield PostgresWork(self._connection)
            self._known = True

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    @contextmanager
    def _said(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            lost = self._known and (self._connection is None or self._connection.closed)
            if lost:
                self._connection = None
            raise (LostError if lost else SinkError)(
                f"{self.description} cannot be written: {said_by(error, self._dsn)}",
                hint=GO_ON,
            ) from None


class PostgresWork:
    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        self._staged = 0

    def run(self, sql: str, *values: Any) -> None:
        self._connection.execute(sql, values or None)

    def first(self, sql: str, *values: Any) -> tuple[Any, ...] | None:
        return self._connection.execute(sql, values or None).fetchone()

    def append(self, table: str, rows: pa.Table) -> None:
        text = BytesIO()
        pa_csv.write_csv(rows, text, pa_csv.WriteOptions(include_header=False))
        with (
            self._connection.cursor() as cursor,
            cursor.copy(f"COPY {table} ({listed(rows.column_names)}) FROM STDIN (FORMAT csv)") as copy,
        ):
            copy.write(text.getbuffer())

    def stage(self, rows: pa.Table, table: str) -> str:
        self._staged += 1
        staged = f"{_ROWS}_{self._staged}"
        names = [name for name in rows.column_names if name not in _OURS]
        ours = "".join(f", NULL::{_OURS[name]} AS {name}" for name in rows.column_names if name in _OURS)
        self.run(f"CREATE TEMP TABLE {staged} ON COMMIT DROP AS SELECT {listed(names)}{ours} FROM {table} WITH NO DATA")
        self.append(f"pg_temp.{staged}", rows)
        self.run(f"ANALYZE pg_temp.{staged}")  # or the planner would guess how many there are
        return f"pg_temp.{staged}"

    def columns_of(self, table: str) -> Mapping[str, str] | None:
        found = self._connection.execute(_COLUMNS, (quoted_table(table),)).fetchall()
        return {name: family_of_name(kind) for name, kind in found} or None
