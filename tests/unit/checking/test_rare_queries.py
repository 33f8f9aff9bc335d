"""Queries of kinds that random tests draw seldom, once each: the answer is the reference's and DuckDB's."""

from __future__ import annotations

from datetime import datetime, timedelta

import pyarrow as pa
import pytest

import watersmeet as wm

NOON = datetime(2026, 1, 1, 12)
BEFORE = "a.k = b.k AND b.ts <= a.ts AND b.ts >= a.ts - INTERVAL 9 SECONDS"


def rows(first_s: int, keys: list[int]) -> pa.Table:
    """One every two seconds."""
    numbers = range(len(keys))
    return pa.table(
        {
            "id": list(numbers),
            "ts": [NOON + timedelta(seconds=first_s + 2 * i) for i in numbers],
            "k": keys,
            "v": [float((7 * i + first_s) % 5) for i in numbers],
            "items": [list(range(i % 3)) for i in numbers],
        }
    )


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT k, STDDEV_POP(v) AS s, VAR_POP(v) AS p, MODE(v) AS m FROM a [RANGE 9 SECONDS] GROUP BY k",
        "SELECT id, k FROM a [RANGE 9 SECONDS] QUALIFY 2 >= ROW_NUMBER() OVER (PARTITION BY k ORDER BY v, id)",
        "SELECT id, k FROM a [RANGE 9 SECONDS] QUALIFY 2 > RANK() OVER (PARTITION BY k ORDER BY v)",
        "SELECT id, k FROM a [RANGE 9 SECONDS] QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY v, id) % 2 = 0",
        "SELECT a.id, b.id AS two, c.id AS three FROM a [RANGE 9 SECONDS] LEFT JOIN "
        "(b [RANGE 5 SECONDS] LEFT JOIN c [RANGE 4 SECONDS] ON b.k = c.k) ON a.k = b.k",
        "SELECT a.id, b.id AS two, c.id AS three FROM (a LEFT JOIN b ON a.k = b.k), c WHERE c.k = a.k "
        "WINDOW = 5 SECONDS",
        "SELECT a.id, b.id AS two, t.item FROM a LEFT JOIN b ON a.k = b.k, UNNEST(b.items) AS t (item) "
        "WINDOW = 5 SECONDS",
        "SELECT a.id, b.id AS two, t.item FROM a FULL JOIN b ON a.k = b.k, UNNEST(a.items) AS t (item) "
        "WINDOW = 5 SECONDS",
        f"SELECT a.id, b.id AS two, COUNT(*) AS n FROM HOP(a, 2 SECONDS, 6 SECONDS) ASOF JOIN b ON {BEFORE} "
        "GROUP BY a.id, b.id, window_start, window_end",
        f"SELECT a.k, COUNT(*) AS n FROM SESSION(a, 3 SECONDS PARTITION BY k) ASOF LEFT JOIN b ON {BEFORE} "
        "GROUP BY a.k, window_start, window_end",
    ],
)
def test_the_check_finds_the_engine_right(sql: str) -> None:
    session = wm.Session()
    session.stream("a", rows(0, [1, 2, 1, 3, 2, 1, 1, 2]), time="ts")
    session.stream("b", rows(1, [2, 1, 1, 2, 3, 4, 1, 2]), time="ts")
    session.stream("c", rows(3, [1, 1, 2, 5, 2, 1]), time="ts")
    query = session.sql(sql)
    report = wm.check(query)
    assert report.equal, str(report)
    assert query.to_arrow().num_rows
