"""ASOF JOIN over random data: the reference, plain SQL over whole tables, and the engine."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.effort import random_cases
from tests.properties.outer_strategies import OuterCase, asof_cases
from tests.relays import Relay, goes_on_as_if_nothing_had_happened
from tests.runners import answered, bag, bound_plan, by_local_engine, by_reference, local_query, tables_of
from watersmeet.checking.recompute import DuckDB

few = random_cases(12)
many = random_cases(25)


@many
@given(asof_cases())
def test_the_reference_gives_what_plain_sql_gives(case: OuterCase) -> None:
    assert by_reference(case.sql, case.sources) == case.by_duckdb()


@few
@given(asof_cases())
def test_the_checks_sql_gives_what_plain_sql_gives(case: OuterCase) -> None:
    plan = bound_plan(case.sql, case.sources)
    assert bag(DuckDB(plan, tables_of(case.sources)).combinations()) == case.by_duckdb()


@many
@given(asof_cases(), st.sampled_from([1, 2, 3, None]))
def test_the_engine_gives_what_plain_sql_gives(case: OuterCase, rows_per_batch: int | None) -> None:
    assert by_local_engine(case.sql, case.sources, rows_per_batch) == case.by_duckdb()


@few
@given(asof_cases(late=True), st.sampled_from([1, 2, 3]))
def test_rows_in_time_are_answered_with_rows_in_time(case: OuterCase, rows_per_batch: int) -> None:
    given = answered(local_query(case.sql, case.sources, rows_per_batch))
    assert given.bag == by_reference(case.sql, given.in_time(case.sources))


@few
@given(asof_cases(), st.integers(1, 7))
def test_a_state_that_is_saved_goes_on_as_if_nothing_had_happened(case: OuterCase, batches: int) -> None:
    if any(len(source.table) for source in case.sources):
        goes_on_as_if_nothing_had_happened(Relay(bound_plan(case.sql, case.sources), case.sources), batches)
