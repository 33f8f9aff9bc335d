"""Joins in bounded memory over random queries and data: a part of the exact answer, and the losses counted exactly."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.effort import random_cases
from tests.properties.strategies import Case, cases
from tests.properties.test_joins import refuse_contradictions
from tests.runners import answered, bound_plan, by_reference, local_query
from watersmeet.operators.keeping.bounded import BoundedMemory
from watersmeet.operators.keeping.store import SheddingStore
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


@contextmanager
def holding_to_the_bound() -> Iterator[None]:
    """At every instant at which a row is given memory, whatever its batch, there are no more than the bound says."""
    joins: list[BoundedMemory] = []

    def taken(store: SheddingStore, free: int) -> None:
        store.__dict__["free_count"] = free
        for join in joins:
            if store in join.shed.values():
                check_bound(join)

    def watched(join: BoundedMemory, *args: object, **more: object) -> None:
        make(join, *args, **more)
        joins.append(join)

    make = BoundedMemory.__init__
    with pytest.MonkeyPatch.context() as patch:
        free_count = property(lambda store: store.__dict__["free_count"], taken)
        patch.setattr(SheddingStore, "free_count", free_count, raising=False)
        patch.setattr(BoundedMemory, "__init__", watched)
        yield


def check_bound(join: BoundedMemory) -> None:
    memory, stores = join.shedding.memory, join.shed.values()
    if memory.rows is not None:
        assert join.kept_rows <= memory.rows
        if join.allocation.fixed:
            assert all(store.kept <= -(-memory.rows // len(stores)) for store in stores)
    else:
        assert sum(store.kept * store.bytes_per_row for store in stores) <= (memory.size or 0)


@st.composite
def bounds(draw: st.DrawFn, streams: int) -> str:
    rows = st.one_of(st.integers(streams, 5), st.sampled_from([15, 16, 17, 33]))
    memory = draw(st.one_of(rows.map("{} rows".format), st.sampled_from(["4 KB", "6 KB"])))
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
    with holding_to_the_bound():
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
