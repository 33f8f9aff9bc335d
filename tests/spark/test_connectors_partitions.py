"""Partitions of a connector on Spark have clocks of their own: none of a slow one is late because another is ahead."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadMaxRows

import watersmeet as wm
from tests.spark.test_connectors import SECOND, bag, pairs, parts, reader
from tests.spark.toy import TOY, add, taken
from watersmeet.hosts.spark.progress.running_query import RunningQuery
from watersmeet.hosts.spark.run import SparkRun
from watersmeet.io.connectors.registry import forget, register
from watersmeet.runtime.run_settings import RunSettings

HOUR = 3_600 * SECOND
Row = tuple[int, int, int | None]


@pytest.fixture(autouse=True)
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    register(TOY)
    yield
    forget("toy")


def test_an_offset_tells_which_partitions_a_batch_leaves_for_later(tmp_path):
    for partition, count in ((0, 5), (1, 2), (2, 0)):
        add(tmp_path / "a", partition, [(0, n, n) for n in range(count)])
    read = reader(tmp_path / "a", limit=3)
    begin = read.initialOffset()
    first = read.latestOffset(begin, ReadMaxRows(3))
    assert parts(read, begin, first) == [("0", 0, 3)]
    assert [(one.waiting, one.is_alone) for one in read.partitions(begin, first)] == [(("0", "1"), False)]
    add(tmp_path / "a", 2, [(0, 9, 9)])
    again = reader(tmp_path / "a", limit=3)  # a repeat waits for the same partitions, whatever has come since
    assert again.partitions(begin, json.loads(json.dumps(first))) == read.partitions(begin, first)
    offset = first
    told = []
    while (reached := read.latestOffset(offset, ReadMaxRows(3))) != offset:
        told += [one.waiting for one in read.partitions(offset, reached)]
        offset = reached
    assert told == [("1", "2"), None, (), None]  # two batches with two parts each, of which one tells


SCRIPT = """
CREATE STREAM a WITH (source='toy', folder='a', time='ts', lateness='1 second'{limit});
CREATE STREAM b WITH (source='toy', folder='b', time='ts', lateness='1 second');
CREATE SINK answers WITH (sink='toy', file='out.db') AS {select};
"""
TIMED = "SELECT a.k, a.v AS av, b.v AS bv, event_time() AS at FROM a, b WHERE a.k = b.k WINDOW = 2 SECONDS"
COUNTS = "SELECT k, count(*) AS n FROM a [RANGE 5 SECONDS] GROUP BY k"


def rows_at(begin_us: int, first: int, count: int) -> list[Row]:
    return [(n % 3, n, begin_us + SECOND * n) for n in range(first, first + count)]


def unequal(name: str, first: int = 0, count: int = 50) -> list[Row]:
    """Rows of three partitions that are hours apart, of which the first that is read is the furthest ahead."""
    found: list[Row] = []
    for partition, begin_us in ((0, 9 * HOUR), (1, HOUR), (2, 4 * HOUR)):
        some = rows_at(begin_us, first, count)
        add(Path(name), partition, some)
        found += some
    return found


def on_spark(spark: SparkSession, script: str) -> RunningQuery:
    (one,) = SparkRun(spark, script, RunSettings(available_now=True, buckets=2, checkpoint="ck")).run()
    return one


def test_no_row_of_a_slow_partition_is_late_because_others_are_hours_ahead(spark):
    """Neither in one batch nor in several, and a partition that is added meanwhile counts from its first row. Answers
    have event times: Spark refuses rows behind a watermark of its own, which no partition that is ahead may move."""
    a, b = unequal("a"), unequal("b")
    first = on_spark(spark, SCRIPT.format(select=TIMED, limit=""))
    assert (first.metrics.late_rows, first.metrics.held_back_by) == (0, "a (partition 1)")
    assert first.metrics.watermark_us == HOUR + 48 * SECOND
    added = rows_at(HOUR, 60, 5)
    for name in ("a", "b"):
        add(Path(name), 7, added)
    a, b = [*a, *unequal("a", 50), *added], [*b, *unequal("b", 50), *added]
    second = on_spark(spark, SCRIPT.format(select=TIMED, limit=", max_rows_per_batch='60'"))
    assert (second.metrics.late_rows, second.metrics.held_back_by) == (0, "a (partition 7)")
    assert second.metrics.watermark_us == HOUR + 63 * SECOND
    found = [{name: one[name] for name in ("k", "av", "bv")} for one in taken(Path("out.db"))]
    assert bag(found) == pairs(a, b)


def test_what_is_late_in_a_partition_is_what_is_late_in_process(spark):
    """Each partition goes back by ten seconds, which is too far in the partition that all wait for, and in no other."""
    for partition, begin_us in ((0, HOUR), (1, 0)):
        add(Path("a"), partition, rows_at(begin_us, 0, 30))
        add(Path("b"), partition, rows_at(begin_us, 0, 1))
    script = SCRIPT.format(select=COUNTS, limit="")
    there = wm.Session()
    there.sql(";".join(script.split(";")[:1]))
    sink = {"sink": "toy", "file": "there.db"}
    on_spark(spark, script)
    there.sql(COUNTS).start(checkpoint="there", sink=sink, available_now=True).wait()
    for partition, begin_us in ((0, HOUR), (1, 0)):
        add(Path("a"), partition, [*rows_at(begin_us, 18, 2), *rows_at(begin_us, 31, 1)])
    ends = RunSettings(available_now=True, buckets=2, checkpoint="ck", flush=True)
    (second,) = SparkRun(spark, script, ends).run()
    query = there.sql(COUNTS)
    query.start(checkpoint="there", sink=sink, available_now=True, flush=True).wait()
    assert second.metrics.late_by_stream == query.metrics()["late_by_stream"] == {"a": 2}
    assert bag(taken(Path("out.db"))) == bag(taken(Path("there.db")))


def test_moments_of_arrival_wait_for_no_partition(spark):
    unequal("a", count=20)
    script = """
        CREATE STREAM a WITH (source='toy', folder='a', time='arrival', max_rows_per_batch='40');
        CREATE SINK answers WITH (sink='toy', file='out.db') AS
            SELECT k, count(*) AS n FROM a [RANGE 1 HOUR] GROUP BY k;
    """
    one = on_spark(spark, script)
    assert (one.metrics.rows_in, one.metrics.late_rows, one.metrics.held_back_by) == (60, 0, "a")
