"""Outer, semi and anti joins over random trees and data: the reference, plain SQL over whole tables, and the engine."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from tests.effort import random_cases
from tests.properties.outer_strategies import OuterCase, outer_cases, using_cases
from tests.runners import answered, bag, bound_plan, by_local_engine, by_reference, local_query, tables_of
from watersmeet.checking.recompute import DuckDB
from watersmeet.errors import WindowError
from watersmeet.plan.query import Plan

few = random_cases(15)
many = random_cases(30)


def planned(case: OuterCase) -> Plan:
    """Trees in which nothing says when a row is certain to have no partner are refused, or answers that change."""
    try:
        plan = bound_plan(case.sql, case.sources)
    except WindowError:
        assume(False)
        raise
    assume(plan.kind == "rows")
    return plan


@many
@given(outer_cases())
def test_the_reference_gives_what_plain_sql_gives(case: OuterCase) -> None:
    planned(case)
    assert by_reference(case.sql, case.sources) == case.by_duckdb()


@few
@given(outer_cases())
def test_the_checks_sql_gives_what_plain_sql_gives(case: OuterCase) -> None:
    plan = planned(case)
    assert bag(DuckDB(plan, tables_of(case.sources)).combinations()) == case.by_duckdb()


@many
@given(outer_cases(), st.sampled_from([1, 2, 3, None]))
def test_the_engine_gives_what_plain_sql_gives(case: OuterCase, rows_per_batch: int | None) -> None:
    planned(case)
    assert by_local_engine(case.sql, case.sources, rows_per_batch) == case.by_duckdb()


@few
@given(outer_cases(late=True), st.sampled_from([1, 2, 3]))
def test_late_rows_are_never_given_as_unmatched(case: OuterCase, rows_per_batch: int) -> None:
    plan = planned(case)
    given = answered(local_query(case.sql, case.sources, rows_per_batch))
    assert given.bag == by_reference(case.sql, given.in_time(case.sources)), plan.sql


@few
@given(outer_cases(), st.sampled_from([1, 2, None]))
def test_event_times_are_those_of_the_reference(case: OuterCase, rows_per_batch: int | None) -> None:
    planned(case)
    timed = case.sql.replace("SELECT ", "SELECT event_time() AS at, ", 1)
    assert by_local_engine(timed, case.sources, rows_per_batch) == by_reference(timed, case.sources)


@few
@given(using_cases(), st.sampled_from([1, 2, None]))
def test_columns_of_one_name_become_one(case: OuterCase, rows_per_batch: int | None) -> None:
    planned(case)
    expected = case.by_duckdb()
    assert by_reference(case.sql, case.sources) == expected
    assert by_local_engine(case.sql, case.sources, rows_per_batch) == expected
