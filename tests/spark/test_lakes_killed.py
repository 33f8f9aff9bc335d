"""From tables of lakes and files of a store into the same, on Spark, with a static table of each: exactly once through
kills of the driver between the steps of a commit."""

# ruff: noqa: F811 (fixtures are named as they are)

from __future__ import annotations

import io
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as pa_dataset
import pyarrow.parquet as pa_parquet
import pytest

from tests.lakes import opened
from tests.lakes.conftest import endpoint, store  # noqa: F401 (fixtures)
from tests.lakes.store import Store
from tests.spark.killed_sinks import (
    COLUMNS,
    JOIN,
    NAMES,
    TIMES,
    expected,
    killed_again_and_again,
    rows_in,
    with_,
)

pytestmark = [pytest.mark.lakes, pytest.mark.spark]

KILLS = int(os.environ.get("KILLS_ON_SPARK", "6"))


def test_delta(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")

    def grow(name: str, step: int, rows: pa.Table) -> None:
        deltalake.write_deltalake(tmp_path / name, rows, mode="append")

    deltalake.write_deltalake(tmp_path / "names", NAMES)
    script = f"""
        CREATE STREAM a {COLUMNS} WITH (source = 'delta', path = '{tmp_path}/a', start = '0', {TIMES});
        CREATE STREAM b {COLUMNS} WITH (source = 'delta', path = '{tmp_path}/b', start = '0', {TIMES});
        CREATE TABLE names WITH (source = 'delta', path = '{tmp_path}/names');
        CREATE SINK out WITH (sink = 'delta', path = '{tmp_path}/out', compact_every = '3') AS {JOIN};"""
    died = killed_again_and_again(tmp_path, script, "watersmeet.io.connectors.delta.sink:DeltaSink", KILLS, grow)
    assert died > KILLS // 2
    assert rows_in(opened.table("delta", path=str(tmp_path / "out"))) == expected(KILLS) != []


def test_iceberg(tmp_path: Path) -> None:
    pytest.importorskip("pyiceberg")
    from pyiceberg.catalog import load_catalog

    ways = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/warehouse"}
    catalog = load_catalog("default", **ways)
    catalog.create_namespace("db")

    def grow(name: str, step: int, rows: pa.Table) -> None:
        catalog.create_table_if_not_exists(f"db.{name}", rows.schema).append(rows)

    grow("names", 0, NAMES)
    said = with_({f"catalog.{name}": value for name, value in ways.items()})
    script = f"""
        CREATE STREAM a {COLUMNS} WITH (source = 'iceberg', table = 'db.a', {said}, {TIMES});
        CREATE STREAM b {COLUMNS} WITH (source = 'iceberg', table = 'db.b', {said}, {TIMES});
        CREATE TABLE names WITH (source = 'iceberg', table = 'db.names', {said});
        CREATE SINK out WITH (sink = 'iceberg', table = 'db.out', {said}) AS {JOIN};"""
    died = killed_again_and_again(tmp_path, script, "watersmeet.io.connectors.iceberg.sink:IcebergSink", KILLS, grow)
    assert died > KILLS // 2
    dotted = {f"catalog__{name}": value for name, value in ways.items()}
    assert rows_in(opened.table("iceberg", table="db.out", **dotted)) == expected(KILLS) != []


def test_s3(store: Store, tmp_path: Path) -> None:
    def grow(name: str, step: int, rows: pa.Table) -> None:
        packed = io.BytesIO()
        pa_parquet.write_table(rows, packed)
        store.put(f"{name}/{step:03d}.parquet", packed.getvalue())

    grow("names", 0, NAMES)
    files = f"'files', format = 'parquet', {store.with_}"
    script = f"""
        CREATE STREAM a {COLUMNS} WITH (source = {files}, path = '{store.address("a")}', {TIMES});
        CREATE STREAM b {COLUMNS} WITH (source = {files}, path = '{store.address("b")}', {TIMES});
        CREATE TABLE names WITH (source = {files}, path = '{store.address("names")}');
        CREATE SINK out WITH (sink = {files}, path = '{store.address("out")}') AS {JOIN};"""
    died = killed_again_and_again(tmp_path, script, "watersmeet.io.connectors.files.sink:FilesSink", KILLS, grow)
    assert died > KILLS // 2
    found = pa_dataset.dataset(f"{store.bucket}/out", filesystem=store.files, format="parquet").to_table()
    assert rows_in(found) == expected(KILLS) != []
