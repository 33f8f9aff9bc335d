"""A stream that begins with what was kept of it and goes on live, on Spark: every row comes once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.spark.toy import TOY, add, taken
from watersmeet.hosts.spark.run import SparkRun
from watersmeet.io.connectors.registry import forget, register
from watersmeet.runtime.run_settings import RunSettings

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
    choices = RunSettings(available_now=True, buckets=2, checkpoint="ck")
    (first,) = SparkRun(spark, STREAM, choices).run()
    add(Path("a"), 0, rows(45, 15))
    (second,) = SparkRun(spark, STREAM, choices).run()
    assert sorted(row["v"] for row in taken(Path("out.db"))) == list(range(60))
    # Ten rows of each are left to the other, and counted.
    assert (first.metrics.left_out_by_stream, second.metrics.left_out_by_stream) == ({"a": 20}, {})


def test_the_partition_of_a_history_holds_nothing_back_and_live_partitions_have_clocks_of_their_own(
    spark: SparkSession,
) -> None:
    k, v, ts = zip(*rows(0, 40), strict=True)
    pq.write_table(pa.table({"k": k, "v": v, "ts": pa.array(ts, pa.timestamp("us"))}), "kept.parquet")
    add(Path("a"), 0, [(0, n, SECOND * (4_000 + n)) for n in range(20)])
    add(Path("a"), 1, rows(30, 40))
    counts = STREAM.replace("SELECT v FROM a", "SELECT k, count(*) AS n FROM a [RANGE 1 SECOND] GROUP BY k")
    counts = counts.replace("'15'", "'20'")
    (one,) = SparkRun(spark, counts, RunSettings(available_now=True, buckets=2, checkpoint="ck")).run()
    assert (one.metrics.late_rows, one.metrics.held_back_by) == (0, "a (partition live:1)")
    assert one.metrics.watermark_us == 9 * SECOND


def test_records_and_times_that_cannot_be_read_are_left_out_on_either_side_of_the_handover(spark: SparkSession) -> None:
    k, v, ts = zip(*rows(0, 20), strict=True)
    times = pa.array([*ts[:5], None, *ts[6:]], pa.timestamp("us"))
    pq.write_table(pa.table({"k": k, "v": v, "ts": times}), "kept.parquet")
    add(Path("a"), 0, [*rows(30, 5), "what?", (0, 99, None), (0, 98, 2**62), *rows(35, 5)])
    for number, select in enumerate(("SELECT v FROM a", "SELECT k, count(*) AS n FROM a [RANGE 1 SECOND] GROUP BY k")):
        script = STREAM.replace("time='ts',", "time='ts', time_unit='us', on_bad='skip',")
        script = script.replace("ts TIMESTAMP", "ts BIGINT").replace("SELECT v FROM a", select)
        (one,) = SparkRun(spark, script, RunSettings(available_now=True, buckets=2, checkpoint=f"ck{number}")).run()
        assert one.metrics.bad_by_reason == {"a: not JSON": 1, "a: null time": 2, "a: unreadable time": 1}
    found = [row["v"] for row in taken(Path("out.db")) if "v" in row]
    assert sorted(found) == [*range(5), *range(6, 20), *range(30, 40)]
