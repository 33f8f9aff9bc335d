"""A checkpoint tells what its query remembers."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from tests.spark.test_run import SECOND, STREAMS, arrive, rows_of, run
from watersmeet.cli.commands import app
from watersmeet.errors import SourceError
from watersmeet.hosts.spark.checkpoints.state import FORMAT, SUMMARY, checkpoints_in, read_state, read_state_files
from watersmeet.hosts.spark.checkpoints.state_files import NotReadableError

JOIN = "SELECT a.k FROM a, b WHERE a.k = b.k WINDOW = 5 SECONDS"


@pytest.fixture(scope="module", params=["1", pytest.param("2", marks=pytest.mark.soak)], ids=["format 1", "format 2"])
def checkpoint(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Path]:
    """A checkpoint in either format of Spark's, and a session that is set to the other one."""
    folder = tmp_path_factory.mktemp("state")
    for number in range(2):
        arrive(folder, number)
    before = spark.conf.get(FORMAT)
    try:
        spark.conf.set(FORMAT, request.param)
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            run(spark, f"{STREAMS} CREATE SINK s WITH (sink='noop') AS {JOIN}", checkpoint="ck")
        spark.conf.set(FORMAT, "2" if request.param == "1" else "1")
        yield folder / "ck"
    finally:
        spark.conf.set(FORMAT, before)


def test_the_rows_of_the_windows_are_there(spark: SparkSession, checkpoint: Path) -> None:
    state = read_state(spark, str(checkpoint), batch=0)
    summary = state.summary()
    assert summary.schema == SUMMARY
    assert state.fingerprint is not None
    for number in (0, 1):
        rows = state.rows(number)
        assert rows.column_names == ["k", "ts"]
        kept, seen = set(rows["ts"].to_pylist()), rows_of(0, 20)["ts"].to_pylist()
        assert set(seen[-5:]) <= kept <= set(seen)  # those in reach of what may still come, and no others
        assert len(kept) == rows.num_rows
    assert pa.compute.sum(summary["rows"]).as_py() == state.rows(0).num_rows + state.rows(1).num_rows
    assert pa.compute.min(summary["oldest_us"]).as_py() >= 1000 * SECOND
    assert pa.compute.max(summary["newest_us"]).as_py() == 1019 * SECOND


def test_the_last_state_is_the_default_and_reads_well(spark: SparkSession, checkpoint: Path) -> None:
    state = read_state(spark, str(checkpoint))
    assert all(1018 * SECOND <= bucket.manifest.complete_until <= 1039 * SECOND for bucket in state.buckets)
    text = state.describe(rows=1)
    assert "2 buckets" in text
    assert "version 2, complete until 1970-01-01 00:1" in text
    assert "\n  b  " in text
    assert "\nb: k, ts\n" in text
    assert "input" not in text


@pytest.mark.parametrize("batch", [0, None])
def test_its_files_say_the_same_without_spark(spark: SparkSession, checkpoint: Path, batch: int | None) -> None:
    if any((checkpoint / "state").glob("*/[0-9]*/[0-9]*_*")):  # format 2, which only Spark reads
        with pytest.raises(NotReadableError, match="no snapshot that can be read"):
            read_state_files(str(checkpoint), batch)
        return
    read = read_state_files(str(checkpoint), batch)
    assert read == read_state(spark, str(checkpoint), batch)
    assert read.summary()["rows"].to_pylist()


def test_what_its_files_cannot_tell_is_said(checkpoint: Path, tmp_path: Path) -> None:
    with pytest.raises(NotReadableError, match="batch 99 is not among those that are kept, 0 to"):
        read_state_files(str(checkpoint), 99)
    with pytest.raises(NotReadableError, match="not lie on this machine"):
        read_state_files("s3a://bucket/ck")
    damaged = shutil.copytree(checkpoint, tmp_path / "ck")
    for file in (damaged / "state").glob("*/[0-9]*/*.zip"):
        file.write_bytes(b"damaged")
    with pytest.raises(NotReadableError):
        read_state_files(str(damaged))


def test_before_the_first_batch_has_ended_that_is_said_and_spark_is_not_asked(checkpoint: Path, tmp_path: Path) -> None:
    young = shutil.copytree(checkpoint, tmp_path / "ck")
    shutil.rmtree(young / "commits")
    with pytest.raises(SourceError, match="has no state yet: no batch has ended"):
        read_state_files(str(young))


def test_a_folder_of_several_queries_shows_each(checkpoint: Path, tmp_path: Path) -> None:
    for name in ("paid", "busy"):
        shutil.copytree(checkpoint, tmp_path / name)
    (tmp_path / "stateless" / "offsets").mkdir(parents=True)
    assert checkpoints_in(str(tmp_path)) == [str(tmp_path / "busy"), str(tmp_path / "paid")]
    assert checkpoints_in(str(tmp_path / "paid")) == [str(tmp_path / "paid")]
    shown = CliRunner().invoke(app, ["state", str(tmp_path)]).output
    assert [name for name in ("busy: ", "paid: ") if f"{tmp_path}/{name}" not in shown] == []


def test_a_folder_that_is_no_checkpoint_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="is not the checkpoint of a query with state"):
        read_state(spark, str(tmp_path))


def test_a_damaged_checkpoint_is_told_in_a_sentence(spark: SparkSession, checkpoint: Path, tmp_path: Path) -> None:
    damaged = shutil.copytree(checkpoint, tmp_path / "ck")
    for file in (damaged / "state").glob("*/[0-9]*/[0-9]*"):
        file.write_bytes(b"damaged")
    with pytest.raises(SourceError, match="cannot be read: ") as failed:
        read_state(spark, str(damaged))
    assert len(str(failed.value).splitlines()) == 1
