"""What does something that is seldom meant is told: quotients of integers that are compared, windows without effect."""

from __future__ import annotations

import warnings

import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.warning import PlanWarning

SCHEMA = {"k": "BIGINT", "n": "INT", "v": "DOUBLE", "d": "DECIMAL(10, 2)", "ts": "TIMESTAMP"}


def told_of(sql: str) -> list[str]:
    session = wm.Session()
    for name in ("a", "b"):
        session.stream(name, schema=SCHEMA, time="ts")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        session.sql(sql)
    return [str(one.message) for one in caught if isinstance(one.message, PlanWarning)]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT k FROM a WHERE k / 2 = 3",
        "SELECT k FROM a WHERE k / n > 10 AND k / n < 20 AND n / 2 IN (1, 2)",
        "SELECT k FROM a WHERE 1 + k / 60 BETWEEN 1 AND 5",
        "SELECT a.k FROM a, b WHERE a.k / 60 = b.k / 60 WINDOW = 1 MINUTE",
        "SELECT k / 60 AS hour, COUNT(*) AS n FROM a [RANGE 1 HOUR] GROUP BY k / 60",
        "SELECT k / 60 AS hour, COUNT(*) AS n FROM a [RANGE 1 HOUR] GROUP BY hour",
        "SELECT COUNT(*) AS n FROM a [RANGE 1 HOUR] GROUP BY n HAVING SUM(k) / COUNT(*) >= 3",
    ],
)
def test_a_quotient_of_integers_that_is_compared_or_grouped_by_is_told_once(sql: str) -> None:
    (told,) = told_of(sql)
    assert told.startswith("integer_division: ")
    assert "7 / 2 is 3.5 here, and 3 in many other systems" in told


def test_what_to_write_is_told_in_the_words_of_the_query() -> None:
    (told,) = told_of("SELECT k FROM a WHERE k / n = 3")
    assert "a.k // a.n for the whole number, or CAST(a.k AS DOUBLE) / a.n if this is meant" in told
    assert told_of("SELECT k FROM a WHERE a.k // a.n = 3") == []
    assert told_of("SELECT k FROM a WHERE CAST(a.k AS DOUBLE) / a.n = 3") == []


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT k / 2 AS half FROM a",
        "SELECT k FROM a WHERE k / 2 > 0.5",
        "SELECT k FROM a WHERE v / 2 = 3 AND d / 2 > 1",
        "SELECT k FROM a WHERE FLOOR(k / 2) = 3 AND CAST(k / 2 AS INT) = 3 AND ROUND(k / 2) = 3",
        "SELECT AVG(k / 2) AS mean FROM a [RANGE 1 HOUR]",
    ],
)
def test_a_quotient_that_is_only_shown_or_whose_fraction_is_meant_is_not(sql: str) -> None:
    assert told_of(sql) == []


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT k, v FROM a [PARTITION BY k ROWS 1]",
        "SELECT ISTREAM * FROM a [PARTITION BY k, n ROWS 3] WHERE v > 1",
    ],
)
def test_the_last_rows_of_each_key_alone_are_told_to_be_all_rows(sql: str) -> None:
    (told,) = told_of(sql)
    assert told.startswith("unused_window: a [PARTITION BY k")
    assert "every row is given, not only the last of each k" in told


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT k, LAST(v) AS v FROM a [PARTITION BY k ROWS 1] GROUP BY k",
        "SELECT DISTINCT k, v FROM a [PARTITION BY k ROWS 1]",
        "SELECT RSTREAM k, v FROM a [PARTITION BY k ROWS 1] EVERY 1 MINUTE",
        "SELECT a.k FROM a [RANGE 1 MINUTE], b [PARTITION BY k ROWS 1] WHERE a.k = b.k",
        "SELECT k FROM a [RANGE 1 MINUTE]",
        "SELECT COUNT(*) AS n FROM (SELECT DISTINCT k, v FROM a [PARTITION BY k ROWS 1]) AS latest",
    ],
)
def test_windows_that_decide_something_are_not(sql: str) -> None:
    assert told_of(sql) == []


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT k FROM (SELECT k, n FROM a ORDER BY n) AS x",
        "WITH x AS (SELECT k FROM a ORDER BY n DESC) SELECT k FROM x",
        "CREATE VIEW x AS SELECT k FROM a ORDER BY n; SELECT p.k FROM x AS p, x AS q WHERE p.k = q.k WINDOW = 1 MINUTE",
        "(SELECT k FROM a [NOW] ORDER BY n) UNION SELECT k FROM b [NOW]",
        "SELECT k FROM a [NOW] WHERE EXISTS (SELECT 1 FROM b [NOW] WHERE b.k = a.k ORDER BY n)",
        "SELECT k FROM a [NOW] WHERE k IN (SELECT k FROM b [NOW] GROUP BY k ORDER BY k)",
        "SELECT k, (SELECT MAX(n) FROM b [NOW] ORDER BY 1) AS most FROM a [NOW]",
        "SELECT a.k, l.n FROM a [NOW], LATERAL (SELECT n FROM b [NOW] WHERE b.k = a.k ORDER BY n) AS l",
    ],
)
def test_an_order_inside_of_a_query_or_a_view_is_told_once_to_mean_nothing(sql: str) -> None:
    (told,) = told_of(sql)
    assert told.startswith("unused_order: ORDER BY ")
    assert "means nothing in a view or a subquery" in told


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT k FROM a ORDER BY k",
        "SELECT k FROM (SELECT k FROM a [NOW] ORDER BY k LIMIT 3) AS x",
        "SELECT k FROM (SELECT DISTINCT ON (k) k, n FROM a [NOW] ORDER BY k, n) AS x",
        "SELECT RSTREAM k FROM a [NOW] ORDER BY k EVERY 1 MINUTE",
    ],
)
def test_an_order_that_chooses_or_orders_a_whole_answer_is_not(sql: str) -> None:
    assert told_of(sql) == []


def test_what_is_told_to_be_the_last_of_each_key_is() -> None:
    """As an answer that changes, at the end of its input."""
    session = wm.Session()
    rows = [{"id": i % 2, "v": i, "ts": f"2026-01-01 12:00:0{i}"} for i in range(5)]
    session.stream("a", pa.Table.from_pylist(rows), time="ts", time_format="iso")
    last = session.sql("SELECT id, LAST(v) AS v FROM a [PARTITION BY id ROWS 1] GROUP BY id")
    assert sorted((one["id"], one["v"]) for one in last.final().to_pylist()) == [(0, 4), (1, 3)]
    with pytest.warns(PlanWarning, match="unused_window"):
        assert session.sql("SELECT id, v FROM a [PARTITION BY id ROWS 1]").to_arrow().num_rows == 5
