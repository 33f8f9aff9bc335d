"""Answers that change, over random queries and data: at every instant they are what the relational query says."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.effort import random_cases
from tests.properties.continuous_strategies import Case, cases, in_order
from tests.runners import Answered, answered, bound_plan, local_query, tables_of
from watersmeet.checking import check
from watersmeet.checking.compare import differences, key_of
from watersmeet.checking.recompute import DuckDB, Reference, rows_of
from watersmeet.plan.query import Plan
from watersmeet.reference.continuous import change_log, instants, snapshot
from watersmeet.reference.join import answer
from watersmeet.session import Query

few = random_cases(14)
many = random_cases(25)
PIPELINES = ("auto", "ita", "tpa", "nta")

Row = tuple[Any, ...]
# What a query sent at one instant: rows, and how often each; what left counts below zero.
Sent = dict[datetime | None, Counter[Row]]


def sent(plan: Plan, rows: Iterable[Row]) -> Sent:
    """The net changes of each instant."""
    found: defaultdict[datetime | None, defaultdict[Row, int]] = defaultdict(lambda: defaultdict(int))
    kind = plan.kind
    for row in rows:
        op, at, values = _parted(kind, row)
        found[at][key_of(values)] += op
    return {at: net for at, counts in found.items() if (net := Counter({r: n for r, n in counts.items() if n}))}


def _parted(kind: str, row: Row) -> tuple[int, datetime | None, Row]:
    match kind:
        case "rows":
            return 1, None, row
        case "changes":
            return 1 if row[0] == "+" else -1, row[1], row[2:]
    return 1, row[0], row[1:]


def assert_same(ours: Sent, expected: Sent) -> None:
    for at in sorted({*ours, *expected}, key=str):
        left, right = (side.get(at, Counter()) for side in (ours, expected))
        if left != right:
            only = differences(*([(*row, n) for row, n in side.items()] for side in (left, right)))
            assert only == ([], []), f"at {at} only here, and only expected"


def by_engine(case: Case, rows_per_batch: int | None = None, **options: str) -> Answered:
    """Nothing that the strategies draw may be refused."""
    return answered(local_query(case.sql(**options), case.sources, rows_per_batch))


def engine_rows(case: Case, rows_per_batch: int | None = None, **options: str) -> list[Row]:
    return rows_of(by_engine(case, rows_per_batch, **options).table)


def engine_sent(case: Case, rows_per_batch: int | None = None, **options: str) -> Sent:
    return sent(bound_plan(case.sql(), case.sources), engine_rows(case, rows_per_batch, **options))


def reference_sent(case: Case, given: Answered | None = None) -> Sent:
    """What the reference says, over the rows that were in time for the engine if it was asked before."""
    plan = bound_plan(case.sql(), case.sources)
    sources = case.sources if given is None else given.in_time(case.sources)
    return sent(plan, answer(plan, tables_of(sources)))


# ---- the reference --------------------------------------------------------------------------------------------------


@many
@given(cases(exact=True))
def test_the_reference_and_duckdb_agree_at_every_instant(case: Case) -> None:
    plan, tables = bound_plan(case.sql(), case.sources), tables_of(case.sources)
    duckdb, reference = DuckDB(plan, tables), Reference(plan, tables)
    if plan.kind == "rows":
        assert differences(reference.combinations(), duckdb.combinations()) == ([], [])
        return
    at = duckdb.instants()
    assert reference.instants() == at
    for (at_us, ours), (_, theirs) in zip(reference.answers(at), duckdb.answers(at), strict=True):
        assert differences(ours, theirs) == ([], []), f"at {at_us} µs"


@few
@given(cases())
def test_a_check_finds_the_reference_right(case: Case) -> None:
    def stand_in(query: Query) -> pa.Table:
        rows = answer(query.plan, tables_of(case.sources))
        columns = [pa.array([row[k] for row in rows], field.type) for k, field in enumerate(query.schema)]
        return pa.table(columns, schema=query.schema)

    report = check(local_query(case.sql(), case.sources), run=stand_in)
    assert report.equal, str(report)


@few
@given(cases(words=False))
def test_the_log_summed_up_to_any_instant_is_the_answer_there(case: Case) -> None:
    plan, tables = bound_plan(case.sql(), case.sources), tables_of(case.sources)
    assume(plan.kind == "changes")
    log = change_log(plan, tables)
    for at_us in instants(plan, tables)[::3]:
        summed: Counter[Row] = Counter()
        for op, when, row in log:
            if when <= at_us:
                summed[key_of(row)] += 1 if op == "+" else -1
        assert summed == Counter(map(key_of, snapshot(plan, tables, at_us)))


@few
@given(cases())
def test_a_log_is_in_order_and_says_nothing_twice(case: Case) -> None:
    plan = bound_plan(case.sql(), case.sources)
    log = change_log(plan, tables_of(case.sources))
    assert [(at, op == "+") for op, at, _ in log] == sorted((at, op == "+") for op, at, _ in log)
    left = {(at, key_of(row)) for op, at, row in log if op == "-"}
    assert not left & {(at, key_of(row)) for op, at, row in log if op == "+"}


@few
@given(cases(counts=False, exact=True, late=False))
def test_the_order_of_arrival_within_lateness_does_not_change_the_answer(case: Case) -> None:
    assert_same(reference_sent(case), reference_sent(in_order(case)))


# ---- the engine -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pipeline", PIPELINES)
@random_cases(20)
@given(case=cases(), rows_per_batch=st.sampled_from([1, 2, 3, None]))
def test_the_engine_gives_what_the_reference_gives(pipeline: str, case: Case, rows_per_batch: int | None) -> None:
    given = by_engine(case, rows_per_batch, pipeline=pipeline)
    assert_same(sent(bound_plan(case.sql(), case.sources), rows_of(given.table)), reference_sent(case, given))


@few
@given(cases())
def test_a_check_finds_the_engine_right(case: Case) -> None:
    report = check(local_query(case.sql(), case.sources))
    assert report.equal, str(report)


@few
@given(cases(late=False), st.sampled_from([1, 3]))
def test_the_cut_into_batches_does_not_change_the_answer(case: Case, rows_per_batch: int) -> None:
    """Unless it changes which rows are late: there are none."""
    assert_same(engine_sent(case, rows_per_batch), engine_sent(case))


@few
@given(cases(counts=False, late=False))
def test_the_engine_does_not_depend_on_the_order_of_arrival_within_lateness(case: Case) -> None:
    assert_same(engine_sent(case, 2), engine_sent(in_order(case)))


@few
@given(cases(), st.sampled_from([1, 3, None]))
def test_the_engines_log_is_in_order_with_what_leaves_first(case: Case, rows_per_batch: int | None) -> None:
    plan = bound_plan(case.sql(), case.sources)
    assume(plan.kind != "rows")
    order = [(at, op > 0) for op, at, _ in (_parted(plan.kind, row) for row in engine_rows(case, rows_per_batch))]
    assert order == sorted(order)
