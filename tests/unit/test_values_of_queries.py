"""Queries in the place of values, and subqueries that are joined with rows left over."""

from __future__ import annotations

from datetime import datetime, timedelta

import pyarrow as pa
import pytest

import watersmeet as wm

EPOCH = datetime(1970, 1, 1)


def session() -> wm.Session:
    made = wm.Session()
    times = pa.array([EPOCH + timedelta(seconds=second) for second in (0, 1, 5)], pa.timestamp("us"))
    for name in "abc":
        made.stream(name, pa.table({"k": [1, 2, 3], "x": [1, 2, 3], "ts": times}), time="ts")
    return made


@pytest.mark.parametrize("count", ["COUNT(*)", "COUNT(b.x)", "COUNT(DISTINCT b.x)", "COUNT(*) FILTER (WHERE b.x > 1)"])
def test_a_count_of_nothing_is_zero(count: str) -> None:
    query = session().sql(
        f"SELECT a.k, (SELECT {count} FROM b [RANGE 1 SECOND] WHERE b.k = a.k + 7) AS n FROM a [RANGE 3 SECONDS]"
    )
    assert set(query.to_arrow()["n"].to_pylist()) == {0}
    assert wm.check(query).equal


def test_other_values_of_nothing_are_null_and_so_is_a_count_that_having_leaves_out() -> None:
    query = session().sql(
        "SELECT (SELECT MAX(b.x) FROM b [RANGE 1 SECOND] WHERE b.k = a.k + 7) AS most, "
        "(SELECT COUNT(*) FROM b [RANGE 1 SECOND] WHERE b.k = a.k HAVING COUNT(*) > 1) AS many FROM a [RANGE 3 SECONDS]"
    )
    assert {(row["most"], row["many"]) for row in query.to_arrow().to_pylist()} == {(None, None)}


PAIRS = "SELECT a.k, event_time() AS ts FROM a [ROWS 3], b WHERE a.k = b.k AND ABS(b.ts - a.ts) <= 2 SECONDS"
NEAR = "WINDOW = 2 SECONDS"


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT e.k, c.x FROM ({PAIRS}) AS e LEFT JOIN c ON e.k = c.k {NEAR}",
        f"SELECT c.k FROM c ANTI JOIN ({PAIRS}) AS e ON e.k = c.k {NEAR}",
        f"SELECT e.k, c.x FROM ({PAIRS}) AS e ASOF JOIN c ON e.k = c.k AND c.ts <= e.ts",
        "WITH e AS (SELECT a.k FROM a LEFT JOIN b ON a.k = b.k AND ABS(b.ts - a.ts) <= 2 SECONDS) SELECT k FROM e",
    ],
)
def test_joins_with_rows_left_over_stand_around_subqueries_and_inside_of_them(text: str) -> None:
    query = session().sql(text)
    assert wm.check(query).equal
    assert query.to_arrow().num_rows == (0 if "ANTI" in text else 3)
