"""Queries in the place of values, and subqueries that are joined with rows left over."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import watersmeet as wm
from tests.plain_sql import said_by_duckdb

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


# ---- IN with a query, as SQL has it with NULLs ----------------------------------------------------------------------


def with_nulls(*, inside: list[int | None]) -> wm.Session:
    made = wm.Session()
    keys = pa.array([None, 1, 2], pa.int64())
    made.stream("a", pa.table({"k": keys, "ts": pa.array([EPOCH] * 3, pa.timestamp("us"))}), time="ts")
    rows = {"k": pa.array(inside, pa.int64()), "ts": pa.array([EPOCH] * len(inside), pa.timestamp("us"))}
    made.stream("b", pa.table(rows), time="ts")
    return made


FOUND = "a.k IN (SELECT b.k FROM b [RANGE 1 SECOND])"


@pytest.mark.parametrize(
    ("inside", "expected"),
    [([1, None], [None, True, None]), ([1], [None, True, False]), ([], [False, False, False]), ([None], [None] * 3)],
)
def test_in_with_a_query_is_not_known_where_a_null_may_be_what_is_looked_for(
    inside: list[int | None], expected: list[bool | None]
) -> None:
    query = with_nulls(inside=inside).sql(f"SELECT a.k, {FOUND} AS there, NOT {FOUND} AS away FROM a [RANGE 1 SECOND]")
    rows = {row["k"]: row for row in query.final().to_pylist()}
    assert [rows[k]["there"] for k in (None, 1, 2)] == expected
    assert [rows[k]["away"] for k in (None, 1, 2)] == [None if one is None else not one for one in expected]
    assert wm.check(query).equal


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        (f"CASE WHEN {FOUND} THEN a.k = 1 ELSE a.k = 2 END", [1, 2]),
        (f"IF({FOUND}, 'in', 'out') = 'in'", [1]),
        ("a.k = 2 OR a.k NOT IN (SELECT b.k FROM b [RANGE 1 SECOND] WHERE b.k IS NOT NULL)", [2]),
        ("a.k = 2 OR a.k NOT IN (SELECT b.k FROM b [RANGE 1 SECOND])", [2]),
        (f"({FOUND}) IS NULL", [2, None]),
    ],
)
def test_in_with_a_query_stands_inside_of_other_conditions(condition: str, kept: list[int | None]) -> None:
    query = with_nulls(inside=[1, None]).sql(f"SELECT DISTINCT a.k FROM a [RANGE 1 SECOND] WHERE {condition}")
    assert sorted(query.final()["k"].to_pylist(), key=lambda k: k or 9) == kept
    assert wm.check(query).equal


@pytest.mark.parametrize("count", ["COUNT_IF(b.x > 1)", "APPROX_COUNT_DISTINCT(b.x)", "spread(b.x)"])
def test_aggregates_under_other_names_and_of_ones_own_are_values(count: str) -> None:
    made = session()
    made.aggregate("spread", lambda x: pc.subtract(pc.max(x), pc.min(x)), ["BIGINT"], "BIGINT")
    query = made.sql(f"SELECT a.k, (SELECT {count} FROM b [RANGE 9 SECONDS]) AS n FROM a [RANGE 9 SECONDS]")
    assert {row["n"] for row in query.final().to_pylist()} == {3 if "DISTINCT" in count else 2}
    among = made.sql(f"SELECT a.k FROM a [RANGE 9 SECONDS] WHERE a.x IN (SELECT {count} FROM b [RANGE 9 SECONDS])")
    assert among.final()["k"].to_pylist() == [3 if "DISTINCT" in count else 2]


@pytest.mark.parametrize("counted", ["COUNT(*)", "COUNT_IF(b.x > 1)"])
def test_a_query_that_is_one_row_exists_whatever_it_finds(counted: str) -> None:
    some = f"SELECT {counted} FROM b [RANGE 9 SECONDS] WHERE b.x > 1000"
    query = session().sql(f"SELECT a.k FROM a [RANGE 9 SECONDS] WHERE EXISTS ({some})")
    assert query.final()["k"].to_pylist() == [1, 2, 3]


# ---- queries that see the rows around them, from any depth ----------------------------------------------------------

TIMES = pa.array([EPOCH + timedelta(seconds=second) for second in range(6)], pa.timestamp("us"))
ROWS = {
    "a": pa.table({"k": [1, 2, None, 1, 2, 3], "x": [5, 1, 2, None, 7, 9], "ts": TIMES}),
    "b": pa.table({"k": [1, 1, 2, None, 3, 2], "x": [4, 6, 1, 5, None, 2], "ts": TIMES}),
    "c": pa.table({"k": [1, 2, 3, None, 2, 1], "x": [6, 2, None, 1, 5, 4], "ts": TIMES}),
}
DEEP = """EXISTS (SELECT 1 FROM c [UNBOUNDED] WHERE c.k = b.k AND c.x > a.x
                 AND NOT EXISTS (SELECT 1 FROM b [UNBOUNDED] AS d WHERE d.x = c.x OR d.k = a.x))"""
SEEN = {
    "inside": "EXISTS (SELECT 1 FROM b [UNBOUNDED] WHERE b.k = a.k AND b.x IN (SELECT x FROM c [UNBOUNDED]))",
    "two levels up": """EXISTS (SELECT 1 FROM b [UNBOUNDED]
                                WHERE b.k = a.k AND b.x IN (SELECT x FROM c [UNBOUNDED] WHERE c.k = a.k))""",
    "division": """NOT EXISTS (SELECT 1 FROM b [UNBOUNDED] WHERE b.k = a.k
                               AND NOT EXISTS (SELECT 1 FROM c [UNBOUNDED] WHERE c.k = b.k AND c.x < a.x))""",
    "not in": """a.x NOT IN (SELECT x FROM b [UNBOUNDED] WHERE b.k = a.k
                             AND b.x > (SELECT MIN(c.x) FROM c [UNBOUNDED] WHERE c.k = a.k))""",
    "not in groups": "a.x NOT IN (SELECT x FROM b [UNBOUNDED] WHERE k > 0 GROUP BY x HAVING COUNT(*) < 2)",
    "not in groups with NULL": "a.x NOT IN (SELECT x FROM b [UNBOUNDED] GROUP BY x HAVING COUNT(*) < 2)",
    "not in none": "a.x NOT IN (SELECT x FROM b [UNBOUNDED] WHERE k > 7)",
    "one or the other": "EXISTS (SELECT 1 FROM b [UNBOUNDED] WHERE b.k = a.k OR b.x = a.x OR a.x > 8)",
    "neither": "NOT EXISTS (SELECT 1 FROM b [UNBOUNDED] WHERE (b.k = a.x OR b.x = a.k OR b.k IS NULL) AND b.x < 5)",
    "three levels": f"a.k < (SELECT SUM(b.x) FROM b [UNBOUNDED] WHERE b.k = a.k AND {DEEP})",
    "under or": "a.k = 7 OR NOT EXISTS (SELECT 1 FROM b [UNBOUNDED] WHERE b.x > a.x AND b.k IS NOT NULL)",
    "own name again": "a.k > 100 OR a.x IN (SELECT k FROM a [UNBOUNDED])",
    "another by that name": "a.k > 100 OR a.x IN (SELECT k FROM b [UNBOUNDED] AS a)",
    "groups": """EXISTS (SELECT b.k FROM b [UNBOUNDED] WHERE b.x < a.x GROUP BY b.k HAVING COUNT(*) > 1)""",
    "equal groups": "a.x IN (SELECT b.x FROM b [UNBOUNDED] WHERE b.k = a.k GROUP BY b.x HAVING COUNT(*) > 0)",
    "several columns": "EXISTS (SELECT k, COUNT(*) FROM b [UNBOUNDED] GROUP BY k HAVING COUNT(*) > 9)",
    "one row": "a.x NOT IN (SELECT MAX(b.x) FROM b [UNBOUNDED] WHERE b.k = a.k)",
    "one row under or": "a.k = 3 OR a.x IN (SELECT MAX(b.x) FROM b [UNBOUNDED] WHERE b.k > a.k)",
    "groups under or": "a.k = 3 OR a.k IN (SELECT k FROM b [UNBOUNDED] GROUP BY k HAVING COUNT(*) > 1)",
    "union": "(a.k IN (SELECT k FROM b [UNBOUNDED] UNION SELECT k FROM c [UNBOUNDED] WHERE k > 2)) IS NULL",
    "the least two": """CASE WHEN a.x IN (SELECT x FROM b [UNBOUNDED] ORDER BY x LIMIT 2) THEN a.k > 1
                             ELSE a.k = 1 END""",
    "pairs": "(a.k, a.x + 1) IN (SELECT k, x FROM c [UNBOUNDED])",
    "no pairs": "(a.k, a.x) NOT IN (SELECT k, x FROM b [UNBOUNDED] WHERE k > 1)",
    "a star": "a.k IN (SELECT * FROM (SELECT k FROM b [UNBOUNDED] WHERE k > 1) AS q)",
    "lists": """EXISTS (SELECT 1 FROM b [UNBOUNDED], UNNEST([b.x, b.k]) AS u (e) WHERE e < a.x AND b.k = a.k)""",
    "sums of lists": "9 > (SELECT SUM(e) FROM b [UNBOUNDED], UNNEST([b.x, b.k]) AS u (e) WHERE e < a.x)",
    "lateral": """EXISTS (SELECT 1 FROM b [UNBOUNDED], LATERAL (SELECT b.x + 1 AS y) AS l
                          WHERE b.k = a.k AND l.y > 2)""",
    "a name of another": "EXISTS (SELECT 1 FROM (SELECT k AS z FROM b [UNBOUNDED]) AS a WHERE z = x)",
    "the second": "a.x IN (SELECT b.x FROM b [UNBOUNDED] QUALIFY ROW_NUMBER() OVER (ORDER BY b.x) = 2)",
    "outer join": """EXISTS (SELECT 1 FROM b [UNBOUNDED] LEFT JOIN c [UNBOUNDED] ON b.x = c.x AND c.k = a.k
                             WHERE b.k = a.k AND c.x IS NULL)""",
    "full join": """NOT EXISTS (SELECT 1 FROM b [UNBOUNDED] FULL JOIN c [UNBOUNDED] ON b.x = c.x
                                WHERE b.k = a.k OR c.k = a.k)""",
    "more": "a.x > (SELECT MIN(b.x) FROM b [UNBOUNDED] WHERE b.k > a.k)",
    "of nothing": "0 = (SELECT COUNT(*) FROM b [UNBOUNDED] WHERE b.x < a.x)",
    "with its own": "a.x = (SELECT COUNT(*) + a.x FROM b [UNBOUNDED] WHERE b.k = a.k + 7)",
    "with another": """6 = (SELECT COUNT(*) + (SELECT MAX(c.x) FROM c [UNBOUNDED]) FROM b [UNBOUNDED]
                            WHERE b.k = a.k + 7)""",
    "a constant": "6 = (SELECT MAX(b.x) FROM b [UNBOUNDED] WHERE a.k = 1)",
    "a null": "6 = (SELECT MAX(b.x) FROM b [UNBOUNDED] WHERE a.k IS NULL)",
    "nulls are equal": "5 = (SELECT MAX(b.x) FROM b [UNBOUNDED] WHERE b.k IS NOT DISTINCT FROM a.k)",
    "a value of a value": """0 < (SELECT MAX(x) FROM b [UNBOUNDED]
                                  WHERE b.k = (SELECT MAX(c.k) FROM c [UNBOUNDED] WHERE c.x = a.x))""",
}


def three_streams() -> wm.Session:
    made = wm.Session()
    for name, table in ROWS.items():
        made.stream(name, table, time="ts")
    return made


def same_as_duckdb(sql: str) -> bool:
    query = three_streams().sql(sql)
    expected = said_by_duckdb(sql.replace(" [UNBOUNDED]", ""), ROWS)
    return bag(query.final()) == bag(expected) and bool(wm.check(query).equal)


def bag(table: pa.Table) -> Counter[tuple[object, ...]]:
    return Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))


@pytest.mark.parametrize("condition", SEEN.values(), ids=SEEN.keys())
def test_a_query_sees_rows_around_it_from_any_depth(condition: str) -> None:
    assert same_as_duckdb(f"SELECT DISTINCT a.k, a.x FROM a [UNBOUNDED] WHERE {condition}")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT SUM(a.x) AS s FROM a [UNBOUNDED] WHERE a.x > (SELECT MIN(b.x) FROM b [UNBOUNDED] WHERE b.k = a.k)",
        "SELECT SUM((SELECT MIN(b.x) FROM b [UNBOUNDED] WHERE b.k = a.k)) AS s FROM a [UNBOUNDED]",
        "SELECT a.k, COUNT(*) AS n, (SELECT MAX(b.x) FROM b [UNBOUNDED] WHERE b.k > a.k) AS m FROM a [UNBOUNDED] "
        "GROUP BY a.k",
        "SELECT a.k, COUNT(*) AS n FROM a [UNBOUNDED] GROUP BY a.k HAVING COUNT(*) > (SELECT COUNT(*) FROM b "
        "[UNBOUNDED] WHERE b.k > a.k AND b.x IN (SELECT x FROM c [UNBOUNDED] WHERE c.k < a.k))",
        "SELECT a.k, a.x, (SELECT SUM(a.x + b.x) FROM b [UNBOUNDED] WHERE b.k = a.k) AS m FROM a [UNBOUNDED]",
        f"SELECT a.k, a.x, (SELECT COUNT(*) FROM b [UNBOUNDED] WHERE {DEEP}) AS n FROM a [UNBOUNDED]",
        "SELECT a.k, e, (SELECT COUNT(*) FROM b [UNBOUNDED] WHERE b.x < e + y) AS n FROM a [UNBOUNDED], "
        "UNNEST([a.x, a.k]) AS u (e), LATERAL (SELECT a.x + 1 AS y) AS l",
    ],
)
def test_values_of_the_rows_stand_beside_aggregates_and_in_them(sql: str) -> None:
    assert same_as_duckdb(sql)


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("EXISTS (SELECT 1 FROM b [ROWS 2] WHERE b.k = a.k QUALIFY ROW_NUMBER() OVER (ORDER BY b.x) = 2)", "OVER"),
        ("EXISTS (SELECT b.x FROM b [ROWS 2] WHERE b.k = a.k GROUP BY ROLLUP (b.x))", "GROUPING SETS"),
        ("EXISTS (SELECT MAX(b.x) FROM b [ROWS 2] WHERE b.k = a.k HAVING COUNT(*) > 1)", "one row"),
        ("1 = (SELECT MAX(b.x) OVER () FROM b [ROWS 2])", "one row"),
        ("a.k = 1 OR a.k IN (SELECT k, x FROM b [ROWS 2])", "are conditions of WHERE"),
        ("EXISTS (SELECT 1 FROM b [ROWS 2] FULL JOIN c [ROWS 2] ON b.k = c.k AND b.x = a.x)", "FULL JOIN"),
    ],
)
def test_what_is_made_of_all_rows_of_a_query_is_refused_where_it_would_be_made_for_each(
    condition: str, words: str
) -> None:
    with pytest.raises(wm.UnsupportedError, match=words):
        three_streams().sql(f"SELECT DISTINCT a.k FROM a [ROWS 1] WHERE {condition}")


def test_groups_are_looked_for_in_a_query() -> None:
    groups = "SELECT a.k, COUNT(*) AS n FROM a [ROWS 2] GROUP BY a.k"
    having = session().sql(f"{groups} HAVING COUNT(*) IN (SELECT b.k FROM b [ROWS 3])")
    assert having.final().to_pylist() == [{"k": 2, "n": 1}, {"k": 3, "n": 1}]
    around = session().sql(f"SELECT g.k FROM ({groups}) AS g WHERE g.n IN (SELECT b.k FROM b [ROWS 3])")
    assert around.final()["k"].to_pylist() == [2, 3]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT a.k, SUM(a.x) AS s FROM a [ROWS 3] GROUP BY a.k HAVING SUM(a.x) >= (SELECT AVG(x) FROM b [ROWS 2])",
        "SELECT k, COUNT(*) FROM a [ROWS 4] GROUP BY k HAVING k + COUNT(*) > (SELECT MIN(k) FROM b [ROWS 2]) OR k = 1",
        "SELECT DISTINCT COUNT(*) AS n FROM a [ROWS 4] GROUP BY k HAVING EXISTS (SELECT 1 FROM b [ROWS 2] WHERE k > 2)",
        "SELECT k, MAX(x) AS m FROM a [ROWS 4] GROUP BY k HAVING MAX(x) > (SELECT COUNT(*) FROM b [ROWS 2]) "
        "ORDER BY m, k LIMIT 2",
    ],
)
def test_groups_are_compared_with_queries_at_every_instant(query: str) -> None:
    report = wm.check(session().sql(query))
    assert report.equal, str(report)
