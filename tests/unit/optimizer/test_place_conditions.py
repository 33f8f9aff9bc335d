"""Conditions on combinations: where along which order they are tested."""

from __future__ import annotations

import itertools
import json
import random

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import watersmeet as wm
from tests.runners import answered
from watersmeet.errors import CatalogError
from watersmeet.operators.join import window_join
from watersmeet.optimizer.cost.inputs import JoinGraph, Key, StreamRate
from watersmeet.optimizer.cost.walk import Walk
from watersmeet.optimizer.place_conditions import Condition, Leg, SiftedWalk, cheapest_legs, legs_along
from watersmeet.optimizer.plan_query import plan_query
from watersmeet.physical.strategy import JoinStrategy
from watersmeet.plan.expressions import Literal
from watersmeet.session import Query

NEAR = "SELECT a.v, b.v AS w, c.v AS z FROM a, b, c WHERE a.k = b.k AND b.k = c.k AND {} WINDOW = 4 SECONDS"


def total_ns(walk: Walk, conditions: list[Condition], legs: list[Leg]) -> float:
    return sum(ns for _, _, ns, _ in SiftedWalk(walk, conditions).costs(legs))


def every_way(walk: Walk, conditions: list[Condition]) -> list[list[Leg]]:
    """All orders that are permitted, with every condition at each place where its streams are bound."""
    ways = []
    first, sifted = walk.graph.position("a"), SiftedWalk(walk, conditions)
    for rest in itertools.permutations([one for one in range(len(walk.graph.streams)) if one != first]):
        bound, places = 1 << first, []
        for stream in rest:
            if stream not in sifted.may_follow(bound):
                break
            bound |= 1 << stream
            places.append(bound)
        else:
            early = [
                [None, *(d for d, bits in enumerate(places[:-1]) if one.bits & bits == one.bits)] for one in conditions
            ]
            for chosen in itertools.product(*early):
                then = [tuple(c for c, at in zip(conditions, chosen, strict=True) if at == d) for d in range(len(rest))]
                ways.append([Leg(stream, tests) for stream, tests in zip(rest, then, strict=True)])
    return ways


@pytest.mark.parametrize("seed", range(25))
def test_no_other_order_with_the_conditions_elsewhere_costs_less(seed: int) -> None:
    chance = random.Random(seed)
    streams = tuple(StreamRate(name, 1, chance.choice([10, 100, 1000])) for name in "abcd")
    keys = tuple(
        Key({one: chance.choice([3.0, 30.0, 300.0]), other: chance.choice([3.0, 30.0, 300.0])})
        for one, other in (("a", "b"), ("b", "c"), ("c", "d"))
    )
    walk = Walk(JoinGraph(streams, keys), "a")
    conditions = [
        Condition(
            Literal(place, pa.int64()),
            sum(1 << one for one in chance.sample(range(4), chance.choice([2, 3, 4]))),
            chance.choice([0.01, 0.3, 0.9]),
            chance.choice([5.0, 500.0, 50_000.0]),
        )
        for place in range(3)
    ]
    found = cheapest_legs(walk, conditions)
    least = min(total_ns(walk, conditions, way) for way in every_way(walk, conditions))
    assert total_ns(walk, conditions, found) == pytest.approx(least)
    order = ("a", *(walk.graph.names[leg.stream] for leg in found))
    assert total_ns(walk, conditions, legs_along(walk, conditions, order)) == pytest.approx(least)


@pytest.mark.parametrize(
    ("ns", "passing", "rows_of_c", "after"),
    [(20.0, 0.05, 1000, 0), (2.0, 0.95, 1000, None), (50_000.0, 0.95, 1000, 0), (50_000.0, 0.05, 10, None)],
)
def test_what_lets_few_pass_is_tested_early_and_what_is_dear_where_few_are_left(ns, passing, rows_of_c, after) -> None:
    """A row has fifty partners in b. Each of these has ten in c, or only one of ten has one."""
    streams = (StreamRate("a", 1, 100), StreamRate("b", 1, 5000), StreamRate("c", 1, rows_of_c))
    graph = JoinGraph(streams, (Key({"a": 100.0, "b": 100.0}), Key({"b": 100.0, "c": 100.0})))
    walk = Walk(graph, "a")
    one = Condition(Literal(True, pa.bool_()), 0b011, passing, ns)
    legs = legs_along(walk, [one], "abc")
    assert next((place for place, leg in enumerate(legs) if leg.then), None) == after


def strategy_of(query: Query) -> JoinStrategy:
    strategy = plan_query(query.plan).strategy
    assert isinstance(strategy, JoinStrategy)
    return strategy


def session_of(price: str | None = None, rows: int = 6000, **known: object) -> wm.Session:
    session = wm.Session()
    for seed, name in enumerate("abc"):
        made = np.random.default_rng(seed)
        table = pa.table(
            {
                "k": made.integers(0, 20, rows),
                "v": made.normal(size=rows),
                "ts": pa.array(np.sort(made.integers(0, 40_000_000, rows)), pa.timestamp("us")),
            }
        )
        session.stream(name, table, time="ts", **(known or {"distinct": {"k": 20}}))
    near = lambda x, y: pc.less(pc.abs(pc.multiply(x, y)), 0.01)  # noqa: E731
    session.function("near", near, ["DOUBLE", "DOUBLE"], "BOOLEAN", price=price)
    return session


def test_the_price_that_is_declared_of_a_function_says_where_it_is_tested() -> None:
    cheap, dear = (session_of(price).sql(NEAR.format("near(a.v, b.v)")) for price in ("1 microsecond", "1 second"))
    assert [step.then != () for step in strategy_of(cheap).route("a").steps] == [True, False]
    assert "then those with near(a.v, b.v)" in cheap.explain()
    # c multiplies what b has found, so the test comes before it: a second for each of few, not of many.
    assert [step.then != () for step in strategy_of(dear).route("a").steps] == [True, False]
    # A new row of c meets both before it can be tested: whatever it costs, on whole combinations.
    assert not any(step.then for step in strategy_of(dear).route("c").steps)
    assert "near(a.v, b.v) (of a new row of c)" in dear.explain()
    told = json.loads(dear.explain(format="json"))["estimate"]["conditions"][0]
    assert (told["price_known"], told["ns"]) == ("declared", pytest.approx(1e9))
    assert told["tested_after"] == {"a": "b", "b": "a", "c": None}


def test_a_dear_condition_waits_for_a_selective_window_and_a_cheap_one_does_not() -> None:
    def query(price: str) -> Query:
        session = session_of(price)
        rare = pa.table({"k": [1], "v": [0.0], "ts": pa.array([0], pa.timestamp("us"))})
        session.stream("c", rare, time="ts", rate="1/s", distinct={"k": 20}, replace=True)
        return session.sql(NEAR.format("near(a.v, b.v)") + " OPTIONS (order = 'a, b, c')")

    assert any(step.then for step in strategy_of(query("1 microsecond")).route("a").steps) is False
    assert any(step.then for step in strategy_of(query("10 milliseconds")).route("a").steps) is False


def test_a_running_join_measures_how_many_pass_and_tests_few_combinations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is declared of the condition: it finds its place while the join runs."""
    monkeypatch.setattr(window_join, "RECONSIDER_AFTER_ROWS", 300)
    session = session_of(rows=1500, distinct={})
    condition = "ABS(a.v * b.v) < 0.01"
    early = session.sql(NEAR.format(condition))
    assert not any(step.then for step in strategy_of(early).route("a").steps)
    late = session.sql(NEAR.format(condition) + " OPTIONS (memory = '100000 rows', recall = 'none')")
    moved, stayed = answered(early, batch_rows=100), answered(late, batch_rows=100)
    assert moved.bag == stayed.bag
    assert len(moved.bag) > 1000
    assert moved.metrics["plan_switches"] > 0
    # Of the new rows of c all combinations are whole when they can be tested.
    assert moved.metrics["tested_combinations"] < 0.75 * stayed.metrics["tested_combinations"]


def test_where_rows_lose_their_memory_whole_combinations_are_tested() -> None:
    query = session_of("1 microsecond").sql(NEAR.format("near(a.v, b.v)") + " OPTIONS (memory = '1000 rows')")
    assert not any(step.then for route in strategy_of(query).routes for step in route.steps)
    assert "then, on whole combinations: near(a.v, b.v)" in query.explain()


def test_a_rule_of_the_paper_goes_by_prices() -> None:
    """GO03, 5.4: expensive predicates near the top."""
    query = session_of("1 millisecond").sql(NEAR.format("near(a.v, c.v)") + " OPTIONS (order = 'expensive')")
    assert strategy_of(query).route("a").visits == ("a", "c", "b")
    assert "by the rule expensive" in query.explain()


@pytest.mark.parametrize("price", ["soon", "0 seconds", 5])
def test_a_price_that_is_none_is_refused(price: object) -> None:
    with pytest.raises(CatalogError, match="the price of function f is what it takes for a row"):
        wm.Session().function("f", lambda x: x, ["BIGINT"], "BIGINT", price=price)  # type: ignore[arg-type]
