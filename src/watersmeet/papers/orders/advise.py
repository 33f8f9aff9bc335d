"""The join-order advisor: all global orders of a join, ranked by cost, and what the rules of thumb would take."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from watersmeet.optimizer.cost.go03 import Eager
from watersmeet.optimizer.cost.inputs import JoinGraph, StreamRate
from watersmeet.optimizer.join_order import Order, best_local_orders, every_order
from watersmeet.papers.orders.heuristics import augmented_order, selectivity_order

ALMOST = 1e-9  # orders this close, relatively, cost the same: they only add up in another sequence


@dataclass(frozen=True)
class RankedOrder:
    """A global order, its cost in comparisons a unit of time, and its rank; orders of equal cost share one."""

    rank: int
    order: Order
    cost: float


@dataclass(frozen=True)
class OrderAdvice:
    """All global orders, cheapest first; what the heuristics take; and the best order for each origin."""

    ranked: tuple[RankedOrder, ...]
    selectivity: RankedOrder
    augmented: RankedOrder
    local_orders: dict[str, Order]
    local_cost: float

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
    return OrderAdvice(
        ranked,
        by_order[selectivity_order(graph)],
        by_order[augmented_order(graph)],
        local,
        Eager(graph).of_orders(local),
    )


def advice_text(advice: OrderAdvice, limit: int | None = None) -> str:
    """A table for people: the cheapest orders, the dearest, and below it the heuristics and the orders by origin.

    >>> print(advice_text(advise(StreamRate(n, r, 100, 50) for n, r in (("a", 1), ("b", 2), ("c", 9))), limit=2))
    rank  order       cost  of best
       1  a, b, c  12100.0     1.00  selectivity heuristic, augmented heuristic
       2  a, c, b  12800.0     1.06
    …  3 orders more
       6  c, b, a  15300.0     1.26
    <BLANKLINE>
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
            f"mean of all {len(advice.ranked)} orders: {advice.mean_cost:.1f}",
            f"an order for each origin: {advice.local_cost:.1f}, {share} of the best global order",
            *(f"  {', '.join(order)}" for order in advice.local_orders.values()),
        ]
    )


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
