"""What a query whose answer changes counts: rows that left their windows, and the time its operators took."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.runners import Source, local_query
from watersmeet.hosts.local.pulled_execution import PulledExecution
from watersmeet.model.time import FOREVER_US
from watersmeet.operators.continuous.departures import Departures
from watersmeet.operators.continuous.lives import Lives
from watersmeet.operators.contract import Rows
from watersmeet.session import Session

on_spark = pytest.mark.skipif(find_spec("pyspark") is None, reason="pyspark is not there")

SECOND = 1_000_000


def streams(sql: str = " a [ b [", rows: int = 50, lateness: str = "0 seconds") -> list[Source]:
    """Those of two streams that a query reads: a row of one every second, of the other every two."""
    made = []
    for name, every in (("a", SECOND), ("b", 2 * SECOND)):
        at = pa.array(np.arange(rows) * every, pa.timestamp("us"))
        made.append(Source(name, pa.table({"k": np.arange(rows) % 3, "ts": at}), lateness=lateness))
    return [one for one in made if re.search(rf" {one.name}(,| \[| WHERE)", sql)]


def session(rows: int = 50) -> Session:
    made = Session()
    for one in streams(rows=rows):
        made.stream(one.name, one.table, time="ts")
    return made


def on_simulated_spark(sql: str, buckets: int, *, ends: bool, lateness: str = "0 seconds") -> dict[str, Any]:
    from tests.spark.following import followed
    from tests.spark.simulation import Simulation

    sources = streams(sql, lateness=lateness)
    pieces = {one.name: [one.table.slice(0, 7), one.table.slice(7, 30), one.table.slice(37)] for one in sources}
    return followed(Simulation(sql, sources, buckets), pieces, ends=ends).total.as_dict()


# At the end of the input time has gone on for ever: all rows have left windows of time, all but n those of n rows.
EXPIRED = {
    "SELECT k, COUNT(*) AS n FROM a [RANGE 5 SECONDS] GROUP BY k": 50,
    "SELECT k, COUNT(*) AS n FROM a [RANGE 5 SECONDS] WHERE k > 0 GROUP BY k": 50,
    "SELECT DISTINCT k FROM a [NOW]": 50,
    "SELECT k, COUNT(*) AS n FROM a [ROWS 7] GROUP BY k": 43,
    "SELECT k, COUNT(*) AS n FROM a [PARTITION BY k ROWS 2] GROUP BY k": 44,
    "SELECT k, COUNT(*) AS n FROM a [UNBOUNDED] GROUP BY k": 0,
    "SELECT k FROM a [RANGE 4 SECONDS] EXCEPT SELECT k FROM b [RANGE 4 SECONDS]": 100,
    "SELECT a.k, COUNT(*) AS n FROM a [RANGE 5 SECONDS], b [ROWS 4] WHERE a.k = b.k GROUP BY a.k": 96,
    "SELECT k FROM a [RANGE 9 SECONDS] ORDER BY k LIMIT 3": 50,
    "SELECT RSTREAM k FROM a [RANGE 9 SECONDS] EVERY 10 SECONDS": 50,
    "SELECT k, COUNT(*) AS n FROM (SELECT ISTREAM a.k FROM a, b WHERE a.k = b.k WINDOW = 3 SECONDS) [RANGE 1 HOUR] x "
    "GROUP BY k": 100,
}


@pytest.mark.parametrize("sql", EXPIRED)
def test_rows_that_left_their_windows_are_counted_once(sql: str) -> None:
    query = session().sql(sql)
    query.to_arrow(batch_rows=7)
    told = query.metrics()
    assert told["expired_rows"] == EXPIRED[sql]
    assert told["stored_rows"] == told["rows_in"]
    assert told["kernel_seconds"] > 0


@on_spark
@pytest.mark.parametrize("buckets", [1, 3])
@pytest.mark.parametrize("sql", EXPIRED)
def test_buckets_count_what_one_process_counts(sql: str, buckets: int) -> None:
    """After the end of the input, when both have answered everything."""
    query = session().sql(sql)
    query.to_arrow()
    ours, theirs = query.metrics(), on_simulated_spark(sql, buckets, ends=True)
    for name in ("rows_in", "late_rows", "stored_rows", "expired_rows", "results", "kept_rows", "plan_switches"):
        assert theirs[name] == ours[name], name
    assert theirs["expired_rows"] == EXPIRED[sql]
    assert theirs["kernel_seconds"] > 0
    assert theirs["cache_hits"] + theirs["cache_misses"] > 0
    assert "waiting_by_stream" not in theirs


@on_spark
@pytest.mark.parametrize("buckets", [1, 3])
def test_rows_that_wait_and_rows_in_windows_are_told_while_a_query_runs(buckets: int) -> None:
    """The newest row of 49 s moves the watermark to 46 s: what came since waits, 41 s and later is in the window."""
    sql = "SELECT k, COUNT(*) AS n FROM a [RANGE 5 SECONDS] GROUP BY k"
    told = on_simulated_spark(sql, buckets, ends=False, lateness="3 seconds")
    assert told["waiting_by_stream"] == {"a": 4}
    assert told["waiting_until_us"] == 49 * SECOND
    assert told["stored_rows"] == 50
    assert told["stored_rows"] - told["expired_rows"] == 9
    assert told["kept_rows"] == 9 + 3, "of all buckets, with the three groups, although the last batch had no rows"
    assert 0 < told["state_bytes"] < 10_000
    assert told["watermark_us"] == 46 * SECOND


def test_rows_that_wait_in_one_process_are_among_the_rows_kept() -> None:
    (one,) = streams(" a [", lateness="3 seconds")
    run = PulledExecution(
        local_query("SELECT k, COUNT(*) AS n FROM a [RANGE 5 SECONDS] GROUP BY k", [one]).plan, batch_rows=5
    )
    seen = []
    run.on_progress = lambda metrics: seen.append(replace(metrics))
    for _ in run.batches():
        pass
    steps = [told for told in seen if told.rows_in and told.watermark_us < FOREVER_US]
    assert len(steps) >= 10
    for told in steps:
        groups = min(max(told.watermark_us // SECOND, 0), 3)
        assert told.kept_rows == told.stored_rows - told.expired_rows + groups
        assert told.state_bytes > 0
    assert max(told.kept_rows for told in steps) >= 4 + 5 + 3


@pytest.mark.parametrize(
    ("sql", "beside"),
    [
        ("SELECT a.k FROM a, b WHERE a.k = b.k WINDOW = 5 SECONDS", 0),
        ("SELECT a.k FROM a [RANGE 5 SECONDS] LEFT JOIN b [RANGE 5 SECONDS] ON a.k = b.k + 9", 1),
        ("SELECT a.k FROM DEDUPLICATE(a, 1 HOUR PARTITION BY k) AS a, b WHERE a.k = b.k WINDOW = 5 SECONDS", 1),
        ("SELECT a.k, COUNT(*) AS n FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS] WHERE a.k = b.k GROUP BY a.k", 1),
    ],
)
def test_rows_in_the_windows_of_a_join_are_a_part_of_the_rows_kept(sql: str, beside: int) -> None:
    """All of them in a join and nothing else; other queries keep more than that."""
    made = Session()
    for name in "ab":
        made.stream(name, schema={"k": "BIGINT", "ts": "TIMESTAMP"}, time="ts", lateness="3 seconds")
    with made.sql(sql).start() as run:
        for name in "ab":
            run.push(name, [{"k": i % 3, "ts": f"2026-01-01 12:00:{i:02d}"} for i in range(30)])
        told = run.metrics()
        run.stop()
    in_windows = sum(told["window_rows_by_input"].values())
    assert told["window_rows"] == in_windows > 0
    assert (told["kept_rows"] > in_windows) == bool(beside), told


@pytest.mark.parametrize("pipeline", ["ita", "tpa", "nta"])
def test_every_pipeline_counts_alike(pipeline: str) -> None:
    sql = f"SELECT k, COUNT(*) AS n FROM a [RANGE 5 SECONDS] GROUP BY k OPTIONS (pipeline = '{pipeline}')"
    query = session().sql(sql)
    query.to_arrow(batch_rows=7)
    assert query.metrics()["expired_rows"] == 50
    assert query.metrics()["kernel_seconds"] > 0


def test_rows_are_counted_as_time_goes_on() -> None:
    query = session().sql("SELECT k, COUNT(*) AS n FROM a [RANGE 5 SECONDS] GROUP BY k")
    seen = []
    for _ in query.batches(batch_rows=10):
        seen.append(query.metrics()["expired_rows"])
    assert seen == sorted(seen)
    assert 0 < seen[len(seen) // 2] < 50


def test_rows_that_do_not_leave_in_turn_are_counted_when_they_leave() -> None:
    departures = Departures(announced=False, in_turn=False)
    for deaths in ([9, 2, 5], [4, 30], [1]):
        at = np.array(deaths)
        rows = Rows(pa.record_batch({"x": at}), at)
        departures.add(Lives(rows, at, at))
    counted = []
    for until in (1, 2, 5, 10, 31):
        departures.count(until)
        counted.append(departures.expired_rows)
    assert counted == [0, 1, 3, 5, 6]
