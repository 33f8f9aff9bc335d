"""The session's own comforts on Spark: values in queries, CREATE and scripts; and what only this process can do."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest
from pyspark.sql import SparkSession

import watersmeet as wm

pytestmark = pytest.mark.spark
ROWS = pa.table({"k": [1, 2, 3], "ts": [datetime(2026, 1, 1, 0, 0, second) for second in range(3)]})


def test_a_session_on_spark_takes_values_and_scripts_but_no_pushes(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pa_parquet.write_table(ROWS, tmp_path / "in" / "rows.parquet")
    session = wm.Session(spark, buckets=1)
    session.stream("s", ROWS, time="ts")
    query = session.sql("SELECT k FROM s WHERE k > :least", {"least": 2})
    assert list(query) == [{"k": 3}]
    with pytest.raises(wm.UnsupportedError, match="pushed into queries of this process only"):
        query.start()
    (outcome,) = session.run(
        """
        CREATE STREAM f (k BIGINT, ts TIMESTAMP) WITH (source = 'parquet', path = :rows, time = 'ts');
        CREATE SINK o WITH (sink = 'parquet', path = :out) AS SELECT k FROM f WHERE k < :most;
        """,
        {"rows": str(tmp_path / "in"), "out": str(tmp_path / "out"), "most": 3},
    )
    assert (outcome.name, outcome.answer, outcome.metrics["results"]) == ("o", None, 2)
    assert sorted(pa_parquet.read_table(tmp_path / "out")["k"].to_pylist()) == [1, 2]
    assert session.catalog.names() == ["s", "f"]
