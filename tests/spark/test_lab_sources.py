"""Workloads of the lab as sources on Spark: the same rows as in-process, in batches, and only once after a restart."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest
from pyspark.sql import SparkSession

from watersmeet.hosts.local.pulled_execution import PulledExecution
from watersmeet.hosts.spark.reading.generated_files import PIECES, as_files
from watersmeet.hosts.spark.run import SparkRun
from watersmeet.lab.workloads import nexmark
from watersmeet.runtime.run_settings import RunSettings
from watersmeet.runtime.script import read_script

QUERY = "SELECT a.id, b.price FROM auction a, bid b WHERE a.id = b.auction DWINDOW (a, b) = 200 MILLISECONDS"
BATCHED = "maxFilesPerTrigger='8'"
STREAMS = "\n".join(
    f"CREATE STREAM {name} WITH (source='lab:nexmark', stream='{name}', rows='4000', time='ts', {BATCHED});"
    for name in ("auction", "bid")
)
SCRIPT = f"{STREAMS} CREATE SINK found WITH (sink='parquet', path='found') AS {QUERY};"


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def pairs(table: pa.Table) -> Counter[tuple[int, int]]:
    return Counter(zip(table["id"].to_pylist(), table["price"].to_pylist(), strict=True))


def test_a_workload_streams_on_spark_as_it_does_in_process(spark: SparkSession) -> None:
    choices = RunSettings(available_now=True, buckets=1, checkpoint="ck")
    (running,) = SparkRun(spark, SCRIPT, choices).run()
    assert running.tally.batches >= 2
    (job,) = read_script(f"{STREAMS} {QUERY}")
    expected = pairs(pa.Table.from_batches(PulledExecution(job.plan).batches()))
    assert expected
    assert pairs(pa_parquet.read_table("found")) == expected
    SparkRun(spark, SCRIPT, choices).run()
    assert pairs(pa_parquet.read_table("found")) == expected


def test_the_files_of_a_workload_are_written_once_and_in_order() -> None:
    options = {"source": "lab:nexmark", "stream": "bid", "rows": "1000", "time": "ts", "maxFilesPerTrigger": "1"}
    first = as_files("lab:nexmark", options)
    folder = Path(first["path"])
    made = {path: path.stat().st_mtime_ns for path in sorted(folder.iterdir())}
    assert len(made) == PIECES
    assert sorted(made.values()) == list(made.values())
    assert as_files("lab:nexmark", options) == first
    assert {path: path.stat().st_mtime_ns for path in made} == made
    assert pa.concat_tables(pa_parquet.read_table(path) for path in made).equals(nexmark(1000)["bid"])
    assert {key: first[key] for key in first if key != "path"} == {
        "source": "parquet", "time": "ts", "maxFilesPerTrigger": "1",
    }  # fmt: skip
    assert as_files("lab:nexmark", {**options, "seed": "2"})["path"] != first["path"]
    assert os.stat(folder.parent).st_mode & 0o077 == 0
