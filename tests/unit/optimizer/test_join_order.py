"""Orders: the searches find the cheapest, the rules of thumb what GO03 says they find, and the advisor ranks all."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.effort import random_cases
from tests.unit.paper_streams import TABLE_5, TABLE_6, TABLE_7, order
from watersmeet.errors import OptionError, WatersmeetError
from watersmeet.lab.orders import rank_orders
from watersmeet.optimizer.cost.inputs import JoinGraph, Key, StreamRate, Theta
from watersmeet.optimizer.cost.loops import Loops, lazy_loops
from watersmeet.optimizer.join_order import Order, best_local_order, best_local_orders, moved_to_front
from watersmeet.papers.orders.advise import advice_text, advise, advise_orders
from watersmeet.papers.orders.best_orders import (
    best_global_order,
    best_lazy_orders,
    best_naive_order,
    every_local_order,
    every_order,
)
from watersmeet.papers.orders.cost_go03 import (
    Eager,
    eager_cost,
    general_lazy_cost,
    lazy_cost,
    naive_eager_cost,
    naive_lazy_cost,
)
from watersmeet.papers.orders.heuristics import (
    augmented_order,
    expensive_first_or_last,
    fast_streams,
    greedy_local_order,
    hybrid_order,
    ranked_local_order,
    selectivity_order,
    selectivity_orders,
    size_order,
    volatile_order,
)

TABLES = {"5": TABLE_5, "6": TABLE_6, "7": TABLE_7}


def close_to(cost: float) -> object:
    return pytest.approx(cost, rel=1e-9)


# ---- GO03's tables --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("table", "cost"), [("5", 16000), ("6", 80400), ("7", 47976.92)])
def test_the_search_finds_the_best_order_of_each_table(table: str, cost: float) -> None:
    graph = TABLES[table]
    assert eager_cost(graph, best_global_order(graph)) == pytest.approx(cost, abs=0.005)


def test_the_heuristic_leaves_open_what_go03_says() -> None:
    assert set(selectivity_orders(TABLE_5)) == {order("1234"), order("2134")}
    assert set(selectivity_orders(TABLE_6)) == {order("2341"), order("3241")}
    assert set(selectivity_orders(TABLE_7)) == {order("3412"), order("4312")}


@pytest.mark.parametrize(("table", "cost"), [("5", 16000), ("6", 248450), ("7", 49542.31)])
def test_the_heuristic_costs_what_go03_says(table: str, cost: float) -> None:
    graph = TABLES[table]
    assert eager_cost(graph, selectivity_order(graph)) == pytest.approx(cost, abs=0.005)


@pytest.mark.parametrize("table", TABLES)
def test_moving_the_fast_streams_outward_reaches_the_best_order_of_each_table(table: str) -> None:
    graph = TABLES[table]
    assert eager_cost(graph, augmented_order(graph)) == close_to(eager_cost(graph, best_global_order(graph)))


def test_the_fast_streams_of_go03_are_found() -> None:
    assert [fast_streams(graph) for graph in TABLES.values()] == [("S1",), ("S1",), ("S1", "S2")]


def test_fast_streams_may_be_named() -> None:
    assert augmented_order(TABLE_6, fast=()) == selectivity_order(TABLE_6)
    assert augmented_order(TABLE_6, fast=["S1"]) == augmented_order(TABLE_6)


def test_with_equal_distinct_counts_smaller_windows_and_buckets_come_first() -> None:
    graph = JoinGraph.on_one_key(
        [StreamRate("a", 3, 100, 50), StreamRate("b", 1, 100, 50), StreamRate("c", 2, 100, 50)]
    )
    assert size_order(graph) == ("b", "c", "a")
    assert eager_cost(graph, size_order(graph)) == close_to(eager_cost(graph, best_global_order(graph)))
    indexed = (replace(graph.streams[0], buckets=10), *graph.streams[1:])
    assert size_order(JoinGraph.on_one_key(indexed)) == ("a", "b", "c")


# ---- searches against all orders ------------------------------------------------------------------------------------


@st.composite
def graphs(draw: st.DrawFn) -> JoinGraph:
    """Joins of up to five streams with any mixture of keys, skew, predicates, bounds and indexes."""
    names = "abcde"[: draw(st.integers(1, 5))]
    number = st.floats(0.5, 100)
    streams = tuple(StreamRate(n, draw(number), draw(number), buckets=draw(st.sampled_from([1, 1, 8]))) for n in names)
    keys = tuple(draw(keys_of(names)) for _ in range(draw(st.integers(0, 2))))
    pairs = st.lists(st.sampled_from(names), min_size=2, max_size=3, unique=True).map(frozenset)
    theta = st.builds(Theta, pairs, st.floats(0, 1), st.sampled_from([0.0, 1.0, 50.0]))
    thetas = tuple(draw(st.lists(theta, max_size=2))) if len(names) > 1 else ()
    narrow = st.dictionaries(st.sampled_from(list(permutations(names, 2))), st.floats(0, 50), max_size=6)
    return JoinGraph(streams, keys, thetas, draw(narrow) if len(names) > 1 else {})


@st.composite
def keys_of(draw: st.DrawFn, names: str) -> Key:
    members = draw(st.lists(st.sampled_from(names), unique=True))
    skewed = draw(st.sets(st.sampled_from(names))) & set(members)
    weights = {name: draw(st.lists(st.integers(1, 50), min_size=1, max_size=5)) for name in sorted(skewed)}
    shares = {name: tuple(one / sum(given) for one in given) for name, given in weights.items()}
    return Key({name: draw(st.integers(1, 500)) for name in members if name not in skewed}, shares)


@random_cases(60)
@given(graphs())
def test_the_search_over_sets_finds_the_cheapest_of_all_global_orders(graph: JoinGraph) -> None:
    eager = Eager(graph)
    assert eager.of_global(best_global_order(graph)) == close_to(min(map(eager.of_global, every_order(graph))))


@random_cases(60)
@given(graphs(), st.booleans())
def test_the_search_over_sets_finds_the_cheapest_of_all_local_orders(graph: JoinGraph, cross_products: bool) -> None:
    for name, found in best_local_orders(graph, cross_products=cross_products).items():
        loops, permitted = Loops(graph, name), list(every_local_order(graph, name, cross_products=cross_products))
        assert found in permitted
        assert loops.cost(found) == close_to(min(map(loops.cost, permitted)))


@random_cases(40)
@given(graphs(), st.floats(0.1, 100))
def test_the_search_over_sets_finds_the_cheapest_orders_of_lazy_joins(graph: JoinGraph, interval: float) -> None:
    for name, found in best_lazy_orders(graph, interval).items():
        loops = lazy_loops(graph, name, interval)
        assert loops.cost(found) == close_to(min(map(loops.cost, every_order(graph))))
    for naive, found in (
        (lambda every: naive_lazy_cost(graph, every, interval), best_naive_order(graph, interval)),
        (lambda every: naive_eager_cost(graph, every), best_naive_order(graph)),
    ):
        assert naive(found) == close_to(min(map(naive, every_order(graph))))


@random_cases(60)
@given(graphs(), st.floats(0.1, 100))
def test_general_is_never_dearer_than_lazy_or_naive_nor_local_than_global(graph: JoinGraph, interval: float) -> None:
    slack = 1 + 1e-9
    general = general_lazy_cost(graph, best_lazy_orders(graph, interval), interval)
    assert general <= naive_lazy_cost(graph, best_naive_order(graph, interval), interval) * slack
    assert general <= lazy_cost(graph, best_global_order(graph), interval) * slack
    eager = Eager(graph)
    local = eager.of_orders(best_local_orders(graph, cross_products=True))
    chosen = best_global_order(graph)
    assert local <= eager.of_global(chosen) * slack
    by_origin = {name: moved_to_front(chosen, name) for name in graph.names}
    assert eager.of_global(chosen) == close_to(eager.of_orders(by_origin))


def test_eager_joins_that_bind_the_new_row_first_are_never_dearer_than_naive_ones() -> None:
    for graph in random_joins(50, rates=100, distinct=(2, 1000)):
        naive = naive_eager_cost(graph, best_naive_order(graph))
        assert eager_cost(graph, best_global_order(graph)) <= naive * (1 + 1e-9)


@random_cases(60)
@given(graphs())
def test_every_rule_of_thumb_gives_an_order_that_the_join_graph_permits(graph: JoinGraph) -> None:
    for rule in (size_order, selectivity_order, augmented_order, hybrid_order):
        assert sorted(rule(graph)) == list(graph.names)
    for local_rule in (greedy_local_order, ranked_local_order, expensive_first_or_last):
        for name in graph.names:
            assert local_rule(graph, name) in every_local_order(graph, name)


# ---- how good the rules of thumb are --------------------------------------------------------------------------------


def random_joins(count: int, *, rates: float, distinct: tuple[float, float]) -> list[JoinGraph]:
    """GO03's kind of join, of three to five streams; all numbers evenly spread over orders of magnitude."""
    chance = random.Random(2003)

    def between(low: float, high: float) -> float:
        return math.exp(chance.uniform(math.log(low), math.log(high)))

    def stream(name: str) -> StreamRate:
        return StreamRate(name, between(1, rates), between(100, 200), round(between(*distinct)))

    return [JoinGraph.on_one_key(map(stream, "abcde"[: chance.randint(3, 5)])) for _ in range(count)]


def share_within(
    graphs: list[JoinGraph], rule: Callable[[JoinGraph], float], best: Callable[[JoinGraph], float]
) -> float:
    return sum(rule(graph) <= 1.5 * best(graph) for graph in graphs) / len(graphs)


def globally(rule: Callable[[JoinGraph], Order]) -> Callable[[JoinGraph], float]:
    return lambda graph: eager_cost(graph, rule(graph))


def locally(rule: Callable[[JoinGraph, str], Order]) -> Callable[[JoinGraph], float]:
    return lambda graph: Eager(graph).of_orders({name: rule(graph, name) for name in graph.names})


def test_moving_fast_streams_outward_is_within_half_of_the_best_for_streams_of_similar_rates() -> None:
    similar = random_joins(200, rates=10, distinct=(20, 500))
    assert share_within(similar, globally(augmented_order), globally(best_global_order)) >= 0.95


def test_ranks_are_within_half_of_the_best_however_much_streams_differ() -> None:
    for rates, distinct in ((10, (20, 500)), (100, (2, 1000))):
        joins = random_joins(200, rates=rates, distinct=distinct)
        assert share_within(joins, locally(ranked_local_order), locally(best_local_order)) >= 0.95


def test_selectivity_alone_is_not_enough_for_streams_that_differ_much() -> None:
    """Why the product does not follow it: it scans a long window early if little of it matches."""
    joins = random_joins(200, rates=100, distinct=(2, 1000))
    assert share_within(joins, globally(selectivity_order), globally(best_global_order)) < 0.8
    assert share_within(joins, locally(greedy_local_order), locally(best_local_order)) < 0.9


# ---- join graphs, predicates, indexes -------------------------------------------------------------------------------

SHOP = JoinGraph(
    (StreamRate("c", 100, 300), StreamRate("o", 10, 600), StreamRate("p", 0.1, 600)),
    (Key({"c": 1000, "o": 1000}), Key({"o": 6000, "p": 6000})),
)


def test_a_stream_waits_until_a_predicate_ties_it_to_those_bound() -> None:
    """A product of clicks with 60 payments would be the smaller scan."""
    assert list(every_local_order(SHOP, "c")) == [("c", "o", "p")]
    assert best_local_order(SHOP, "c") == greedy_local_order(SHOP, "c") == ("c", "o", "p")
    assert best_local_order(SHOP, "c", cross_products=True) == ("c", "o", "p")
    assert best_local_orders(SHOP) == {"c": ("c", "o", "p"), "o": ("o", "p", "c"), "p": ("p", "o", "c")}


def test_streams_without_any_predicate_come_last() -> None:
    lone = JoinGraph((*SHOP.streams, StreamRate("x", 1, 1)), SHOP.keys)
    assert [best_local_order(lone, name)[-1] for name in "cop"] == ["x", "x", "x"]
    assert set(best_local_order(lone, "x")) == set("copx")


def test_an_expensive_predicate_is_tested_where_few_combinations_reach_it() -> None:
    """a and b are compared by something dear; c either removes nearly all combinations or multiplies them."""

    def join(distinct: float) -> JoinGraph:
        streams = (StreamRate("a", 1, 100), StreamRate("b", 1, 100), StreamRate("c", 1, 100))
        dear = Theta(frozenset("ab"), 0.9, cost=1000)
        return JoinGraph(streams, (Key({"a": distinct, "c": distinct}), Key({"b": 10, "c": 10})), (dear,))

    for distinct, expected in ((10_000, "acb"), (2, "abc")):
        graph = join(distinct)
        assert expensive_first_or_last(graph, "a") == tuple(expected) == best_local_order(graph, "a")


def test_indexed_windows_go_innermost() -> None:
    s1, s2, s3, s4 = TABLE_5.streams
    hybrid = JoinGraph((replace(s1, buckets=100), s2, replace(s3, buckets=20), s4), TABLE_5.keys)
    assert {*hybrid_order(hybrid)[:2]} == {"S2", "S4"}
    assert {*hybrid_order(hybrid)[2:]} == {"S1", "S3"}


# ---- limits and time ------------------------------------------------------------------------------------------------


def many(count: int) -> JoinGraph:
    return JoinGraph.on_one_key(StreamRate(f"s{i}", 1 + i * 7 % 5, 10 + i, 5 + i * 3 % 7) for i in range(count))


def test_a_join_of_six_streams_is_planned_in_time() -> None:
    def seconds() -> float:
        started = time.process_time()
        best_local_orders(many(6))
        return time.process_time() - started

    assert min(seconds() for _ in range(3)) < 0.05


def test_eight_streams_are_searched_and_nine_are_refused() -> None:
    assert len(best_global_order(many(8))) == 8
    with pytest.raises(WatersmeetError, match="an order of 9 streams was asked for; the search takes 1 to 8"):
        best_global_order(many(9))


# ---- the advisor ----------------------------------------------------------------------------------------------------


def test_the_advisor_ranks_all_orders_of_table_5() -> None:
    ranked = advise_orders(TABLE_5)
    rank = {one.order: (one.rank, round(one.cost)) for one in ranked}
    assert len(ranked) == 24
    assert (ranked[0].order, rank[order("1234")]) == (order("1234"), (1, 16000))
    assert rank[order("2134")] == (5, 19600)
    assert ranked[-1].order == order("4321")


def test_orders_of_equal_cost_share_a_rank() -> None:
    """Table 7: S3 and S4 are interchangeable."""
    rank = {one.order: one.rank for one in advise_orders(TABLE_7.streams)}
    assert rank[order("3142")] == rank[order("4132")] == 1
    assert min(other for other in rank.values() if other > 1) == 3


def test_advice_names_the_choices_of_the_heuristics_and_the_orders_by_origin() -> None:
    text = advice_text(advise(TABLE_6), limit=3)
    assert text.splitlines()[:6] == [
        "rank  order               cost  of best",
        "   1  S2, S1, S3, S4   80400.0     1.00  augmented heuristic",
        "   2  S2, S1, S4, S3  100400.0     1.25",
        "   3  S1, S2, S3, S4  120000.0     1.49",
        "…  20 orders more",
        "  24  S4, S3, S1, S2  646050.0     8.04",
    ]
    assert "mean of all 24 orders: 279400.0" in text


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"interval": 0.0}, "the interval of lazy evaluation is 0"),
        ({"predicates": ["a,z:0.5,3"]}, "a predicate names z, which is none of the streams a, b"),
        ({"predicates": ["a,b"]}, "'a,b' is no predicate"),
        ({"equal": ["a,q"]}, "does not name two streams"),
    ],
)
def test_what_is_wrong_with_a_join_to_be_ordered_is_told(said: dict[str, Any], told: str) -> None:
    with pytest.raises(OptionError, match=told):
        rank_orders(["a:1,2,3", "b:1,2,3"], **said)


# ---- streams whose rates fluctuate (GO03, 5.4) -----------------------------------------------------------------------


def test_streams_that_fluctuate_stand_near_the_top_as_far_as_conditions_allow() -> None:
    assert volatile_order(TABLE_5, ["S4"])[0] == "S4"
    assert set(volatile_order(TABLE_5, ["S4", "S2"])[:2]) == {"S2", "S4"}
    assert sorted(volatile_order(TABLE_5, ["S4"])) == sorted(TABLE_5.names)
    streams = tuple(StreamRate(name, 10, 100, 50) for name in "abcd")
    chain = JoinGraph(streams, keys=tuple(Key({one: 50, other: 50}) for one, other in ("ab", "bc", "cd")))
    assert volatile_order(chain, ["d", "a"]) == ("a", "b", "c", "d")  # d is tied to c alone


def test_it_depends_on_the_streams_whether_that_is_prudent() -> None:
    """Where the fast stream has many values its few partners come first; where it has few they multiply."""
    for values, pays in (((50, 50, 100), True), ((100, 50, 20), False)):
        streams = [StreamRate(*one) for one in zip("abc", (1, 5, 10), (100,) * 3, values, strict=True)]
        usual, prudent = (
            rule(JoinGraph.on_one_key(streams))
            for rule in (selectivity_order, lambda graph: volatile_order(graph, "c"))
        )
        risen = JoinGraph.on_one_key([*streams[:2], replace(streams[2], rate=100)])
        assert (eager_cost(risen, prudent) < eager_cost(risen, usual)) == pays
