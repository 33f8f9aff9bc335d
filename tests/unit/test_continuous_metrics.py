"""What a query whose answer changes counts: rows that left their windows, and the time its operators took."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from watersmeet.operators.continuous.departures import Departures
from watersmeet.operators.continuous.lives import Lives
from watersmeet.operators.contract import Rows
from watersmeet.session import Session

SECOND = 1_000_000


def session(rows: int = 50) -> Session:
    made = Session()
    for name, every in (("a", SECOND), ("b", 2 * SECOND)):
        at = pa.array(np.arange(rows) * every, pa.timestamp("us"))
        made.stream(name, pa.table({"k": np.arange(rows) % 3, "ts": at}), time="ts")
    return made


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
