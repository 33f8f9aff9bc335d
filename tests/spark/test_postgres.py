"""Answers of Spark in a real PostgreSQL server: what it took is there once, and is what DuckDB says."""

# ruff: noqa: F811 (fixtures are named as they are)

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest
from pyspark.sql import SparkSession

from tests.databases.conftest import on_server, server  # noqa: F401 (fixtures)
from tests.databases.places import Place
from tests.durable.lives import Case, write_files
from tests.spark.killed_sinks import COLUMNS, JOIN, TIMES, expected, killed_again_and_again
from watersmeet.hosts.spark.run import SparkRun
from watersmeet.io.connectors.databases.table_sink import TableSink
from watersmeet.runtime.run_settings import RunSettings

pytestmark = pytest.mark.postgres
COUNT = 200
KILLS = int(os.environ.get("KILLS_ON_SPARK", "20"))


@pytest.fixture
def streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_server: Place) -> str:
    write_files(Case("", tmp_path, ("a", "b")), COUNT)
    monkeypatch.setenv("PLACE", on_server.options["dsn"])
    on_server.run("CREATE TABLE names AS SELECT k::bigint, 'shop ' || k AS name FROM generate_series(0, 15) AS k")
    return (
        "".join(
            f"CREATE STREAM {name} (id BIGINT, k BIGINT, v DOUBLE, s STRING, ts TIMESTAMP) WITH (source = 'parquet', "
            f"path = '{tmp_path / name}', time = 'ts', lateness = '1 hour', maxFilesPerTrigger = '2');"
            for name in "ab"
        )
        + "CREATE TABLE names WITH (source = 'postgres', dsn = '${PLACE}', table = 'names');"
    )


def said_by_duckdb(sql: str, folder: Path) -> Counter[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        for name in "ab":
            connection.execute(f"CREATE VIEW {name} AS SELECT * FROM '{folder / name}/*.parquet'")
        connection.execute("CREATE VIEW names AS SELECT range AS k, 'shop ' || range AS name FROM range(16)")
        return Counter(connection.execute(sql).fetchall())


def test_a_batch_whose_commit_spark_did_not_hear_of_is_there_once(
    spark: SparkSession,
    tmp_path: Path,
    streams: str,
    on_server: Place,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = f"""{streams} CREATE SINK answer WITH (sink = 'postgres', dsn = '${{PLACE}}') AS
        SELECT a.id AS x, b.id AS y, n.name FROM a, b, names n WHERE a.k = b.k AND a.k = n.k WINDOW = 2 SECONDS;"""
    choices = RunSettings(available_now=True, buckets=2, checkpoint=str(tmp_path / "state"))
    commit = TableSink.commit
    taken: list[int] = []

    def cut_off(self: TableSink, number: int, rows: Sequence[pa.RecordBatch]) -> None:
        commit(self, number, rows)
        taken.append(number)
        raise RuntimeError("the process ends here")

    with monkeypatch.context() as broken:
        broken.setattr(TableSink, "commit", cut_off)
        with pytest.raises(Exception, match="the process ends here"):
            SparkRun(spark, script, choices).run()
    assert taken
    SparkRun(spark, script, choices).run()
    expected = said_by_duckdb(
        "SELECT a.id, b.id, n.name FROM a, b, names n WHERE a.k = b.k AND a.k = n.k "
        "AND abs(epoch_us(a.ts) - epoch_us(b.ts)) <= 2000000",
        tmp_path,
    )
    assert on_server.rows() == expected


def test_a_changing_answer_is_a_table(spark: SparkSession, tmp_path: Path, streams: str, on_server: Place) -> None:
    script = f"""{streams} CREATE SINK answer WITH (sink = 'postgres', dsn = '${{PLACE}}') AS
        SELECT k, COUNT(*) AS n, SUM(id) AS ids FROM a [UNBOUNDED] GROUP BY k;"""
    SparkRun(spark, script, RunSettings(available_now=True, buckets=2)).run()
    expected = said_by_duckdb("SELECT k, count(*), sum(id)::BIGINT FROM a GROUP BY k", tmp_path)
    assert on_server.rows() == expected


@pytest.mark.spark
def test_kills_between_the_steps_of_a_commit_change_nothing(
    tmp_path: Path, on_server: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLACE", on_server.options["dsn"])
    on_server.run("CREATE TABLE names AS SELECT k::bigint, 'shop ' || k AS name FROM generate_series(0, 15) AS k")

    def grow(name: str, step: int, rows: pa.Table) -> None:
        (tmp_path / name).mkdir(exist_ok=True)
        pa_parquet.write_table(rows, tmp_path / name / f"{step:03d}.parquet")

    script = f"""
        CREATE STREAM a {COLUMNS} WITH (source = 'files', format = 'parquet', path = 'file://{tmp_path}/a', {TIMES});
        CREATE STREAM b {COLUMNS} WITH (source = 'files', format = 'parquet', path = 'file://{tmp_path}/b', {TIMES});
        CREATE TABLE names WITH (source = 'postgres', dsn = '${{PLACE}}', table = 'names');
        CREATE SINK answer WITH (sink = 'postgres', dsn = '${{PLACE}}') AS {JOIN};"""
    sink = "watersmeet.io.connectors.databases.table_sink:TableSink"
    died = killed_again_and_again(tmp_path, script, sink, KILLS, grow)
    assert died > KILLS // 2
    assert sorted(on_server.rows().elements()) == expected(KILLS) != []
