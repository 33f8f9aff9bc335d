"""For each stream, the order in which its new rows visit the others, and through which index: what costs least.

The search is over all orders of each origin. An order that the query asks for, or that a rule finds which it names, is
followed instead; through which index is still chosen step by step. Joins by the papers' algorithms have no indexes to
choose; GO03's loops take the best order for their own costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from watersmeet.optimizer.cost.inputs import Theta
from watersmeet.optimizer.cost.loops import members
from watersmeet.optimizer.cost.walk import TESTED_ROW_NS, Walk
from watersmeet.optimizer.describe import Description
from watersmeet.optimizer.join_order import MOST_STREAMS, cheapest, moved_to_front, permitted
from watersmeet.optimizer.place_conditions import Leg, cheapest_legs, legs_along
from watersmeet.optimizer.ranked_order import ranked_order
from watersmeet.physical.strategy import Access, Code, Comparison, JoinStrategy, Route, Step
from watersmeet.plan.published import LOOP_ORDERS, OrderRule, load

ABOVE = ("gt", "ge")
BELOW = ("lt", "le")


def choose_routes(strategy: JoinStrategy) -> JoinStrategy:
    if len(strategy.join.inputs) < 2:
        return strategy
    return with_routes(Description(strategy))


def with_routes(description: Description) -> JoinStrategy:
    """The strategy described, with the best routes for its numbers."""
    strategy = description.strategy
    if strategy.is_flexible and strategy.method.order_rule is None and len(description.aliases) <= MOST_STREAMS:
        found = {one.alias: _best_legs(description, one.alias) for one in strategy.join.streams}
        routes = tuple(_route(description, origin, legs) for origin, legs in found.items())
        return replace(strategy, routes=routes)
    orders = strategy.method.orders or _orders(description)
    routes = tuple(_in_order(description, one.alias, orders[one.alias]) for one in strategy.join.streams)
    return replace(strategy, routes=routes)


def walk_of(description: Description, origin: str) -> Walk:
    return Walk(description.graph, origin, intervals_of(description.strategy))


def intervals_of(strategy: JoinStrategy) -> frozenset[tuple[str, str]]:
    """The pairs of inputs (own, bound) where the second tells an interval for a code of the first."""
    pairs = {(c.own.stream, c.bound.stream) for c in strategy.comparisons}
    return frozenset(
        (own, bound)
        for own, bound in pairs
        if _interval(tuple(c for c in strategy.comparisons if (c.own.stream, c.bound.stream) == (own, bound)))
    )


def _best_legs(description: Description, origin: str) -> list[Leg]:
    return cheapest_legs(walk_of(description, origin), description.conditions)


def legs_in(description: Description, origin: str, order: Sequence[str]) -> list[Leg]:
    """An order of the engine's own join, with conditions where they are best tested along it."""
    return legs_along(walk_of(description, origin), description.conditions, order)


def _orders(description: Description) -> dict[str, tuple[str, ...]]:
    strategy = description.strategy
    origins = [one.alias for one in strategy.join.streams]
    method = strategy.method
    if method.order_rule is not None:
        return _by_rule(description, method.order_rule, origins)
    if method.kind.loops and len(description.aliases) <= MOST_STREAMS:
        found: dict[str, tuple[str, ...]] = load(LOOP_ORDERS)(description, origins)
        return found
    return {origin: _order(walk_of(description, origin)) for origin in origins}


def _by_rule(description: Description, rule: OrderRule, origins: list[str]) -> dict[str, tuple[str, ...]]:
    method = description.strategy.method
    graph = description.with_buckets(method.buckets) if method.kind.loops else description.graph
    if rule.by_price:
        graph = replace(graph, thetas=(*graph.thetas, *_priced(description)))
    found = load(rule.found_by)
    if rule.by_origin:
        return {origin: found(graph, origin) for origin in origins}
    order: tuple[str, ...] = found(graph, rule.of) if rule.of else found(graph)
    return {origin: order if method.kind.keeps_places else moved_to_front(order, origin) for origin in origins}


def _priced(description: Description) -> list[Theta]:
    """Conditions on combinations as the rules see them, which count in comparisons."""
    joined = [one for one in description.conditions if one.bits.bit_count() > 1]
    names = description.aliases
    streams = [frozenset(names[place] for place in members(one.bits)) for one in joined]
    return [Theta(on, one.passing, one.ns / TESTED_ROW_NS) for on, one in zip(streams, joined, strict=True)]


def _order(walk: Walk) -> tuple[str, ...]:
    if len(walk.graph.streams) > MOST_STREAMS:
        return ranked_order(walk)
    return cheapest(walk.graph, walk.step, walk.origin, lambda bound: permitted(walk, bound))


def _in_order(description: Description, origin: str, order: tuple[str, ...]) -> Route:
    strategy = description.strategy
    if not strategy.method.is_classic and order[0] == origin:
        return _route(description, origin, legs_in(description, origin, order))
    # The papers' joins have no indexes to choose, and test whole combinations.
    steps = [_step(strategy, list(order[:d]), order[d], None) for d in range(1, len(order))]
    return Route(origin, tuple(steps), order[0])


def _route(description: Description, origin: str, legs: Sequence[Leg]) -> Route:
    walk = walk_of(description, origin)
    bound, bits, steps = [origin], walk.new, []
    for leg in legs:
        name = walk.graph.names[leg.stream]
        step = _step(description.strategy, bound, name, walk.visit(bits, leg.stream).access)
        steps.append(replace(step, then=tuple(one.expression for one in leg.then)))
        bound.append(name)
        bits |= 1 << leg.stream
    return Route(origin, tuple(steps))


def _step(strategy: JoinStrategy, bound: list[str], stream: str, wanted: Access | None) -> Step:
    equalities = _equalities(strategy, bound, stream)
    comparisons = tuple(c for c in strategy.comparisons if c.own.stream == stream and c.bound.stream in bound)
    interval = _interval(comparisons)
    if wanted is None:
        wanted = "hash" if equalities else "sorted" if interval is not None else "scan"
    if wanted == "sorted" and interval is not None:
        # The interval's own comparisons come first, as they are the ends of the search.
        first = tuple(sorted(comparisons, key=lambda c: c.own != interval))
        return Step(stream, "sorted", equalities, first, interval)
    if wanted == "hash" and equalities:
        return Step(stream, "hash", equalities, comparisons)
    return Step(stream, "scan", equalities, comparisons)


def _equalities(strategy: JoinStrategy, bound: list[str], stream: str) -> tuple[tuple[Code, Code], ...]:
    """One bound code per own code, the earliest bound: the rest follows by transitivity."""
    chosen: dict[Code, Code] = {}
    for equality in strategy.equalities:
        for own, other in ((equality.left, equality.right), (equality.right, equality.left)):
            if own.stream != stream or other.stream not in bound:
                continue
            held = chosen.get(own)
            if held is None or bound.index(other.stream) < bound.index(held.stream):
                chosen[own] = other
    # In an order of their own, so that two steps with the same key share an index.
    ordered = sorted(chosen, key=str)
    return tuple((chosen[own], own) for own in ordered)


def _interval(comparisons: tuple[Comparison, ...]) -> Code | None:
    """An own code that is bounded from both sides."""
    for comparison in comparisons:
        operators = {c.operator for c in comparisons if c.own == comparison.own}
        if operators & set(ABOVE) and operators & set(BELOW):
            return comparison.own
    return None
