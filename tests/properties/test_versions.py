"""Joins with the versions of tables over random data: the reference, plain SQL over whole tables, and the engine."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tests.effort import random_cases
from tests.plain_sql import said_by_duckdb
from tests.properties.outer_strategies import OuterCase
from tests.properties.strategies import EPOCH
from tests.properties.version_strategies import grouped_version_cases, version_cases
from tests.relays import Relay, goes_on_as_if_nothing_had_happened
from tests.runners import (
    Bag,
    answered,
    bag,
    bag_of,
    bound_plan,
    by_duckdb,
    by_local_engine,
    by_reference,
    local_query,
    tables_of,
)
from watersmeet.checking.recompute import DuckDB

few = random_cases(12)
many = random_cases(30)


@many
@given(version_cases())
def test_the_reference_gives_what_plain_sql_gives(case: OuterCase) -> None:
    assert by_reference(case.sql, case.sources) == case.by_duckdb()


@few
@given(version_cases())
def test_the_checks_sql_gives_what_plain_sql_gives(case: OuterCase) -> None:
    plan = bound_plan(case.sql, case.sources)
    assert bag(DuckDB(plan, tables_of(case.sources)).combinations()) == case.by_duckdb()


@many
@given(version_cases(), st.sampled_from([1, 2, 3, None]))
def test_the_engine_gives_what_plain_sql_gives(case: OuterCase, rows_per_batch: int | None) -> None:
    assert by_local_engine(case.sql, case.sources, rows_per_batch) == case.by_duckdb()


@few
@given(version_cases(late=True), st.sampled_from([1, 2, 3]))
def test_rows_in_time_are_answered_with_rows_in_time(case: OuterCase, rows_per_batch: int) -> None:
    given = answered(local_query(case.sql, case.sources, rows_per_batch))
    assert given.bag == by_reference(case.sql, given.in_time(case.sources))


@few
@given(version_cases(), st.integers(1, 7))
def test_a_state_that_is_saved_goes_on_as_if_nothing_had_happened(case: OuterCase, batches: int) -> None:
    if any(len(source.table) for source in case.sources):
        goes_on_as_if_nothing_had_happened(Relay(bound_plan(case.sql, case.sources), case.sources), batches)


# ---- in answers that change ------------------------------------------------------------------------------------------

INSTANTS = [EPOCH + timedelta(seconds=half / 2) + us * timedelta(microseconds=1) for half in range(60) for us in (0, 1)]


def at_instants(log: pa.Table) -> Bag:
    """What a log of changes adds up to at each of the instants."""
    rows = log.to_pylist()
    found: Counter = Counter()
    for at in INSTANTS:
        held: Counter = Counter()
        for row in rows:
            if row["_ts"] <= at:
                held[tuple(row.values())[2:]] += 1 if row["_op"] == "+" else -1
        assert all(count >= 0 for count in held.values())
        found.update({(at, *row): count for row, count in held.items() if count})
    return found


def grouped_by_duckdb(case: OuterCase) -> Bag:
    instants = pa.table({"moment": pa.array(INSTANTS, pa.timestamp("us"))})
    tables = {source.name: source.table for source in case.sources}
    return bag_of(said_by_duckdb(case.plain_sql, {**tables, "instants": instants}))


@many
@given(grouped_version_cases(), st.sampled_from([1, 2, 3, None]))
def test_groups_are_at_every_instant_what_plain_sql_gives(case: OuterCase, rows_per_batch: int | None) -> None:
    log = local_query(case.sql, case.sources, rows_per_batch).to_arrow()
    assert at_instants(log) == grouped_by_duckdb(case)


WINDOWS = ["[ROWS 2]", "[PARTITION BY k ROWS 1]", "[RANGE 2 SECONDS SLIDE 1 SECOND]"]
WINDOWS += ["[UNBOUNDED]", "[LANDMARK '2024-01-01 00:00:01' EVERY 3 SECONDS]"]


def _windows(*, counts: bool) -> st.SearchStrategy[str]:
    """Where rows are counted, each has one version at most."""
    return st.sampled_from([window for window in WINDOWS if counts or "ROWS" not in window])


@few
@given(st.booleans().flatmap(lambda counts: st.tuples(grouped_version_cases(by_key=counts), _windows(counts=counts))))
def test_groups_in_any_window_are_those_of_the_reference(drawn: tuple[OuterCase, str]) -> None:
    case, window = drawn
    start = case.sql.index("s0 [")
    sql = f"{case.sql[:start]}s0 {window}{case.sql[case.sql.index(']', start) + 1 :]}"
    found = by_reference(sql, case.sources)
    assert by_local_engine(sql, case.sources, 2) == found
    assert by_duckdb(sql, case.sources) == found
