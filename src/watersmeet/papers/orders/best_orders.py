"""The cheapest orders of GO03's joins, by its cost models, and all that they are chosen from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations

from watersmeet.optimizer.cost.inputs import JoinGraph
from watersmeet.optimizer.cost.loops import Loops, lazy_loops
from watersmeet.optimizer.describe import Description
from watersmeet.optimizer.join_order import Order, best_local_orders, cheapest, check_count, named, permitted
from watersmeet.papers.orders.cost_go03 import Eager


def loop_orders(description: Description, origins: Sequence[str]) -> dict[str, Order]:
    """For each origin, the cheapest order of loops by the method that was asked for."""
    strategy = description.strategy
    method = strategy.method
    graph = description.with_buckets(method.buckets)
    found = best_local_orders(graph, origins=origins)
    # The model of batches knows no static tables: it would give them new rows too.
    if method.refresh_us is not None and not any(one.is_table for one in strategy.join.inputs):
        found = best_lazy_orders(graph, method.refresh_us / 1e6, drops_expired=True)
    return {origin: found[origin] for origin in origins}


def best_global_order(graph: JoinGraph) -> Order:
    """The cheapest global order under eager evaluation."""
    return cheapest(graph, Eager(graph).of_step)


def best_lazy_orders(graph: JoinGraph, interval: float, *, drops_expired: bool = False) -> dict[str, Order]:
    """The cheapest orders for GENERAL LAZY: the batch of new rows may stand anywhere in its own order."""
    loops = {name: lazy_loops(graph, name, interval, drops_expired=drops_expired) for name in graph.names}
    return {name: _new_rows_first(one, name, cheapest(graph, one.step)) for name, one in loops.items()}


def _new_rows_first(loops: Loops, origin: str, order: Order) -> Order:
    """The two outermost loops often compare as much either way round; then a whole window need not be read for it."""
    if order[1:2] != (origin,):
        return order
    swapped = (origin, order[0], *order[2:])
    return swapped if loops.cost(swapped) <= loops.cost(order) else order


def best_naive_order(graph: JoinGraph, interval: float | None = None) -> Order:
    """The cheapest order for NAIVE, in which a new row moves nowhere: eager, or with an interval lazy."""
    if interval is None:
        weighted = [(one.rate, Loops(graph, one.name)) for one in graph.streams]
    else:
        weighted = [(1.0, lazy_loops(graph, name, interval)) for name in graph.names]
    # In the naive join all origins share one order, so each step costs what it costs them all.
    return cheapest(graph, lambda bound, stream: sum(weight * loops.step(bound, stream) for weight, loops in weighted))


def every_order(graph: JoinGraph) -> Iterator[Order]:
    """All n! global orders."""
    check_count(graph)
    return permutations(graph.names)


def every_local_order(graph: JoinGraph, origin: str, *, cross_products: bool = False) -> Iterator[Order]:
    """All orders among which `best_local_order` finds the cheapest."""
    check_count(graph)
    loops = Loops(graph, origin)

    def extended(order: tuple[int, ...], bound: int) -> Iterator[Order]:
        following = permitted(loops, bound, cross_products)
        if not following:
            yield named(graph, order)
        for stream in following:
            yield from extended((*order, stream), bound | 1 << stream)

    start = graph.position(origin)
    return extended((start,), 1 << start)
