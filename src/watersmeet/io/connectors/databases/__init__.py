"""Answers kept as tables of a database, and static tables loaded from one: PostgreSQL, SQLite, DuckDB."""

from __future__ import annotations

from watersmeet.io.connectors.contract import Connector, Options

_HERE = "watersmeet.io.connectors.databases"
_OF_SINKS = ("table", "mode", "changes")
_OF_TABLES = ("table", "query")

SQLITE = Connector(
    "sqlite",
    sink=f"{_HERE}.sqlite:open_sink",
    table=f"{_HERE}.sqlite_loading:load_table",
    sink_options=Options(("path", *_OF_SINKS)),
    table_options=Options(("path", *_OF_TABLES)),
)

DUCKDB = Connector(
    "duckdb",
    sink=f"{_HERE}.duckdb_files:open_sink",
    table=f"{_HERE}.duckdb_files:load_table",
    sink_options=Options(("path", *_OF_SINKS)),
    table_options=Options(("path", *_OF_TABLES)),
    extra="duckdb",
)

_SERVER = ("dsn", "url")
POSTGRES = Connector(
    "postgres",
    sink=f"{_HERE}.postgres:open_sink",
    table=f"{_HERE}.postgres_loading:load_table",
    sink_options=Options((*_SERVER, *_OF_SINKS), secret=_SERVER),
    table_options=Options((*_SERVER, *_OF_TABLES), secret=_SERVER),
    extra="postgres",
)
