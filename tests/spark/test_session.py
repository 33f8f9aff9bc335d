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


def test_windows_of_the_calendar_and_gaps_are_those_of_one_process(spark: SparkSession) -> None:
    hours = pa.array([n * 5 * 3_600_000_000 + 1_711_700_000_000_000 for n in (0, 1, 2, 9, 10, 200)])
    rows = pa.table({"k": [1, 2, 1, 2, 1, 1], "ts": hours.cast(pa.timestamp("us", "UTC"))})
    answers = []
    for session in (wm.Session(timezone="Europe/Berlin"), wm.Session(spark, buckets=2, timezone="Europe/Berlin")):
        session.stream("a", rows, time="ts")
        answers.append(
            [
                sorted(map(str, session.sql(text).to_arrow().to_pylist()))
                for text in (
                    "SELECT k, window_start, COUNT(*) AS n FROM HOP(a, 1 DAY, 1 WEEK) GROUP BY k, window_start",
                    "SELECT k, window_end, COUNT(*) AS n FROM CUMULATE(a, 6 HOURS, 24 HOURS) GROUP BY k, window_end",
                    "SELECT k, ts, ts + k * INTERVAL 1 MONTH AS later FROM GAP_FILL(a, ts, 10 HOURS PARTITION BY k)",
                )
            ]
        )
    assert answers[0] == answers[1]
    assert [len(rows) for rows in answers[0]] == [25, 16, 106]
