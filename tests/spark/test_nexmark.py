"""The Nexmark queries on Spark, as streams of files in micro-batches: the same answers as DuckDB's.

`make test-nexmark` runs all of them, `make test` a few.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.dataset as pa_dataset
import pyarrow.parquet as pa_parquet
import pytest
from pyspark.sql import SparkSession

from tests.nexmark.running import QUERIES, answer_by_duckdb, at_the_end, bag, script_of, tables, used_by
from watersmeet import Session
from watersmeet.plan.query import Plan
from watersmeet.runtime.script import read_script

ROWS, RATE, PIECES = 2000, 100.0, 2
FEW = ("q5", "q23")
SINK = "CREATE SINK answer WITH (sink='parquet', path='answer', mode='overwrite') AS\nSELECT"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every stream in a folder of files, which come one a batch."""
    folder = tmp_path_factory.mktemp("nexmark")
    for name, table in tables(ROWS, RATE).items():
        (folder / "nexmark" / name).mkdir(parents=True)
        size = -(-table.num_rows // PIECES)
        for number in range(PIECES):
            path = folder / "nexmark" / name / f"{number}.parquet"
            pa_parquet.write_table(table.slice(number * size, size), path)
            os.utime(path, (1e9 + number, 1e9 + number))
    return folder


def streamed(script: str) -> str:
    """The same script over folders, a file at a time."""
    for name in ("person", "auction", "bid"):
        script = script.replace(f"'nexmark/{name}.parquet', ", f"'nexmark/{name}', maxFilesPerTrigger='1', ")
    return script.replace("side_input.parquet", "side_input")


def into_a_sink(script: str) -> str:
    before, select, query = script.rpartition("\n\nSELECT")
    return f"{before}\n\n{SINK}{query}" if select else script


def answered(spark: SparkSession, script: str) -> tuple[pa.Table, Plan]:
    shutil.rmtree("answer", ignore_errors=True)
    script = into_a_sink(streamed(script))
    Session(spark, buckets=2).run(script)
    (job,) = read_script(script)
    return spark.read.parquet(str(Path("answer").absolute())).toArrow().cast(job.plan.output_schema), job.plan


@pytest.mark.parametrize(
    "query",
    [pytest.param(one, marks=() if one in FEW else pytest.mark.soak) for one in QUERIES if one not in ("q10", "q12")],
)
def test_the_answer_on_spark_is_that_of_duckdb(
    query: str, spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    made = tables(ROWS, RATE)
    answer, plan = answered(spark, script_of(query))
    assert at_the_end(answer, plan, made, used_by(query)) == answer_by_duckdb(query, made)


@pytest.mark.soak
def test_bids_are_logged_in_a_folder_for_every_minute(
    spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    Session(spark, buckets=2).run(streamed(script_of("q10")))
    kinds = pa.schema([("dt", pa.string()), ("hm", pa.string())])
    hive = pa_dataset.partitioning(kinds, flavor="hive")
    found = pa_dataset.dataset("nexmark/log", format="csv", partitioning=hive, exclude_invalid_files=False).to_table()
    expected = answer_by_duckdb("q10", tables(ROWS, RATE))
    columns = ["auction", "bidder", "price", "ts", "extra", "dt", "hm"]
    assert bag(found.select(columns).set_column(3, "ts", found["ts"].cast(pa.timestamp("us")))) == expected


@pytest.mark.soak
def test_processing_time_windows_are_those_of_the_recorded_moments(
    spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The moments of a run are its own, so the query itself tells the first and the last of each group."""
    monkeypatch.chdir(folder)
    asked = "MIN(arrival) AS first, MAX(arrival) AS last\nFROM TABLE"
    answer, _ = answered(spark, script_of("q12").replace("\nFROM TABLE", f", {asked}"))
    counted = answer.group_by("bidder").aggregate([("bid_count", "sum")])
    bids = tables(ROWS, RATE)["bid"].group_by("bidder").aggregate([("price", "count")])
    assert bag(counted) == bag(bids)
    starts = duckdb.sql("SELECT time_bucket(INTERVAL 10 SECOND, UNNEST([first, last])) AS s, starttime FROM answer")
    assert starts.filter("s <> starttime").fetchall() == []
    assert len({*answer["first"].to_pylist(), *answer["last"].to_pylist()}) == PIECES
