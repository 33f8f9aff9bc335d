"""Queries in the place of values, and subqueries that are joined with rows left over."""

from __future__ import annotations

from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc
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


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        (
            "EXISTS (SELECT 1 FROM b [ROWS 1] WHERE EXISTS (SELECT 1 FROM c [ROWS 1] WHERE c.k = b.k))",
            "inside of another",
        ),
        ("a.k IN (SELECT b.k FROM b [ROWS 1] WHERE b.k IN (SELECT c.k FROM c [ROWS 1]))", "inside of another"),
    ],
)
def test_queries_in_conditions_do_not_nest(condition: str, words: str) -> None:
    with pytest.raises(wm.UnsupportedError, match=words):
        session().sql(f"SELECT DISTINCT a.k FROM a [ROWS 1] WHERE {condition}")


def test_groups_are_not_looked_for_in_a_query() -> None:
    groups = "SELECT a.k, COUNT(*) AS n FROM a [ROWS 2] GROUP BY a.k"
    with pytest.raises(wm.UnsupportedError, match="values of groups"):
        session().sql(f"{groups} HAVING COUNT(*) IN (SELECT b.k FROM b [ROWS 1])")
    around = session().sql(f"SELECT g.k FROM ({groups}) AS g WHERE g.n IN (SELECT b.k FROM b [ROWS 3])")
    assert around.final()["k"].to_pylist() == [2, 3]
