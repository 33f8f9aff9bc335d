"""A stream that begins with what was kept of it and goes on live, on Spark: every row comes once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.spark.toy import TOY, add, taken
from watersmeet.hosts.spark.run import Choices, SparkRun
from watersmeet.io.connectors.registry import forget, register

SECOND = 1_000_000
STREAM = """
CREATE STREAM a (k BIGINT, v BIGINT, ts TIMESTAMP) WITH (source='toy', folder='a', time='ts', lateness='1 minute',
    max_rows_per_batch='15', history='parquet', history_path='kept.parquet', handover='1970-01-01 00:00:30');
CREATE SINK out WITH (sink='toy', file='out.db') AS SELECT v FROM a;
"""


@pytest.fixture(autouse=True)
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    register(TOY)
    yield
    forget("toy")


def rows(first: int, count: int) -> list[tuple[int, int, int | None]]:
    return [(n % 3, n, SECOND * n) for n in range(first, first + count)]


def test_rows_before_the_handover_come_from_the_history_and_others_live(spark: SparkSession) -> None:
    k, v, ts = zip(*rows(0, 40), strict=True)
    pq.write_table(pa.table({"k": k, "v": v, "ts": pa.array(ts, pa.timestamp("us"))}), "kept.parquet")
    add(Path("a"), 0, rows(20, 25))
    choices = Choices(available_now=True, buckets=2, checkpoint="ck")
    SparkRun(spark, STREAM, choices).run()
    add(Path("a"), 0, rows(45, 15))
    SparkRun(spark, STREAM, choices).run()
    assert sorted(row["v"] for row in taken(Path("out.db"))) == list(range(60))
