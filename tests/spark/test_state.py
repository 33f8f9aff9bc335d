"""A checkpoint tells what its query remembers."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.spark.test_run import SECOND, STREAMS, add, rows_of, run
from watersmeet.errors import SourceError
from watersmeet.spark.state import SUMMARY, read_state

JOIN = "SELECT a.k FROM a, b WHERE a.k = b.k WINDOW = 5 SECONDS"


@pytest.fixture
def checkpoint(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        for number in range(2):
            add(tmp_path / name, number, rows_of(20 * number, 20))
    run(spark, f"{STREAMS} CREATE SINK s WITH (sink='noop') AS {JOIN}", checkpoint="ck")
    return tmp_path / "ck"


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
    assert "input 1" in text


def test_a_folder_that_is_no_checkpoint_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="is not the checkpoint of a query with state"):
        read_state(spark, str(tmp_path))
