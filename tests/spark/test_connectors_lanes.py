"""Partitions of a connector on Spark have clocks of their own: none of a slow one is late because another is ahead."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadMaxRows

import watersmeet as wm
from tests.spark.test_connectors import SECOND, arrive, bag, pairs, parts, reader
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


def test_an_offset_tells_which_lanes_a_batch_leaves_for_later(tmp_path):
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
CREATE STREAM a WITH (source='toy', folder='a', time='ts', lateness='1 second'{limit}{more});
CREATE STREAM b WITH (source='toy', folder='b', time='ts', lateness='1 second'{more});
CREATE SINK answers WITH (sink='toy', file='{file}') AS {select};
"""
JOIN = "SELECT a.k, a.v AS av, b.v AS bv FROM a, b WHERE a.k = b.k WINDOW = 2 SECONDS"
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


@pytest.mark.parametrize("limit", ["", ", max_rows_per_batch='40'"])
def test_no_row_of_a_slow_lane_is_late_because_others_are_hours_ahead(spark, limit):
    a, b = unequal("a"), unequal("b")
    script = SCRIPT.format(select=JOIN, file="out.db", limit=limit, more="")
    first = on_spark(spark, script)
    a, b = a + unequal("a", 50), b + unequal("b", 50)
    second = on_spark(spark, script)
    assert (first.metrics.late_rows, second.metrics.late_rows) == (0, 0)
    assert bag(taken(Path("out.db"))) == pairs(a, b)
    assert second.metrics.held_back_by in ("a (partition 1)", "b (partition 1)")
    assert second.metrics.watermark_us == HOUR + 98 * SECOND


def test_answers_with_event_times_may_lie_behind_the_newest_of_all_lanes(spark):
    """Spark refuses rows behind a watermark of its own, which no partition that is ahead may move."""
    a, b = unequal("a"), unequal("b")
    script = SCRIPT.format(select=TIMED, file="out.db", limit=", max_rows_per_batch='40'", more="")
    assert on_spark(spark, script).metrics.late_rows == 0
    found = [{name: one[name] for name in ("k", "av", "bv")} for one in taken(Path("out.db"))]
    assert bag(found) == pairs(a, b)


def test_what_is_late_in_a_lane_is_what_is_late_in_process(spark):
    """Each partition goes back by ten seconds, which is too far in the partition that all wait for, and in no other."""
    for partition, begin_us in ((0, HOUR), (1, 0)):
        add(Path("a"), partition, rows_at(begin_us, 0, 30))
        add(Path("b"), partition, rows_at(begin_us, 0, 1))
    script = SCRIPT.format(select=COUNTS, file="out.db", limit="", more="")
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


def test_a_lane_that_is_added_while_a_query_goes_on_counts_from_its_first_row(spark):
    arrive(0, 20)
    script = SCRIPT.format(select=JOIN, file="out.db", limit="", more="")
    on_spark(spark, script)
    for name in ("a", "b"):
        add(Path(name), 7, rows_at(0, 20, 5))
        add(Path(name), 0, rows_at(HOUR, 0, 5))
        add(Path(name), 1, rows_at(HOUR, 0, 5))
    second = on_spark(spark, script)
    assert (second.metrics.late_rows, second.metrics.held_back_by) == (0, "a (partition 7)")
    every = [*rows_at(0, 0, 25), *rows_at(HOUR, 0, 5), *rows_at(HOUR, 0, 5)]
    assert bag(taken(Path("out.db"))) == pairs(every, every)


def test_moments_of_arrival_wait_for_no_lane(spark):
    unequal("a")
    script = """
        CREATE STREAM a WITH (source='toy', folder='a', time='arrival', max_rows_per_batch='40');
        CREATE SINK answers WITH (sink='toy', file='out.db') AS
            SELECT k, count(*) AS n FROM a [RANGE 1 HOUR] GROUP BY k;
    """
    one = on_spark(spark, script)
    assert (one.metrics.rows_in, one.metrics.late_rows, one.metrics.held_back_by) == (150, 0, "a")
