"""After kills at any point, answers in tables and stores equal DuckDB: nothing is lost, nothing comes twice."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as pa_dataset
import pyarrow.parquet as pa_parquet
import pytest

from tests.effort import EFFORT
from tests.lakes import opened
from tests.lakes.lives import Case, expected, killed_again_and_again
from tests.lakes.store import Store

pytestmark = pytest.mark.lakes

KILLS = 20 * EFFORT
COLUMNS = "(id BIGINT, k BIGINT, v DOUBLE, s VARCHAR, ts TIMESTAMP)"
TIMES = "time = 'ts', lateness = '2 minutes'"


def rows_in(table: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.select(["x", "y", "s"]).to_pylist())


def test_delta(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")

    def grow(name: str, step: int, rows: pa.Table) -> None:
        deltalake.write_deltalake(tmp_path / name, rows, mode="append")

    streams = "".join(
        f"CREATE STREAM {name} {COLUMNS} WITH (source = 'delta', path = '{tmp_path / name}', start = '0', {TIMES});"
        for name in ("a", "b")
    )
    out = str(tmp_path / "out")
    sink = {"sink": "delta", "path": out, "compact_every": "3"}
    case = Case(streams, sink, "watersmeet.io.connectors.delta.sink:DeltaSink", str(tmp_path / "checkpoint"))
    died = killed_again_and_again(case, 1, KILLS, grow)
    assert died >= KILLS // 2
    assert rows_in(opened.table("delta", path=out)) == expected(KILLS + 1) != []


def test_iceberg(tmp_path: Path) -> None:
    pytest.importorskip("pyiceberg")
    from pyiceberg.catalog import load_catalog

    ways = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/warehouse"}
    catalog = load_catalog("default", **ways)
    catalog.create_namespace("db")

    def grow(name: str, step: int, rows: pa.Table) -> None:
        catalog.create_table_if_not_exists(f"db.{name}", rows.schema).append(rows)

    told = ", ".join(f"'catalog.{name}' = '{value}'" for name, value in ways.items())
    streams = "".join(
        f"CREATE STREAM {name} {COLUMNS} WITH (source = 'iceberg', table = 'db.{name}', {told}, {TIMES});"
        for name in ("a", "b")
    )
    options = {"table": "db.out"} | {f"catalog.{name}": value for name, value in ways.items()}
    sink = {"sink": "iceberg"} | options
    case = Case(streams, sink, "watersmeet.io.connectors.iceberg.sink:IcebergSink", str(tmp_path / "checkpoint"))
    died = killed_again_and_again(case, 2, KILLS, grow)
    assert died >= KILLS // 2
    found = opened.table("iceberg", **{name.replace(".", "__"): value for name, value in options.items()})
    assert rows_in(found) == expected(KILLS + 1) != []


@pytest.mark.parametrize("partition_by", [None, "s"])
def test_s3(store: Store, tmp_path: Path, partition_by: str | None) -> None:
    case = s3_case(store, str(tmp_path / "checkpoint"), partition_by)
    died = killed_again_and_again(case, 3, KILLS, lambda *step: put_rows(store, *step))
    assert died >= KILLS // 2
    assert rows_in(written(store, partition_by)) == expected(KILLS + 1) != []


def put_rows(store: Store, name: str, step: int, rows: pa.Table) -> None:
    packed = io.BytesIO()
    pa_parquet.write_table(rows, packed)
    store.put(f"{name}/{step:03d}.parquet", packed.getvalue())


def s3_case(store: Store, checkpoint: str, partition_by: str | None) -> Case:
    streams = "".join(
        f"CREATE STREAM {name} {COLUMNS} "
        f"WITH (source = 'parquet', path = '{store.address(name)}', {store.with_}, {TIMES});"
        for name in ("a", "b")
    )
    options = {"sink": "parquet", "path": store.address("out"), **store.ways}
    options |= {} if partition_by is None else {"partition_by": partition_by}
    return Case(streams, options, "watersmeet.io.connectors.files.sink:FilesSink", checkpoint)


def written(store: Store, partition_by: str | None) -> pa.Table:
    base = f"{store.bucket}/out"
    files = [f"{base}/{one}" for one in store.names("out") if one.endswith(".parquet")]
    how = None if partition_by is None else "hive"
    return pa_dataset.dataset(
        files, filesystem=store.files, format="parquet", partitioning=how, partition_base_dir=base
    ).to_table()
