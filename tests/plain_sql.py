"""What DuckDB answers to plain SQL over tables: one database for the process, as starting one takes longer than most
questions; each question has a connection of its own, which sees no other's tables."""

from __future__ import annotations

import atexit
from collections.abc import Mapping
from functools import cache

import duckdb
import pyarrow as pa


def said_by_duckdb(sql: str, tables: Mapping[str, pa.Table]) -> pa.Table:
    with _database().cursor() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        return connection.sql(sql).to_arrow_table()


@cache
def _database() -> duckdb.DuckDBPyConnection:
    database = duckdb.connect()
    atexit.register(database.close)
    return database
