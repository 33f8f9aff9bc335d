"""Joins in bounded memory over random queries and data: a part of the exact answer, and the losses counted exactly."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.effort import random_cases
from tests.properties.strategies import Case, cases
from tests.properties.test_joins import refuse_contradictions
from tests.runners import answered, bound_plan, by_reference, local_query
from watersmeet.optimizer.plan_query import plan_query

some = random_cases(25)

POLICIES = ["rand", "prob", "life", "age", "drift"]


def with_options(case: Case, options: str) -> str:
    """The query of a case with more options."""
    given_ones = re.search(r"OPTIONS \((.*)\)", case.options)
    said = f"{given_ones[1]}, {options}" if given_ones else options
    return case.sql.removesuffix(case.options) + f"\nOPTIONS ({said})"


def streams_in(case: Case) -> int:
    return len(re.findall(r"\bs\d+ .*? ?AS \w", case.sources_sql))


def losses_are_known(case: Case) -> bool:
    return not plan_query(bound_plan(case.sql, case.sources)).strategy.residuals


@st.composite
def bounds(draw: st.DrawFn, streams: int) -> str:
    memory = draw(st.one_of(st.integers(streams, 5).map("{} rows".format), st.sampled_from(["4 KB", "6 KB"])))
    allocation = draw(st.sampled_from(["fixed", "variable"]))
    return f"memory = '{memory}', allocation = '{allocation}', shed_seed = {draw(st.integers(0, 3))}"


@pytest.mark.parametrize("policy", POLICIES)
@some
@given(
    cases(most_streams=4, least_streams=2),
    st.data(),
    st.lists(st.sampled_from([1, 2, 3, 5, None]), min_size=6, max_size=6),
)
def test_a_part_of_the_answer_is_given_and_the_rest_is_counted(policy, case, data, sizes):
    refuse_contradictions(case)
    recall = data.draw(st.sampled_from(["exact", "exact", "none"]))
    options = f"{data.draw(bounds(streams_in(case)))}, shed = '{policy}', recall = '{recall}'"
    sizes_of = dict(zip((source.name for source in case.sources), sizes, strict=False))
    given = answered(local_query(with_options(case, options), case.sources, sizes_of))
    found, exact, told = given.bag, by_reference(case.sql, given.in_time(case.sources)), given.metrics
    assert found <= exact
    assert told["results"] == found.total()
    if recall == "none" or not losses_are_known(case):
        assert told["recall"] is None
        assert told["exact_results"] is None
    else:
        assert told["exact_results"] == exact.total()
        assert told["recall"] == (found.total() / exact.total() if exact else 1.0)
    assert told["shed_rows"] == sum(told.get("shed_by_stream", {}).values())
