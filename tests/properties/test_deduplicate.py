"""DEDUPLICATE over random data: the reference, DuckDB and the engine take the same rows, in the order they arrive."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from tests.effort import random_cases
from tests.oracles import duckdb_log
from tests.properties.deduplicate_strategies import deduplicated_cases
from tests.properties.over_strategies import OverCase
from tests.relays import Relay, goes_on_as_if_nothing_had_happened
from tests.runners import answered, bag, bound_plan, by_local_engine, by_reference, local_query, tables_of
from watersmeet.checking.recompute import DuckDB

few = random_cases(25)


@few
@given(deduplicated_cases(), st.sampled_from([1, 2, 3, None]))
def test_the_rows_are_those_of_the_reference_and_of_duckdb(case: OverCase, rows_per_batch: int | None) -> None:
    expected = by_reference(case.sql, case.sources)
    assert by_local_engine(case.sql, case.sources, rows_per_batch) == expected
    plan, tables = bound_plan(case.sql, case.sources), tables_of(case.sources)
    given = DuckDB(plan, tables).combinations() if plan.kind == "rows" else duckdb_log(plan, tables)
    assert bag(given) == expected


@few
@given(deduplicated_cases(late=True), st.sampled_from([1, 2, 3]))
def test_a_row_that_comes_too_late_is_no_first_row(case: OverCase, rows_per_batch: int) -> None:
    given = answered(local_query(case.sql, case.sources, rows_per_batch))
    assert given.bag == by_reference(case.sql, given.in_time(case.sources))


@few
@given(deduplicated_cases(), st.integers(1, 7))
def test_states_are_handed_on(case: OverCase, batches: int) -> None:
    assume(any(len(source.table) for source in case.sources))
    goes_on_as_if_nothing_had_happened(Relay(bound_plan(case.sql, case.sources), case.sources), batches)
