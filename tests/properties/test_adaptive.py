"""Joins whose routes change at random between batches answer as if they never had: alone, inside other queries, and in
bounded memory."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.effort import random_cases
from tests.properties.continuous_strategies import Case
from tests.properties.continuous_strategies import cases as continuous_cases
from tests.properties.strategies import cases
from tests.properties.test_continuous import PIPELINES, assert_same, by_engine, reference_sent, sent
from tests.properties.test_joins import few, refuse_contradictions
from tests.properties.test_shedding import POLICIES, bounds, losses_are_known, streams_in, with_options
from tests.runners import answered, bound_plan, by_reference, local_query
from watersmeet.checking.recompute import rows_of
from watersmeet.operators.join import window_join
from watersmeet.optimizer.plan_query import plan_query
from watersmeet.optimizer.stages import optimize
from watersmeet.physical.estimate import Switch
from watersmeet.physical.nodes import WindowJoinNode
from watersmeet.physical.strategy import JoinStatistics, JoinStrategy
from watersmeet.plan.method import Method
from watersmeet.runtime import build as building


class Restless:
    """Finds another order at every chance."""

    STATE = ("switches",)

    def __init__(self, strategy: JoinStrategy, seed: int) -> None:
        self.strategy = strategy
        self.random = random.Random(seed)
        self.switches = 0

    def consider(self, measured: JoinStatistics, at_us: int) -> tuple[JoinStrategy, Switch]:
        aliases = [one.alias for one in self.strategy.join.inputs]
        orders = {
            one.alias: (one.alias, *self.random.sample([a for a in aliases if a != one.alias], len(aliases) - 1))
            for one in self.strategy.join.streams
        }
        other = optimize(self.strategy.join, Method(orders=orders), measured)
        self.switches += 1
        # The codes are those of a join whose routes may change.
        return JoinStrategy(**{**vars(self.strategy), "routes": other.routes}), Switch(at_us, (), (), 1.0, 1.0)


@contextmanager
def restless(seed: int) -> Iterator[list[Restless]]:
    """Every join that may change its routes does, after every batch in which rows came."""
    made: list[Restless] = []

    def make(strategy: JoinStrategy) -> Restless:
        made.append(Restless(strategy, seed))
        return made[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(building, "Replanner", make)
        patch.setattr(window_join, "RECONSIDER_AFTER_ROWS", 1)
        yield made


@few
@given(cases(), st.sampled_from([1, 2, 5]), st.integers(0, 10**6))
def test_routes_may_change_at_any_batch(case, rows_per_batch, seed):
    refuse_contradictions(case)
    plan = bound_plan(case.sql, case.sources)
    if len(plan.root.child.inputs) < 3:
        return
    with restless(seed):
        answer = answered(local_query(case.sql, case.sources), batch_rows=rows_per_batch)
    assert answer.bag == by_reference(case.sql, answer.in_time(case.sources))


@pytest.mark.parametrize("pipeline", PIPELINES)
@random_cases(15)
@given(case=continuous_cases(wide=True), rows_per_batch=st.sampled_from([1, 2, 5]), seed=st.integers(0, 10**6))
def test_routes_of_joins_inside_a_changing_answer_may_change_at_any_batch(
    pipeline: str, case: Case, rows_per_batch: int, seed: int
) -> None:
    plan = bound_plan(case.sql(pipeline=pipeline), case.sources)
    with restless(seed) as planners:
        given = by_engine(case, rows_per_batch, pipeline=pipeline)
    flexible = [one for one in plan_query(plan).joins if isinstance(one, WindowJoinNode) and one.replans]
    different = [one for place, one in enumerate(flexible) if one not in flexible[:place]]
    assert len(different) <= len(planners) <= len(flexible)  # equal parts may be built once
    assert given.metrics["plan_switches"] == sum(planner.switches for planner in planners)
    assert_same(sent(plan, rows_of(given.table)), reference_sent(case, given))


@few
@given(cases(most_streams=4), st.data(), st.sampled_from(POLICIES), st.sampled_from([1, 2, 5]), st.integers(0, 10**6))
def test_routes_of_a_join_in_bounded_memory_may_change_too(case, data, policy, rows_per_batch, seed):
    """Which rows lose their memory does not depend on the routes, unless it is a matter of bytes: indexes take some."""
    refuse_contradictions(case)
    assume(streams_in(case) > 1 and len(bound_plan(case.sql, case.sources).root.child.inputs) > 2)
    recall = data.draw(st.sampled_from(["exact", "exact", "none"]))
    sql = with_options(case, f"{data.draw(bounds(streams_in(case)))}, shed = '{policy}', recall = '{recall}'")

    def run():
        return answered(local_query(sql, case.sources), batch_rows=rows_per_batch)

    with restless(seed) as planners:
        switching = run()
    exact, told = by_reference(case.sql, switching.in_time(case.sources)), switching.metrics
    assert switching.bag <= exact
    assert told["plan_switches"] == sum(planner.switches for planner in planners) > 0 or not told["rows_in"]
    if recall == "exact" and losses_are_known(case):
        assert told["exact_results"] == exact.total()
    if "KB" not in sql:
        steady = run()
        assert switching.bag == steady.bag
        for name in ("lost_results", "shed_by_stream", "incomplete_rows"):
            assert told.get(name) == steady.metrics.get(name)
