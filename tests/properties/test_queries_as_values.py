"""Queries in the place of values and conditions that depend on the row: at every instant what plain SQL gives."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import EFFORT, PATIENT
from tests.properties.outer_strategies import KEYS, OuterCase
from tests.properties.strategies import one_in, streams
from tests.properties.test_versions import at_instants, grouped_by_duckdb
from tests.runners import by_duckdb, by_local_engine, by_reference, local_query

many = settings(max_examples=30 * EFFORT, deadline=None, suppress_health_check=PATIENT)


AGGREGATES = [
    "MAX(b.id)",
    "AVG(b.j)",
    "MIN(b.j) + 1",
    "SUM(b.j)",
    "COUNT(*)",
    "COUNT(b.j) + 1",
    "COALESCE(SUM(b.j), -1)",
]


COMPARED = ("a.id >= {0}", "a.id >= {0}", "a.id > 0.5 * {0}", "CAST({0} AS DOUBLE) < a.id + 1", "NOT (a.id > {0})",
            "{0} IS NULL", "(a.id > {0} OR a.j > 1)", "a.id >= {0} AND a.j > 0 AND {0} > 0",
            "a.id <= COALESCE({0}, 2)")  # fmt: skip


@st.composite
def inner_queries(draw: st.DrawFn, selected: str) -> tuple[str, str]:
    """A query over s1 that looks at row a, in our words and in DuckDB's."""
    size = draw(st.integers(0, 4))
    keys = draw(st.lists(st.sampled_from(KEYS), min_size=1, max_size=2, unique=True))
    tests = [draw(st.sampled_from([f"b.{key} = a.{key}", f"a.{key} = b.{key}"])) for key in keys]
    tests += draw(one_in(3, ["b.j > 0"], []))
    there = f"b.ts <= moment AND moment <= b.ts + INTERVAL {size} SECONDS"
    ours = f"SELECT {selected} FROM s1 [RANGE {size} SECONDS] AS b WHERE {' AND '.join(tests)}"
    return ours, f"SELECT {selected} FROM s1 AS b WHERE {' AND '.join([*tests, there])}"


@st.composite
def value_cases(draw: st.DrawFn) -> OuterCase:
    size = draw(st.integers(0, 4))
    kind = draw(st.sampled_from(["value", "compared", "exists", "not exists", "in"]))
    aggregate = draw(st.sampled_from(AGGREGATES))
    inner = draw(inner_queries("1" if "exists" in kind else "b.j" if kind == "in" else aggregate))
    if kind in ("value", "compared"):
        having = draw(st.sampled_from(["", "", " HAVING COUNT(*) < 2", " HAVING MIN(b.j) > 0"]))
        inner = (inner[0] + having, inner[1] + having)
    # Some are never true where there is no value, and then no row without one is looked for; others may be.
    compared = draw(st.sampled_from(COMPARED))
    made = []
    for query in inner:
        condition = {
            "value": "TRUE",
            "compared": compared.format(f"({query})"),
            "exists": f"(a.j > 1 OR EXISTS ({query}))",
            "not exists": f"(a.j > 1 OR NOT EXISTS ({query}))",
            "in": f"(a.id > 3 OR a.j IN ({query}))",
        }[kind]
        made.append(("a.id AS id" + (f", ({query}) AS v" if kind == "value" else ""), condition))
    ours = f"SELECT {made[0][0]} FROM s0 [RANGE {size} SECONDS] AS a WHERE {made[0][1]}"
    held = f"a.ts <= moment AND moment <= a.ts + INTERVAL {size} SECONDS"
    theirs = f"SELECT moment, {made[1][0]} FROM instants, s0 AS a WHERE {held} AND {made[1][1]}"
    return OuterCase(ours, theirs, (draw(streams("s0", 6, False)), draw(streams("s1", 6, False))))


@st.composite
def values_beside_aggregates(draw: st.DrawFn) -> OuterCase:
    """Aggregates without GROUP BY, and values that do not depend on whether there are rows to aggregate."""
    size, other = draw(st.integers(0, 4)), draw(st.integers(0, 4))
    aggregate = draw(st.sampled_from(AGGREGATES))
    having = draw(st.sampled_from(["TRUE", "{n} >= {v}", "{n} = 0 OR {v} IS NULL"]))
    where = draw(st.sampled_from(["TRUE", "a.j > 0", "a.j > 99"]))
    held = "{0}.ts <= moment AND moment <= {0}.ts + INTERVAL {1} SECONDS"
    ours = f"(SELECT {aggregate} FROM s1 [RANGE {other} SECONDS] AS b)"
    theirs = f"(SELECT {aggregate} FROM s1 AS b WHERE {held.format('b', other)})"
    sql = f"""SELECT COUNT(*) AS n, SUM(a.j) AS t, COUNT(*) + {ours} AS v FROM s0 [RANGE {size} SECONDS] AS a
              WHERE {where} HAVING {having.format(n="COUNT(*)", v=ours)}"""
    rows = f"FROM s0 AS a WHERE {held.format('a', size)} AND {where}"
    each = f"SELECT moment, (SELECT COUNT(*) {rows}) AS n, (SELECT SUM(a.j) {rows}) AS t, {theirs} AS v FROM instants"
    plain = f"SELECT moment, n, t, n + v FROM ({each} WHERE moment >= (SELECT MIN(ts) FROM s0)) WHERE "
    plain += having.format(n="n", v="v")
    return OuterCase(sql, plain, (draw(streams("s0", 6, False)), draw(streams("s1", 6, False))))


@many
@given(values_beside_aggregates(), st.sampled_from([1, 2, None]))
def test_beside_aggregates_they_are_there_where_no_rows_are(case: OuterCase, rows_per_batch: int | None) -> None:
    log = local_query(case.sql, case.sources, rows_per_batch).to_arrow()
    assert at_instants(log) == grouped_by_duckdb(case)


@many
@given(value_cases(), st.sampled_from([1, 2, None]))
def test_they_are_at_every_instant_what_plain_sql_gives(case: OuterCase, rows_per_batch: int | None) -> None:
    log = local_query(case.sql, case.sources, rows_per_batch).to_arrow()
    assert at_instants(log) == grouped_by_duckdb(case)


@settings(many, max_examples=10 * EFFORT)
@given(value_cases())
def test_the_reference_and_the_check_give_the_same(case: OuterCase) -> None:
    found = by_reference(case.sql, case.sources)
    assert by_local_engine(case.sql, case.sources) == found
    assert by_duckdb(case.sql, case.sources) == found
