"""A join whose routes change at random between batches answers as if they never had."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from tests.properties.strategies import cases
from tests.properties.test_joins import few, refuse_contradictions
from tests.runners import answered, bound_plan, by_reference, local_query
from watersmeet.operators.join import window_join
from watersmeet.optimizer.stages import optimize
from watersmeet.physical.estimate import Switch
from watersmeet.physical.statistics import JoinStatistics
from watersmeet.physical.strategy import JoinStrategy
from watersmeet.plan.method import Method
from watersmeet.runtime import build as building


class Restless:
    """Finds another order at every chance."""

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


@few
@given(cases(), st.sampled_from([1, 2, 5]), st.integers(0, 10**6))
def test_routes_may_change_at_any_batch(case, rows_per_batch, seed):
    refuse_contradictions(case)
    plan = bound_plan(case.sql, case.sources)
    if len(plan.root.child.inputs) < 3:
        return
    planner, after = building.Replanner, window_join.RECONSIDER_AFTER_ROWS
    made: list[Restless] = []

    def restless(strategy: JoinStrategy) -> Restless:
        made.append(Restless(strategy, seed))
        return made[-1]

    building.Replanner, window_join.RECONSIDER_AFTER_ROWS = restless, 1
    try:
        answer = answered(local_query(case.sql, case.sources), batch_rows=rows_per_batch)
    finally:
        building.Replanner, window_join.RECONSIDER_AFTER_ROWS = planner, after
    assert answer.bag == by_reference(case.sql, answer.in_time(case.sources))
