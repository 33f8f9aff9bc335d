"""For each stream, the order in which its new rows visit the others, and through which index.

Greedy: next comes the input that the rows bound so far narrow down most, by a key, then an interval, then a
comparison, then by time alone; among equals the one that keeps fewer rows. An order that the query asks for is
followed instead; through which index is still chosen step by step.
"""

from __future__ import annotations

from dataclasses import replace

from watersmeet.plan.strategy import Code, Comparison, JoinStrategy, Route, Step

ABOVE = ("gt", "ge")
BELOW = ("lt", "le")


def choose_routes(strategy: JoinStrategy) -> JoinStrategy:
    return replace(strategy, routes=tuple(_route(strategy, one.alias) for one in strategy.join.streams))


def _route(strategy: JoinStrategy, origin: str) -> Route:
    order = strategy.method.orders.get(origin)
    return _greedy(strategy, origin) if order is None else _in_order(strategy, origin, order)


def _in_order(strategy: JoinStrategy, origin: str, order: tuple[str, ...]) -> Route:
    steps = tuple(_step(strategy, list(order[:d]), order[d]) for d in range(1, len(order)))
    return Route(origin, steps, order[0])


def _greedy(strategy: JoinStrategy, origin: str) -> Route:
    bound = [origin]
    remaining = [one.alias for one in strategy.join.inputs if one.alias != origin]
    steps: list[Step] = []
    while remaining:
        candidates = [_step(strategy, bound, alias) for alias in remaining]
        best = min(candidates, key=lambda step: _preference(strategy, step))
        steps.append(best)
        bound.append(best.stream)
        remaining.remove(best.stream)
    return Route(origin, tuple(steps))


def _preference(strategy: JoinStrategy, step: Step) -> tuple[int, float]:
    rank = {"hash": 0, "sorted": 1, "scan": 2 if step.comparisons else 3}[step.access]
    rows = strategy.rows_kept.get(step.stream)
    return rank, float("inf") if rows is None else rows


def _step(strategy: JoinStrategy, bound: list[str], stream: str) -> Step:
    equalities = _equalities(strategy, bound, stream)
    comparisons = tuple(c for c in strategy.comparisons if c.own.stream == stream and c.bound.stream in bound)
    if equalities:
        return Step(stream, "hash", equalities, comparisons)
    interval = _interval(comparisons)
    if interval is not None:
        first = tuple(sorted(comparisons, key=lambda c: c.own != interval))
        return Step(stream, "sorted", (), first, interval)
    return Step(stream, "scan", (), comparisons)


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
    ordered = sorted(chosen, key=str)
    return tuple((chosen[own], own) for own in ordered)


def _interval(comparisons: tuple[Comparison, ...]) -> Code | None:
    """An own code that is bounded from both sides."""
    for comparison in comparisons:
        operators = {c.operator for c in comparisons if c.own == comparison.own}
        if operators & set(ABOVE) and operators & set(BELOW):
            return comparison.own
    return None
