"""The cheapest order of a join's loops, by the cost model.

A *global* order serves every origin: a new row is bound first, the other streams follow in that order. *Local* orders
are one for each origin; their costs add up, so each may be chosen alone, and together they never cost more.

The searches are dynamic programs over sets of streams, n·2ⁿ steps for n streams: what a loop costs depends on which
streams are bound outside it, not on their order (see `cost.loops`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from watersmeet.errors import WatersmeetError
from watersmeet.optimizer.cost.inputs import JoinGraph
from watersmeet.optimizer.cost.loops import Loops, Step

Order = tuple[str, ...]

# All n! orders of them are 40,320 for eight streams; sets alone would allow more.
MOST_STREAMS = 8


def best_local_order(graph: JoinGraph, origin: str, *, cross_products: bool = False) -> Order:
    """The cheapest order for the new rows of one stream, eagerly evaluated, which are bound first.

    A stream that no predicate ties to those bound waits until nothing else is left, unless `cross_products`.
    """
    loops = Loops(graph, origin)
    return cheapest(graph, loops.step, loops.origin, lambda bound: permitted(loops, bound, cross_products))


def best_local_orders(
    graph: JoinGraph, *, cross_products: bool = False, origins: Iterable[str] | None = None
) -> dict[str, Order]:
    """One for each origin; all streams, unless some are named."""
    named_ones = graph.names if origins is None else origins
    return {name: best_local_order(graph, name, cross_products=cross_products) for name in named_ones}


def permitted(loops: Loops, bound: int, cross_products: bool = False) -> list[int]:
    """The streams that may come next: those tied to the bound ones by a predicate, if there are any."""
    unbound = _unbound(loops.graph, bound)
    tied = [] if cross_products else [stream for stream in unbound if loops.connected(bound, stream)]
    return tied or unbound


def moved_to_front(order: Sequence[str], origin: str) -> tuple[str, ...]:
    """GO03, Table 4: a new row is bound first, the other streams keep the global order.

    >>> moved_to_front(("s1", "s2", "s3"), "s3")
    ('s3', 's1', 's2')
    """
    return (origin, *(name for name in order if name != origin))


def named(graph: JoinGraph, positions: Iterable[int]) -> Order:
    return tuple(graph.names[stream] for stream in positions)


def cheapest(
    graph: JoinGraph, step: Step, first: int | None = None, following: Callable[[int], list[int]] | None = None
) -> Order:
    """The cheapest way to bind all streams, by the cheapest way to bind each set of them."""
    check_count(graph)
    everything = (1 << len(graph.streams)) - 1
    begin = 0 if first is None else 1 << first
    best: dict[int, tuple[float, tuple[int, ...]]] = {begin: (0.0, () if first is None else (first,))}
    for bound in range(begin, everything):  # a set comes after all its subsets
        if bound not in best:
            continue
        cost, order = best[bound]
        for stream in _unbound(graph, bound) if following is None else following(bound):
            reached, total = bound | 1 << stream, cost + step(bound, stream)
            if reached not in best or total < best[reached][0]:
                best[reached] = total, (*order, stream)
    return named(graph, best[everything][1])


def _unbound(graph: JoinGraph, bound: int) -> list[int]:
    return [stream for stream in range(len(graph.streams)) if not bound >> stream & 1]


def check_count(graph: JoinGraph) -> None:
    count = len(graph.streams)
    if not 1 <= count <= MOST_STREAMS:
        raise WatersmeetError(f"an order of {count} streams was asked for; the search takes 1 to {MOST_STREAMS}")
