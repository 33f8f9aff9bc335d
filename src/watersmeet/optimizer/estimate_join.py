"""What a join should cost as it stands, and what it would cost in other ways: the numbers of EXPLAIN."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from watersmeet.operators.join.combinations import payload_columns
from watersmeet.optimizer.choose_routes import legs_in, walk_of
from watersmeet.optimizer.cost.loops import Loops, lazy_loops
from watersmeet.optimizer.cost.walk import TESTED_ROW_NS, Walk
from watersmeet.optimizer.describe import Description
from watersmeet.optimizer.join_order import MOST_STREAMS, best_local_orders, cheapest, moved_to_front, permitted
from watersmeet.optimizer.place_conditions import Condition, Leg, SiftedWalk
from watersmeet.physical.estimate import (
    Alternative,
    ConditionEstimate,
    InputEstimate,
    JoinEstimate,
    RouteEstimate,
    StepEstimate,
)
from watersmeet.physical.strategy import JoinStrategy
from watersmeet.plan.expressions import Expression, to_text
from watersmeet.plan.method import DEFAULT_BUCKETS

# The papers' loops, as measured: to begin one, and for each row it compares; by H02's merge join, row by row.
LOOP_NS = 120.0
COMPARED_ROW_NS = 0.35
MERGED_ROW_NS = 0.7
# In bytes; what a text takes is a guess.
TIME_BYTES = CODE_BYTES = INDEX_BYTES = 8
TEXT_BYTES = 24
Columns = Sequence[tuple[str, Expression]]


def estimate_join(strategy: JoinStrategy, columns: Columns = ()) -> JoinEstimate | None:
    """None for algorithms whose paper gives no costs (H02's)."""
    if len(strategy.join.inputs) < 2:
        return None
    description = Description(strategy)
    inputs = {alias: _input(description, alias, columns) for alias in description.aliases}
    distinct = {
        str(code): description.distinct(code)
        for e in strategy.equalities
        if not e.implied
        for code in (e.left, e.right)
    }
    way, unique = _way(strategy), _unique(description)
    if not strategy.method.is_classic:
        routes = _walked_as_chosen(description, strategy)
        alternatives = _alternatives(description, routes)
        return JoinEstimate(inputs, routes, alternatives, distinct, way, unique, _conditions(description))
    if strategy.method.kind.loops:
        return JoinEstimate(inputs, _looped(description), (), distinct, way, unique)
    return None


def _way(strategy: JoinStrategy) -> str:
    if strategy.method.order_rule is not None:
        return f"by the rule {strategy.method.order_rule.name}"
    return "as asked" if strategy.method.orders else "the best for each stream"


def _unique(description: Description) -> dict[str, tuple[float, float]]:
    keys = dict.fromkeys(code for e in description.strategy.equalities for code in (e.left, e.right))
    unique = [code for code in keys if description.is_unique(code)]
    return {str(code): (description.distinct(code), description.rows[code.stream]) for code in unique}


def busy_ns(strategy: JoinStrategy, description: Description) -> float:
    """Time a second that the routes of the engine's own join take, by the numbers of a description."""
    return sum(route.busy_ns for route in _walked_as_chosen(description, strategy))


def _input(description: Description, alias: str, columns: Columns) -> InputEstimate:
    rows = description.rows[alias]
    row_bytes = _row_bytes(description.strategy, alias, [e for _, e in columns])
    return InputEstimate(description.rates.get(alias, 0.0), rows, rows * row_bytes, description.known[alias])


def _row_bytes(strategy: JoinStrategy, alias: str, shown: Sequence[Expression]) -> float:
    codes = strategy.stored_codes(alias)
    inputs = {one.alias: one for one in strategy.join.inputs}
    needed = [*shown, *strategy.residuals, *strategy.verified]
    payload = payload_columns(alias, needed, inputs, {code: i for i, code in enumerate(codes)})
    # A hash index has a head and a link for each row, a sorted one a value and a position.
    indexes = len(strategy.hash_keys(alias)) + 2 * len(strategy.sorted_keys(alias))
    record = TIME_BYTES + CODE_BYTES * len(codes) + INDEX_BYTES * indexes
    return record + sum(_width(column.type) for column in payload)


def _width(data_type: pa.DataType) -> float:
    try:
        return max(1.0, float(data_type.bit_width) / 8)
    except ValueError:
        return TEXT_BYTES


def _walked(description: Description, orders: Mapping[str, Sequence[str]]) -> tuple[RouteEstimate, ...]:
    return tuple(
        _walked_route(description, origin, legs_in(description, origin, order)) for origin, order in orders.items()
    )


def _walked_as_chosen(description: Description, strategy: JoinStrategy) -> tuple[RouteEstimate, ...]:
    """The routes of a strategy, with its conditions where they are tested there."""
    found = []
    for route in strategy.routes:
        tested = SiftedWalk(walk_of(description, route.origin), description.conditions)
        order = tested.walk.graph.positions(route.visits)
        found.append(
            _walked_route(description, route.origin, tested.as_asked(order, [step.then for step in route.steps]))
        )
    return tuple(found)


def _walked_route(description: Description, origin: str, legs: Sequence[Leg]) -> RouteEstimate:
    walk, rate = walk_of(description, origin), description.rates[origin]
    bound, steps, busy_ns = walk.new, [], 0.0
    for leg, before, ns, after in SiftedWalk(walk, description.conditions).costs(legs):
        busy_ns += ns
        scanned = before * walk.rows(bound) * walk.visit(bound, leg.stream).scanned
        bound |= 1 << leg.stream
        steps.append(StepEstimate(walk.graph.names[leg.stream], scanned, after * walk.rows(bound)))
    early = [one for leg in legs for one in leg.then]
    passing = math.prod(one.passing for one in description.conditions if one not in early)
    return RouteEstimate(origin, rate, tuple(steps), rate * busy_ns, passing)


def _conditions(description: Description) -> tuple[ConditionEstimate, ...]:
    """What is known of conditions where there is a choice: of two inputs, all combinations are whole."""
    if len(description.aliases) < 3:
        return ()
    return tuple(
        ConditionEstimate(
            to_text(one.expression), one.ns, one.price_known, one.passing, one.passing_known, _places(description, one)
        )
        for one in description.conditions
    )


def _places(description: Description, one: Condition) -> dict[str, str | None]:
    """By origin, the stream after which a condition is tested; None: on whole combinations."""
    return {
        route.origin: next((step.stream for step in route.steps if one.expression in step.then), None)
        for route in description.strategy.routes
    }


def _looped(description: Description) -> tuple[RouteEstimate, ...]:
    """GO03's loops, for each new row or for those of an interval together."""
    method = description.strategy.method
    graph = description.with_buckets(method.buckets)
    routes = []
    for route in description.strategy.routes:
        rate = description.rates[route.origin]
        if method.refresh_us is None:
            routes.append(_loops_route(description, Loops(graph, route.origin), rate, route.visits))
            continue
        interval = method.refresh_us / 1e6
        # A stream without rows must not divide by zero.
        together = max(graph.streams[graph.position(route.origin)].rate * interval, 1e-9)
        loops = lazy_loops(graph, route.origin, interval, drops_expired=True)
        routes.append(_loops_route(description, loops, rate, route.visits, together))
    return tuple(routes)


# ---- other ways ----


def _alternatives(description: Description, chosen: Sequence[RouteEstimate]) -> tuple[Alternative, ...]:
    if len(description.aliases) > MOST_STREAMS:
        return ()
    return (*_other_orders(description, chosen), *_other_algorithms(description))


def _other_orders(description: Description, chosen: Sequence[RouteEstimate]) -> list[Alternative]:
    if len(description.aliases) < 3:
        return []
    walks = {one.alias: walk_of(description, one.alias) for one in description.strategy.join.streams}
    written = description.aliases
    for_all = _best_for_all(description, walks)
    dearest = {origin: _dearest(walk) for origin, walk in walks.items()}
    ways: dict[str, Mapping[str, Sequence[str]]] = {
        f"one order: {', '.join(for_all)}": {o: moved_to_front(for_all, o) for o in walks},
        f"as written: {', '.join(written)}": {o: moved_to_front(written, o) for o in walks},
        "the dearest orders": dearest,
    }
    return [_summed(name, _walked(description, orders)) for name, orders in ways.items()]


def _best_for_all(description: Description, walks: Mapping[str, Walk]) -> tuple[str, ...]:
    def step(bound: int, stream: int) -> float:
        return sum(
            # In a global order a new row is bound first, wherever its stream stands (GO03, Table 4).
            description.rates[origin] * walk.step(bound | walk.new, stream)
            for origin, walk in walks.items()
            if walk.origin != stream
        )

    return cheapest(description.graph, step)


def _dearest(walk: Walk) -> tuple[str, ...]:
    """Of the orders that were searched."""
    return cheapest(walk.graph, lambda *at: -walk.step(*at), walk.origin, lambda bound: permitted(walk, bound))


def _other_algorithms(description: Description) -> list[Alternative]:
    """The papers' loops, each in its best orders."""
    found = [_loops(description, "join = 'nested_loop'", {})]
    if description.strategy.equalities:
        buckets = dict.fromkeys(description.aliases, DEFAULT_BUCKETS)
        found.append(_loops(description, f"join = 'hybrid', {DEFAULT_BUCKETS} buckets", buckets))
    return [*found, _merged(description)]


def _merged(description: Description) -> Alternative:
    """H02's merge join binds streams as they are written, so predicates between later ones come late."""
    graph, written = description.with_buckets({}), description.aliases
    routes = [
        _loops_route(
            description, Loops(graph, one.alias), description.rates[one.alias], moved_to_front(written, one.alias)
        )
        for one in description.strategy.join.streams
    ]
    looped = _summed("join = 'merge'", routes)
    compared = merge_comparisons(list(description.rates.values()), looped.comparisons)
    # Merging compares row by row, where the loops were taken to compare vectors.
    extra_ns = compared * MERGED_ROW_NS - looped.comparisons * COMPARED_ROW_NS
    return replace(looped, comparisons=compared, busy_ns=looped.busy_ns + extra_ns)


def _loops(description: Description, name: str, buckets: Mapping[str, int]) -> Alternative:
    graph = description.with_buckets(buckets)
    orders = best_local_orders(graph, origins=[one.alias for one in description.strategy.join.streams])
    routes = [
        _loops_route(description, Loops(graph, origin), description.rates[origin], order)
        for origin, order in orders.items()
    ]
    return _summed(name, routes)


def _loops_route(
    description: Description, loops: Loops, rate: float, order: Sequence[str], together: float = 1.0
) -> RouteEstimate:
    """For one of the new rows, so many of which are joined `together`."""
    bound, steps, entered = 1 << loops.graph.position(order[0]), [], 0.0
    for name in order[1:]:
        stream = loops.graph.position(name)
        entered += loops.rows(bound) / together
        scanned = loops.step(bound, stream) / together
        bound |= 1 << stream
        steps.append(StepEstimate(name, scanned, loops.rows(bound) / together))
    compared = sum(step.scanned for step in steps)
    origin = order[0] if loops.origin is None else loops.graph.names[loops.origin]
    found = sum(step.carried for step in steps)
    # What passes is handled once more, as in the engine's own join; whole combinations are tested on the conditions.
    ns, passing = _loop_ns(entered, compared) + found * TESTED_ROW_NS, 1.0
    for one in description.conditions:
        ns += steps[-1].carried * passing * one.ns
        passing *= one.passing
    return RouteEstimate(origin, rate, tuple(steps), rate * ns, passing)


def _loop_ns(entered: float, compared: float) -> float:
    return entered * LOOP_NS + compared * COMPARED_ROW_NS


def _summed(name: str, routes: Sequence[RouteEstimate]) -> Alternative:
    total: Callable[[str], float] = lambda what: sum(getattr(route, what) for route in routes)  # noqa: E731
    return Alternative(name, total("comparisons"), total("busy_ns"), total("lookups"))


def merge_comparisons(rates: Sequence[float], loops: float) -> float:
    """Comparisons a unit of time: the sweep compares each arrival with the heads of the other streams; rows that can
    meet are then joined by nested loops.

    >>> merge_comparisons([10, 20, 30], loops=1000)
    1120
    """
    return sum(rates) * (len(rates) - 1) + loops
