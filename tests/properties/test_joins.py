"""Joins over random queries and data: every way to answer agrees, however the rows arrive and are batched."""

from __future__ import annotations

from dataclasses import replace
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from tests.effort import random_cases
from tests.oracles import duckdb_text_answer
from tests.properties.strategies import Case, cases, local_predicates
from tests.runners import (
    Bag,
    Source,
    answered,
    bag,
    behind_their_stream,
    bound_plan,
    by_duckdb,
    by_local_engine,
    by_reference,
    local_query,
    tables_of,
)
from watersmeet.errors import WindowError
from watersmeet.io.spill import SORT_MEMORY
from watersmeet.session import Session

few = random_cases(25)
many = random_cases(70)


def refuse_contradictions(case: Case) -> None:
    """Windows drawn at random may contradict each other: such a query has no plan, and in plain SQL no rows."""
    try:
        bound_plan(case.sql, case.sources)
    except WindowError as error:
        if "contradict" not in str(error):
            raise
        relations = [source.relation() for source in case.sources]
        rows = duckdb_text_answer(case.meaning, relations, tables_of(case.sources))
    else:
        return
    assert rows == []
    reject()


def sorted_by_time(source: Source) -> Source:
    return source if source.time is None else replace(source, table=source.table.sort_by(source.time))


@many
@given(cases())
def test_the_reference_and_duckdb_agree(case):
    refuse_contradictions(case)
    assert by_reference(case.sql, case.sources) == by_duckdb(case.sql, case.sources)


@many
@given(cases(counts=False))
def test_time_windows_mean_what_their_plain_sql_says(case):
    """The plain text is drawn beside the query, so this also checks the binder."""
    refuse_contradictions(case)
    relations = [source.relation() for source in case.sources]
    expected = bag(duckdb_text_answer(case.meaning, relations, tables_of(case.sources)))
    assert by_reference(case.ids_only().sql, case.sources) == expected


@many
@given(cases(), st.lists(st.sampled_from([1, 2, 3, 5, None]), min_size=6, max_size=6))
def test_the_engine_and_the_reference_agree_for_any_batches(case, sizes):
    refuse_contradictions(case)
    rows_per_batch = dict(zip((source.name for source in case.sources), sizes, strict=False))
    given = answered(local_query(case.sql, case.sources, rows_per_batch))
    assert given.bag == by_reference(case.sql, given.in_time(case.sources))


@few
@given(cases(counts=False))
def test_the_engine_and_duckdb_agree_on_time_windows(case):
    refuse_contradictions(case)
    given = answered(local_query(case.sql, case.sources))
    assert given.bag == by_duckdb(case.sql, given.in_time(case.sources))


@few
@given(cases(counts=False, late=False))
def test_the_order_of_arrival_within_lateness_never_changes_the_answer_of_time_windows(case):
    refuse_contradictions(case)
    in_order = [sorted_by_time(source) for source in case.sources]
    run = by_local_engine
    assert run(case.sql, case.sources) == run(case.sql, in_order)


@few
@given(cases(most_streams=3), st.data())
def test_the_parts_where_a_condition_is_true_false_and_null_make_up_the_whole(case, data):
    refuse_contradictions(case)
    condition = data.draw(st.sampled_from(local_predicates("a")))
    run = by_local_engine
    parts: list[Bag] = [
        run(case.where(f"({part})").sql, case.sources)
        for part in (condition, f"NOT ({condition})", f"({condition}) IS NULL")
    ]
    assert sum(parts, bag([])) == run(case.sql, case.sources)


@few
@given(cases(most_streams=3))
def test_an_empty_stream_makes_the_answer_empty(case):
    refuse_contradictions(case)
    first, *rest = case.sources
    emptied = [replace(first, table=pa.table(first.table.slice(0, 0))), *rest]
    run = by_local_engine
    assert not run(case.sql, emptied)


@few
@given(cases(most_streams=3), st.sampled_from([1, 3, None]))
def test_every_late_row_is_counted_and_was_behind_its_own_stream(case, rows_per_batch):
    """Late is judged by the query's watermark, so no row is late that its own stream alone would have kept."""
    refuse_contradictions(case)
    given = answered(local_query(case.sql, case.sources, rows_per_batch))
    streams = [source for source in case.sources if source.time]
    told = {source.name: given.late.get(source.name, np.empty(0, np.int64)) for source in streams}
    assert given.metrics["late_by_stream"] == {name: rows.size for name, rows in told.items()}
    assert given.metrics["late_rows"] == sum(rows.size for rows in told.values())
    for source in streams:
        behind = behind_their_stream(source)
        assert np.isin(told[source.name], behind).all()
        if len(streams) == 1:
            assert np.array_equal(told[source.name], behind)


@few
@given(cases(most_streams=3), st.sampled_from([1, 4, None]))
def test_tables_in_any_order_are_read_in_time_order(case, rows_per_batch):
    """Nothing is late, whatever the lateness, and among equal times those that stand first come first."""
    refuse_contradictions(case)
    session = Session()
    for source in case.sources:
        table = pa.Table.from_batches(source.table.to_batches(rows_per_batch), source.table.schema)
        if source.time is None:
            session.table(source.name, table)
        else:
            session.stream(source.name, table, time=source.time)
    given = answered(session.sql(case.sql), batch_rows=rows_per_batch or 7)
    assert given.metrics["late_rows"] == 0
    assert given.bag == by_reference(case.sql, case.sources) == by_duckdb(case.sql, case.sources)


@random_cases(15)
@given(cases(most_streams=3), st.sampled_from(["600 bytes", "20 KB"]))
def test_files_in_any_order_are_read_in_time_order_in_little_memory(case, memory):
    refuse_contradictions(case)
    session = Session()
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv(SORT_MEMORY, memory)
        for source in case.sources:
            path = f"{folder}/{source.name}.parquet"
            pa_parquet.write_table(source.table, path, row_group_size=3)
            session.table(source.name, path) if source.time is None else session.stream(source.name, path, time="ts")
        given = answered(session.sql(case.sql), batch_rows=4)
    assert given.metrics["late_rows"] == 0
    assert given.bag == by_reference(case.sql, case.sources) == by_duckdb(case.sql, case.sources)


@random_cases(15)
@given(cases(most_streams=3), st.sampled_from([1, 2, 5]))
def test_streams_that_flow_through_threads_answer_over_the_rows_in_time(case, rows_per_batch):
    """Which rows are late depends on who comes first, the answer over the others does not."""
    refuse_contradictions(case)
    session = Session()
    for source in case.sources:
        if source.time is None:
            session.table(source.name, source.table)
        else:
            batches = source.table.to_batches(rows_per_batch)
            flowing = pa.RecordBatchReader.from_batches(source.table.schema, iter(batches))
            session.stream(source.name, flowing, time=source.time, lateness=source.lateness)
    given = answered(session.sql(case.sql))
    assert given.bag == by_reference(case.sql, given.in_time(case.sources))
    for source in case.sources:
        assert np.isin(given.late.get(source.name, []), behind_their_stream(source) if source.time else []).all()
