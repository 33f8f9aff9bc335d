"""OVER over random data: the reference, plain SQL over whole tables, the SQL of checks, and the engine."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.effort import random_cases
from tests.oracles import duckdb_log
from tests.properties.outer_strategies import OuterCase
from tests.properties.over_strategies import (
    OverCase,
    changing_cases,
    complete_cases,
    gap_cases,
    over_cases,
    over_many_cases,
)
from tests.properties.strategies import streams
from tests.properties.test_versions import at_instants, grouped_by_duckdb
from tests.relays import Relay, goes_on_as_if_nothing_had_happened
from tests.runners import Source, answered, bag, bound_plan, by_local_engine, by_reference, local_query, tables_of
from watersmeet.checking.recompute import DuckDB

few = random_cases(15)
many = random_cases(35)


@many
@given(st.one_of(over_cases(), over_cases(), gap_cases()), st.sampled_from([1, 2, 3, None]))
def test_rows_by_event_time_are_what_plain_sql_gives(case: OverCase, rows_per_batch: int | None) -> None:
    expected = case.by_duckdb()
    assert by_local_engine(case.sql, case.sources, rows_per_batch) == expected
    assert by_reference(case.sql, case.sources) == expected


@few
@given(over_cases(kind="own"), st.sampled_from([1, 2, 3, None]))
def test_values_collected_in_order_are_those_of_plain_sql_however_many_partitions_there_are(
    case: OverCase, rows_per_batch: int | None
) -> None:
    expected = case.by_duckdb()
    assert by_local_engine(case.sql, case.sources, rows_per_batch) == expected
    assert by_reference(case.sql, case.sources) == expected


@few
@given(over_many_cases(), st.sampled_from([1, 2, None]))
def test_rows_of_joins_and_queries_are_those_of_the_reference_and_of_duckdb(
    case: OverCase, rows_per_batch: int | None
) -> None:
    expected = by_reference(case.sql, case.sources)
    assert by_local_engine(case.sql, case.sources, rows_per_batch) == expected
    plan = bound_plan(case.sql, case.sources)
    assert bag(DuckDB(plan, tables_of(case.sources)).combinations()) == expected


@few
@given(complete_cases(), st.sampled_from([1, 2, None]))
def test_rows_and_groups_of_windows_are_given_once(case: OverCase, rows_per_batch: int | None) -> None:
    expected = by_reference(case.sql, case.sources)
    assert by_local_engine(case.sql, case.sources, rows_per_batch) == expected
    plan = bound_plan(case.sql, case.sources)
    assert plan.kind == "rows"
    assert bag(DuckDB(plan, tables_of(case.sources)).combinations()) == expected


@few
@given(st.one_of(over_cases(), gap_cases()))
def test_the_checks_sql_gives_what_plain_sql_gives(case: OverCase) -> None:
    plan = bound_plan(case.sql, case.sources)
    assert bag(DuckDB(plan, tables_of(case.sources)).combinations()) == case.by_duckdb()


@few
@given(st.one_of(over_cases(late=True), gap_cases(late=True)), st.sampled_from([1, 2, 3]))
def test_late_rows_are_left_out_of_every_frame(case: OverCase, rows_per_batch: int) -> None:
    given = answered(local_query(case.sql, case.sources, rows_per_batch))
    assert given.bag == by_reference(case.sql, given.in_time(case.sources))


@few
@given(st.one_of(over_cases(), gap_cases()), st.integers(1, 7))
def test_states_are_handed_on(case: OverCase, batches: int) -> None:
    assume(any(len(source.table) for source in case.sources))
    goes_on_as_if_nothing_had_happened(Relay(bound_plan(case.sql, case.sources), case.sources), batches)


@many
@given(changing_cases(), st.sampled_from([1, 2, 3, None]), st.sampled_from(["auto", "nta", "ita"]))
def test_answers_that_change_are_those_of_the_reference_and_of_duckdb(
    case: OverCase, rows_per_batch: int | None, pipeline: str
) -> None:
    expected = by_reference(case.sql, case.sources)
    asked = f"{case.sql} OPTIONS (pipeline = '{pipeline}')"
    assert by_local_engine(asked, case.sources, rows_per_batch) == expected
    assert bag(duckdb_log(bound_plan(case.sql, case.sources), tables_of(case.sources))) == expected


@few
@given(over_cases(kind="own"), st.integers(1, 7))
def test_states_of_collected_values_are_handed_on(case: OverCase, batches: int) -> None:
    assume(any(len(source.table) for source in case.sources))
    goes_on_as_if_nothing_had_happened(Relay(bound_plan(case.sql, case.sources), case.sources), batches)


@few
@given(changing_cases(late=True), st.sampled_from([1, 2, 3]))
def test_late_rows_never_enter_an_answer_that_changes(case: OverCase, rows_per_batch: int) -> None:
    given = answered(local_query(case.sql, case.sources, rows_per_batch))
    assert given.bag == by_reference(case.sql, given.in_time(case.sources))


@few
@given(changing_cases(), st.integers(1, 7))
def test_states_of_answers_that_change_are_handed_on(case: OverCase, batches: int) -> None:
    assume(any(len(source.table) for source in case.sources))
    goes_on_as_if_nothing_had_happened(Relay(bound_plan(case.sql, case.sources), case.sources), batches)


def test_rows_of_a_semi_join_are_in_the_order_of_their_first_partners() -> None:
    stamps = {"s0": [3.5, 4.0], "s1": [4.5]}  # both meet their only partner at 4.5 s
    tables = {
        name: pa.table({"id": [*range(len(at))], "ts": pa.array([int(s * 1e6) for s in at], pa.timestamp("us"))})
        for name, at in stamps.items()
    }
    sources = tuple(Source(name, table, "ts", "0 seconds") for name, table in tables.items())
    sql = (
        "SELECT id, COUNT(*) OVER (ORDER BY event_time()) AS n FROM s0 "
        "SEMI JOIN s1 ON s1.ts BETWEEN s0.ts AND s0.ts + 1 SECONDS"
    )
    for rows_per_batch in (1, None):
        assert by_local_engine(sql, sources, rows_per_batch) == by_reference(sql, sources) == bag([(0, 2), (1, 2)])


# Written by hand, as checks are given the plan that the engine has.
WINDOW = "FROM s0 [RANGE 2 SECONDS]"
HELD = "FROM instants, s0 WHERE s0.ts <= moment AND moment <= s0.ts + INTERVAL 2 SECONDS"
BY_HAND = {
    f"SELECT id, RANK() OVER (PARTITION BY k ORDER BY j NULLS FIRST) AS r, COUNT(*) OVER () AS n {WINDOW}":
    "SELECT moment, id, rank() OVER (PARTITION BY moment, k ORDER BY j NULLS FIRST), "
    f"count(*) OVER (PARTITION BY moment) {HELD}",
    f"SELECT id, NTILE(3) OVER (ORDER BY id) AS t, NTH_VALUE(j, 2) IGNORE NULLS OVER (ORDER BY k, id ROWS BETWEEN 1 "
    f"PRECEDING AND UNBOUNDED FOLLOWING) AS y, LAG(id, j, -1) OVER (ORDER BY id) AS z {WINDOW}":
    "SELECT moment, id, ntile(3) OVER (PARTITION BY moment ORDER BY id), nth_value(j, 2 IGNORE NULLS) OVER (PARTITION "
    "BY moment ORDER BY k, id ROWS BETWEEN 1 PRECEDING AND UNBOUNDED FOLLOWING), lag(id, j, -1) OVER (PARTITION BY "
    f"moment ORDER BY id) {HELD}",
    f"SELECT id, SUM(id) OVER (ORDER BY k NULLS FIRST GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE TIES) AS y, "
    f"COUNT(*) OVER (ORDER BY w NULLS FIRST RANGE BETWEEN 1 SECOND PRECEDING AND 1 SECOND FOLLOWING) AS n {WINDOW}":
    "SELECT moment, id, sum(id) OVER (PARTITION BY moment ORDER BY k NULLS FIRST GROUPS BETWEEN 1 PRECEDING AND 1 "
    "FOLLOWING EXCLUDE TIES), count(*) OVER (PARTITION BY moment ORDER BY w NULLS FIRST RANGE BETWEEN INTERVAL 1 "
    f"SECOND PRECEDING AND INTERVAL 1 SECOND FOLLOWING) {HELD}",
    f"SELECT id, SUM(j) OVER (ORDER BY ts, id ROWS 1 PRECEDING) AS y {WINDOW} QUALIFY y > 1":
    f"SELECT moment, id, sum(j) OVER (PARTITION BY moment ORDER BY ts, id ROWS 1 PRECEDING) AS y {HELD} QUALIFY y > 1",
    f"SELECT k, MAX(n) AS m FROM (SELECT k, ROW_NUMBER() OVER (PARTITION BY k ORDER BY id) AS n {WINDOW}) q GROUP BY k":
    "SELECT moment, k, max(n) FROM (SELECT moment, k, row_number() OVER (PARTITION BY moment, k ORDER BY id) AS n "
    f"{HELD}) GROUP BY moment, k",
}  # fmt: skip


# With the rows of a frame counted in the order of `place`, DuckDB has no word for those of equal keys.
TIED = [f"SUM(id) OVER (ORDER BY ts ROWS BETWEEN {ends} EXCLUDE {who}) AS v" for who in ("GROUP", "TIES") for ends in (
    "2 PRECEDING AND 1 FOLLOWING", "3 PRECEDING AND CURRENT ROW", "1 FOLLOWING AND 3 FOLLOWING")]  # fmt: skip


@few
@given(st.sampled_from(TIED), streams("s0", 8, False), st.sampled_from([1, 2, None]))
def test_rows_of_a_frame_without_those_of_equal_keys(call: str, source: Source, rows_per_batch: int | None) -> None:
    sql = f"SELECT id, {call} FROM s0"
    assert by_local_engine(sql, [source], rows_per_batch) == by_reference(sql, [source])


@few
@given(st.sampled_from([*BY_HAND.items()]), streams("s0", 8, False), st.sampled_from([1, 2, None]))
def test_answers_that_change_are_at_every_instant_what_plain_sql_gives(
    texts: tuple[str, str], source: Source, rows_per_batch: int | None
) -> None:
    log = local_query(texts[0], [source], rows_per_batch).to_arrow()
    assert at_instants(log) == grouped_by_duckdb(OuterCase(*texts, (source,)))
