"""Whatever the query, an operator that is handed on as bytes after every batch answers as if nothing had happened."""

from __future__ import annotations

import random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.conformance.methods import H02, NAMED
from tests.conformance.test_window_forms import asked, shapes
from tests.effort import random_cases, thinned
from tests.properties import continuous_strategies, strategies
from tests.properties.outer_strategies import OuterCase, outer_cases
from tests.properties.test_joins import refuse_contradictions
from tests.properties.test_outer_joins import planned
from tests.relays import Relay, goes_on_as_if_nothing_had_happened
from tests.runners import Source, bound_plan
from tests.unit.operators.keeping.test_shedding_join import FORMS, MEMORY, random_tables, selected
from watersmeet.errors import UnsupportedError
from watersmeet.operators.join import window_join
from watersmeet.optimizer.stages import optimize
from watersmeet.physical.estimate import Switch
from watersmeet.physical.strategy import JoinStatistics, JoinStrategy
from watersmeet.plan.method import Method
from watersmeet.runtime import build as building

few = random_cases(15)


@few
@given(strategies.cases(), st.integers(1, 7))
def test_random_joins(case: strategies.Case, batches: int) -> None:
    refuse_contradictions(case)
    assume(any(len(source.table) for source in case.sources if source.time is not None))
    goes_on_as_if_nothing_had_happened(Relay(bound_plan(case.sql, case.sources), case.sources), batches)


@random_cases(40)
@given(continuous_strategies.cases(), st.integers(1, 7), st.sampled_from(("auto", "ita", "tpa", "nta")))
def test_random_continuous_queries(case: continuous_strategies.Case, batches: int, pipeline: str) -> None:
    assume(any(len(source.table) for source in case.sources if source.name in case.query))
    try:
        relay = Relay(bound_plan(case.sql(pipeline=pipeline), case.sources), case.sources)
        relay.fresh()
    except UnsupportedError:
        assume(False)
    goes_on_as_if_nothing_had_happened(relay, batches)


@few
@given(outer_cases(), st.integers(1, 7))
def test_random_trees_of_joins_with_rows_left_over(case: OuterCase, batches: int) -> None:
    plan = planned(case)
    assume(any(len(source.table) for source in case.sources))
    goes_on_as_if_nothing_had_happened(Relay(plan, case.sources), batches)


@pytest.mark.lab
@pytest.mark.parametrize("name", [*NAMED, *H02])
def test_the_algorithms_of_the_papers(name: str) -> None:
    sources = shapes()["in order"]
    sql = asked("unequal ranges", {**NAMED, **H02}[name])
    goes_on_as_if_nothing_had_happened(Relay(bound_plan(sql, sources), sources))


@pytest.mark.slow
@pytest.mark.parametrize(("form", "policy"), thinned(FORMS, ["rand", "prob", "life", "age", "drift", "arm"]))
def test_joins_in_bounded_memory(form: str, policy: str) -> None:
    sources = [Source(name, table) for name, table in zip("abcd", random_tables(int(form[0])), strict=False)]
    for recall in ("exact",) if policy == "arm" else ("exact", "none"):
        sql = f"{selected(form)} OPTIONS (memory = '{MEMORY[form]} rows', shed = '{policy}', recall = '{recall}')"
        goes_on_as_if_nothing_had_happened(Relay(bound_plan(sql, sources), sources), 5)


class Restless:
    """A planner that finds another order at every chance."""

    STATE = ("chances",)

    def __init__(self, strategy: JoinStrategy) -> None:
        self.strategy = strategy
        self.chances = 0

    def consider(self, measured: JoinStatistics, at_us: int) -> tuple[JoinStrategy, Switch]:
        self.chances += 1
        chance, aliases = random.Random(self.chances), [one.alias for one in self.strategy.join.inputs]
        orders = {
            one.alias: (one.alias, *chance.sample([a for a in aliases if a != one.alias], len(aliases) - 1))
            for one in self.strategy.join.streams
        }
        found = optimize(self.strategy.join, Method(orders=orders), measured)
        self.strategy = JoinStrategy(**{**vars(self.strategy), "routes": found.routes})
        return self.strategy, Switch(at_us, (), (), 1.0, 1.0)


@few
@given(strategies.cases(), st.integers(2, 7))
def test_a_join_whose_routes_change_goes_by_those_it_had(case: strategies.Case, batches: int) -> None:
    """Stores are handed on with the indexes of the present routes, not of those that the plan begins with."""
    refuse_contradictions(case)
    assume(any(len(source.table) for source in case.sources if source.time is not None))
    plan = bound_plan(case.sql, case.sources)
    assume(len(plan.root.child.inputs) > 2)  # type: ignore[attr-defined]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(building, "Replanner", Restless)
        patched.setattr(window_join, "RECONSIDER_AFTER_ROWS", 1)
        goes_on_as_if_nothing_had_happened(Relay(plan, case.sources), batches)
