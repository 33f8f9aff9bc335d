"""ASOF JOIN over random data: the reference, plain SQL over whole tables, and the engine."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tests.effort import random_cases
from tests.properties.outer_strategies import OuterCase, asof_cases, asof_groups
from tests.properties.test_continuous import assert_same, sent
from tests.relays import Relay, goes_on_as_if_nothing_had_happened
from tests.runners import Source, answered, bag, bound_plan, by_local_engine, by_reference, local_query, tables_of
from watersmeet.checking import check
from watersmeet.checking.recompute import DuckDB, rows_of
from watersmeet.reference.join import answer

TIME = pa.timestamp("us")
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


@few
@given(asof_groups(late=True), st.sampled_from([1, 2, None]))
def test_rows_enter_groups_when_their_partner_is_certain(case: OuterCase, rows_per_batch: int | None) -> None:
    plan = bound_plan(case.sql, case.sources)
    given = answered(local_query(case.sql, case.sources, rows_per_batch))
    expected = answer(plan, tables_of(given.in_time(case.sources)))
    assert_same(sent(plan, rows_of(given.table)), sent(plan, expected))


@few
@given(asof_groups())
def test_a_check_finds_groups_of_partners_right(case: OuterCase) -> None:
    report = check(local_query(case.sql, case.sources))
    assert report.equal, str(report)


def test_a_partner_is_kept_for_rows_that_wait_for_a_time_ahead_of_them() -> None:
    """A row of a at 10 s looks as far as 20 s, and until then as far back as 5 s."""
    rows = {"a": [(1, 10), (2, 17), (2, 40)], "b": [(1, 6), (2, 17), (2, 40)]}
    sources = [
        Source(name, pa.table({"k": [k for k, _ in given], "ts": pa.array([s * 10**6 for _, s in given], TIME)}))
        for name, given in rows.items()
    ]
    sql = "SELECT a.ts, b.ts AS other FROM a ASOF JOIN b [RANGE 5 SECONDS] ON a.k = b.k AND b.ts <= a.ts + 10 SECONDS"
    assert by_local_engine(sql, sources, 1) == by_reference(sql, sources)
    assert len(by_reference(sql, sources)) == 3
