"""The join-order advisor: all global orders of a join, ranked by cost, and what the rules of thumb would take."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from watersmeet.dataclass import dataclass
from watersmeet.optimizer.cost.inputs import JoinGraph, StreamRate
from watersmeet.optimizer.join_order import Order, best_local_orders
from watersmeet.papers.orders.best_orders import best_lazy_orders, every_order
from watersmeet.papers.orders.cost_go03 import Eager, general_lazy_cost, lazy_cost
from watersmeet.papers.orders.heuristics import (
    augmented_order,
    expensive_first_or_last,
    greedy_local_order,
    hybrid_order,
    selectivity_order,
    size_order,
)

ALMOST = 1e-9  # orders this close, relatively, cost the same: they only add up in another sequence


@dataclass(frozen=True)
class RankedOrder:
    """A global order, its cost in comparisons a unit of time, and its rank; orders of equal cost share one."""

    rank: int
    order: Order
    cost: float


@dataclass(frozen=True)
class OrderAdvice:
    """All global orders, cheapest first; what GO03's rules take, by name; the best order for each origin, and what the
    rules for those take, by name too."""

    ranked: tuple[RankedOrder, ...]
    by_rule: dict[str, RankedOrder]
    local_orders: dict[str, Order]
    local_cost: float
    local_by_rule: dict[str, tuple[dict[str, Order], float]]

    @property
    def selectivity(self) -> RankedOrder:
        return self.by_rule["selectivity"]

    @property
    def augmented(self) -> RankedOrder:
        return self.by_rule["augmented"]

    @property
    def mean_cost(self) -> float:
        return sum(one.cost for one in self.ranked) / len(self.ranked)


def advise_orders(streams: JoinGraph | Iterable[StreamRate]) -> tuple[RankedOrder, ...]:
    """All global orders, cheapest first. Streams alone are joined on one attribute, as in GO03."""
    graph = _graph(streams)
    eager = Eager(graph)
    costs = sorted(((eager.of_global(order), order) for order in every_order(graph)), key=lambda pair: pair[0])
    ranked: list[RankedOrder] = []
    for place, (cost, order) in enumerate(costs, start=1):
        level = bool(ranked) and cost <= ranked[-1].cost * (1 + ALMOST)
        ranked.append(RankedOrder(ranked[-1].rank if level else place, order, cost))
    return tuple(sorted(ranked, key=lambda one: (one.rank, graph.positions(one.order))))


def advise(streams: JoinGraph | Iterable[StreamRate]) -> OrderAdvice:
    """The ranking with the heuristics' choices in it, and how much better an order for each origin would be."""
    graph = _graph(streams)
    ranked = advise_orders(graph)
    by_order = {one.order: one for one in ranked}
    # All orders compete, also those that multiply streams which no predicate connects, as in the ranking.
    local = best_local_orders(graph, cross_products=True)
    eager = Eager(graph)
    by_origin = {
        rule: {name: found(graph, name) for name in graph.names} for rule, found in _local_rules(graph).items()
    }
    return OrderAdvice(
        ranked,
        {rule: by_order[found(graph)] for rule, found in _global_rules(graph).items()},
        local,
        eager.of_orders(local),
        {rule: (orders, eager.of_orders(orders)) for rule, orders in by_origin.items()},
    )


def _global_rules(graph: JoinGraph) -> dict[str, Callable[[JoinGraph], Order]]:
    rules = {"size": size_order, "selectivity": selectivity_order, "augmented": augmented_order}
    # Where all windows have an index or none has, it says nothing.
    indexed = sum(one.buckets > 1 for one in graph.streams)
    return {**rules, "hybrid": hybrid_order} if 0 < indexed < len(graph.streams) else {**rules}


def _local_rules(graph: JoinGraph) -> dict[str, Callable[[JoinGraph, str], Order]]:
    """Those for other joins than of one attribute by equality."""
    rules: dict[str, Callable[[JoinGraph, str], Order]] = {}
    if len(graph.keys) > 1 or graph.thetas:
        rules["greedy"] = greedy_local_order
    if graph.thetas:
        rules["expensive predicates"] = expensive_first_or_last
    return rules


def lazy_text(graph: JoinGraph, interval: float) -> str:
    """What it costs to join the new rows of an interval together: first in their own order, or wherever it is best.

    >>> graph = JoinGraph.on_one_key(StreamRate(n, r, 100, 50) for n, r in (("a", 1), ("b", 1), ("c", 99)))
    >>> print(lazy_text(graph, 10))
    new rows together, once in 10 units of time: 68948.0
      a, b, c
      b, a, c
      a, b, c (new rows of c in the third loop)
    with new rows always in the first loop: 76450.0
    """
    orders = best_lazy_orders(graph, interval, drops_expired=True)
    first = min(lazy_cost(graph, order, interval, drops_expired=True) for order in every_order(graph))
    cost = general_lazy_cost(graph, orders, interval, drops_expired=True)
    lines = [f"new rows together, once in {interval:g} units of time: {cost:.1f}"]
    for origin, order in orders.items():
        place = order.index(origin)
        where = f" (new rows of {origin} in the {_PLACES[place]} loop)" if place else ""
        lines.append(f"  {', '.join(order)}{where}")
    return "\n".join([*lines, f"with new rows always in the first loop: {first:.1f}"])


_PLACES = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")


def advice_text(advice: OrderAdvice, limit: int | None = None) -> str:
    """A table for people: the cheapest orders, the dearest, and below it the heuristics and the orders by origin.

    >>> print(advice_text(advise(StreamRate(n, r, 100, 50) for n, r in (("a", 1), ("b", 2), ("c", 9))), limit=2))
    rank  order       cost  of best
       1  a, b, c  12100.0     1.00  selectivity heuristic, augmented heuristic
       2  a, c, b  12800.0     1.06
    …  3 orders more
       6  c, b, a  15300.0     1.26
    <BLANKLINE>
    by the rule
      size         a, b, c  12100.0  1.00
      selectivity  a, b, c  12100.0  1.00
      augmented    a, b, c  12100.0  1.00
    mean of all 6 orders: 13700.0
    an order for each origin: 12100.0, 1.00 of the best global order
      a, b, c
      b, a, c
      c, a, b
    """
    shown = advice.ranked if limit is None else advice.ranked[:limit]
    hidden = len(advice.ranked) - len(shown)
    best, last = advice.ranked[0].cost, advice.ranked[-1]
    rows = [_row(one, best, advice) for one in (*shown, *([last] if hidden else []))]
    lines = _aligned([("rank", "order", "cost", "of best", ""), *rows])
    if hidden > 1:
        lines.insert(len(lines) - 1, f"…  {hidden - 1} order{'s' if hidden > 2 else ''} more")
    share = _ratio(advice.local_cost, best)
    return "\n".join(
        [
            *lines,
            "",
            "by the rule",
            *_by_rule(advice),
            f"mean of all {len(advice.ranked)} orders: {advice.mean_cost:.1f}",
            f"an order for each origin: {advice.local_cost:.1f}, {share} of the best global order",
            *(f"  {', '.join(order)}" for order in advice.local_orders.values()),
            *_locally_by_rule(advice),
        ]
    )


def _by_rule(advice: OrderAdvice) -> list[str]:
    best = advice.ranked[0].cost
    found = [
        (rule, ", ".join(one.order), f"{one.cost:.1f}", _ratio(one.cost, best)) for rule, one in advice.by_rule.items()
    ]
    widths = [max(map(len, column)) for column in zip(*found, strict=True)]
    return [
        f"  {rule:<{widths[0]}}  {order}  {cost:>{widths[2]}}  {ratio:>{widths[3]}}"
        for rule, order, cost, ratio in found
    ]


def _locally_by_rule(advice: OrderAdvice) -> Iterator[str]:
    for rule, (orders, cost) in advice.local_by_rule.items():
        yield f"by the rule {rule}, for each origin: {cost:.1f}, {_ratio(cost, advice.local_cost)} of the best"
        yield from (f"  {', '.join(order)}" for order in orders.values())


def _graph(streams: JoinGraph | Iterable[StreamRate]) -> JoinGraph:
    return streams if isinstance(streams, JoinGraph) else JoinGraph.on_one_key(streams)


def _row(one: RankedOrder, best: float, advice: OrderAdvice) -> tuple[str, ...]:
    chosen_by = {"selectivity heuristic": advice.selectivity, "augmented heuristic": advice.augmented}
    remarks = ", ".join(rule for rule, choice in chosen_by.items() if choice.order == one.order)
    return str(one.rank), ", ".join(one.order), f"{one.cost:.1f}", _ratio(one.cost, best), remarks


def _ratio(cost: float, best: float) -> str:
    return f"{cost / best:.2f}" if best else "-"


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Numbers to the right, words to the left."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return [
        f"{rank:>{widths[0]}}  {order:<{widths[1]}}  {cost:>{widths[2]}}  {ratio:>{widths[3]}}  {remarks}".rstrip()
        for rank, order, cost, ratio, remarks in rows
    ]
