"""Databases to write to, each with its own way to look at what is in it."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from watersmeet.io.connectors.contract import NumberedSink, SinkOpening, TableOpening
from watersmeet.io.connectors.registry import connector_named, opener_of


@dataclass(frozen=True)
class Place:
    kind: str
    options: dict[str, str]

    def sink(self, schema: pa.Schema, name: str = "answer", run: str = "r1", **more: Any) -> NumberedSink:
        keys, changes = more.pop("keys", ()), more.pop("changes", None)
        committed, makes_anew, start = more.pop("committed", -1), more.pop("makes_anew", False), more.pop("start", None)
        if "as_said" in more:
            more["changes"] = more.pop("as_said")
        connector = connector_named(self.kind)
        assert connector is not None
        opener = opener_of(connector, "sink")
        assert opener is not None
        sink: NumberedSink = opener(
            SinkOpening(name, {**self.options, **more}, schema, run, keys, changes, committed, makes_anew, start)
        )
        return sink

    def load(self, columns: pa.Schema | None = None, **more: str) -> pa.Table:
        connector = connector_named(self.kind)
        assert connector is not None
        opener = opener_of(connector, "table")
        assert opener is not None
        table: pa.Table = opener(TableOpening("t", {**self.options, **more}, columns))
        return table

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        if self.kind == "sqlite":
            with sqlite3.connect(self.options["path"]) as connection:
                return connection.execute(sql).fetchall()
        if self.kind == "postgres":
            return ran(self.options["dsn"], sql)
        with duckdb.connect(self.options["path"]) as connection:
            return connection.execute(sql).fetchall()

    def rows(self, table: str = "answer") -> Counter[tuple[Any, ...]]:
        return Counter(self.run(f'SELECT * FROM "{table}"'))


def ran(dsn: str, sql: str) -> list[tuple[Any, ...]]:
    import psycopg  # only where there is a server

    with psycopg.connect(dsn, autocommit=True) as connection:
        cursor = connection.execute(sql)
        return [] if cursor.description is None else cursor.fetchall()


def file_place(kind: str, folder: Path) -> Place:
    return Place(kind, {"path": str(folder / f"here.{kind}")})


def batch(schema: pa.Schema, rows: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.record_batch([pa.array(list(c), t.type) for c, t in zip(columns, schema, strict=True)], schema=schema)
