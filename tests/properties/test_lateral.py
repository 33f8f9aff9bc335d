"""LATERAL over random rows: as DuckDB answers the same text over whole tables."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.effort import random_cases
from tests.properties.outer_strategies import OuterCase
from tests.properties.test_unnest import cases
from tests.runners import bag_of, by_local_engine, by_reference, local_query

few = random_cases(4)
NEAR = "b.k = a.k AND b.ts BETWEEN a.ts - INTERVAL 1 SECONDS AND a.ts + INTERVAL 1 SECONDS"
GROWING = [
    "SELECT a.id, l.y FROM s0 AS a CROSS JOIN LATERAL (SELECT a.k + 1 AS y WHERE a.j > 0) AS l",
    "SELECT a.id, y, z FROM s0 AS a, LATERAL (SELECT k + 1) AS l (y), LATERAL (SELECT l.y * 2 AS z) AS m WHERE z > 2",
    "SELECT a.id, l.* FROM s0 AS a LEFT JOIN LATERAL (SELECT a.k AS y, 1 AS one WHERE a.j > 0) AS l ON TRUE",
    "SELECT a.id, q.v FROM s0 AS a, LATERAL (SELECT u + 1 AS v FROM UNNEST(a.l) AS t (u) WHERE u > 0) AS q",
    "SELECT a.id, q.v FROM s0 AS a, LATERAL (SELECT unnest(a.l) AS v) AS q",
    "SELECT a.id, q.v FROM s0 AS a LEFT JOIN LATERAL (SELECT unnest(a.l) AS v) AS q ON TRUE",
    f"SELECT a.id, q.y FROM s0 AS a, LATERAL (SELECT b.id AS y FROM s1 AS b WHERE {NEAR}) AS q WHERE a.j > 0",
    f"SELECT a.id, q.y FROM s0 AS a LEFT JOIN LATERAL (SELECT b.id AS y FROM s1 AS b WHERE {NEAR}) AS q ON q.y > 1",
    f"SELECT a.id, q.y FROM s0 AS a LEFT JOIN LATERAL (SELECT 1 AS y FROM s1 AS b WHERE {NEAR}) AS q ON TRUE",
    f"SELECT a.id, q.id AS y FROM s0 AS a, LATERAL (SELECT * FROM s1 AS b WHERE {NEAR}) AS q",
    f"SELECT a.id, z FROM s0 AS a, LATERAL (SELECT a.id * b.id AS z FROM s1 AS b WHERE {NEAR}) AS q",
    f"SELECT a.id, y, b.id AS z FROM s0 AS a, LATERAL (SELECT a.k AS y) AS l JOIN s1 AS b ON b.k = l.y WHERE {NEAR}",
    "SELECT a.id, q.y FROM s0 AS a, LATERAL (SELECT a.j + 1 AS i) AS l, LATERAL (SELECT b.id AS y FROM s1 AS b WHERE "
    f"{NEAR} AND b.j < l.i) AS q",
]
OF_ALL = "FROM {s0} AS a {join} LATERAL (SELECT {what} FROM {s1} AS b WHERE b.k = a.k{rest}) AS q"
WHOLE = [
    ("a.id, q.n, q.m", "CROSS JOIN", "COUNT(*) AS n, MAX(b.id) AS m", "", ""),
    ("a.id, q.y", "LEFT JOIN", "b.id AS y", " ORDER BY b.id DESC LIMIT 2", " ON TRUE"),
    ("a.id, q.y", ",", "b.id AS y", " AND b.j > 0 ORDER BY b.id LIMIT 1 OFFSET 1", ""),
    ("a.id, q.g, q.n", ",", "b.j AS g, COUNT(*) AS n", " GROUP BY b.j", ""),
    ("a.id, q.g", ",", "DISTINCT b.j AS g", "", ""),
    ("a.id, q.n", ",", "COUNT(*) AS n", " AND b.j > a.j", " WHERE q.n > 1"),
]


@pytest.mark.parametrize("text", GROWING)
def test_a_query_sees_the_row_before_it(text: str) -> None:
    @few
    @given(cases(text, text), st.sampled_from([1, None]))
    def holds(case: OuterCase, rows_per_batch: int | None) -> None:
        expected = case.by_duckdb()
        assert by_local_engine(case.sql, case.sources, rows_per_batch) == expected
        assert by_reference(case.sql, case.sources) == expected

    holds()


@pytest.mark.parametrize(("listed", "join", "what", "rest", "on"), WHOLE)
def test_aggregates_groups_and_first_rows_are_those_of_the_row(
    listed: str, join: str, what: str, rest: str, on: str
) -> None:
    text = f"SELECT {listed} {OF_ALL}{on}"
    ours = text.format(s0="s0 [UNBOUNDED]", s1="s1 [UNBOUNDED]", join=join, what=what, rest=rest)
    theirs = text.format(s0="s0", s1="s1", join=join, what=what, rest=rest)

    @few
    @given(cases(ours, theirs))
    def holds(case: OuterCase) -> None:
        assert bag_of(local_query(case.sql, case.sources).final()) == case.by_duckdb()

    holds()
