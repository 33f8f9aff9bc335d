"""Joins that test combinations on their way answer as those that test whole ones, in the same order."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.strategies import cases
from tests.properties.test_joins import few, refuse_contradictions
from tests.runners import answered, by_reference, local_query
from watersmeet.errors import DataError
from watersmeet.operators.join import window_join
from watersmeet.operators.join.window_join import WindowJoin
from watersmeet.physical.strategy import JoinStrategy, Route
from watersmeet.plan.expressions import Call, Expression, streams_of, uses_event_time

CONDITIONS = (
    "({0}.k + {1}.k) % 3 <> 1",
    "({0}.k * {1}.k > 2 OR {1}.x IS NULL)",
    "10 / ({0}.k - {1}.k) > -5",
    "COALESCE({0}.s, '') || {1}.s LIKE '%a%'",
)


def with_early_tests(strategy: JoinStrategy, seed: int) -> JoinStrategy:
    """Each condition somewhere along a route where all its columns are bound, or at its end."""
    chance = random.Random(seed)
    return replace(strategy, routes=tuple(_with_tests(strategy, route, chance) for route in strategy.routes))


def _with_tests(strategy: JoinStrategy, route: Route, chance: random.Random) -> Route:
    then: list[list[Expression]] = [[] for _ in route.steps]
    for test in strategy.residuals:
        streams = streams_of(test)
        due = [d for d in range(len(route.steps) - 1) if streams <= set(route.visits[: d + 2])]
        if due and len(streams) > 1 and not uses_event_time(test) and isinstance(test, Call):
            then[chance.choice(due)].append(test)
    steps = [replace(step, then=tuple(tests)) for step, tests in zip(route.steps, then, strict=True)]
    return replace(route, steps=tuple(steps))


@contextmanager
def early(seed: int) -> Iterator[list[int]]:
    """All joins test on the way; gives how many routes do."""
    made: list[int] = []
    whole = WindowJoin.__init__

    def make(self: WindowJoin, strategy: JoinStrategy, *args: object, **named: object) -> None:
        strategy = with_early_tests(strategy, seed)
        made.append(sum(any(step.then for step in route.steps) for route in strategy.routes))
        whole(self, strategy, *args, **named)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(window_join.WindowJoin, "__init__", make)
        patch.setattr(window_join, "RECONSIDER_AFTER_ROWS", 1 << 40)
        yield made


@few
@given(cases(least_streams=3), st.data(), st.sampled_from([1, 2, 5, 50]), st.integers(0, 10**6))
def test_combinations_may_be_tested_wherever_their_columns_are_bound(case, data, rows_per_batch, seed):
    """A condition that fails for a combination which is no answer must not fail the query, one that fails for an answer
    must: as if only whole ones were tested."""
    aliases = data.draw(st.permutations(re.findall(r" AS (\w+)", case.sources_sql)))
    added = data.draw(st.lists(st.sampled_from(CONDITIONS), min_size=1, max_size=2, unique=True))
    for place, condition in enumerate(added):
        case = case.where(condition.format(*aliases[place : place + 2]))
    refuse_contradictions(case)

    def run():
        try:
            return answered(local_query(case.sql, case.sources), batch_rows=rows_per_batch)
        except DataError as error:
            return str(error)

    late = run()
    with early(seed) as tested:
        made = run()
    assert tested
    if isinstance(late, str) or isinstance(made, str):
        assert made == late
        return
    assert made.table.equals(late.table)
    assert made.bag == by_reference(case.sql, made.in_time(case.sources))
