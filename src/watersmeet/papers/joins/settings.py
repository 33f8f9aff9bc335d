"""What is left to the optimizer of the papers' hash joins: how many buckets each stream gets of a total, and how often
expired rows are removed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from watersmeet.optimizer.cost.inputs import JoinGraph
from watersmeet.optimizer.cost.loops import Loops
from watersmeet.optimizer.describe import Description
from watersmeet.optimizer.join_order import best_local_orders
from watersmeet.papers.orders.cost_go03 import Orders, expiration_cost
from watersmeet.physical.strategy import JoinStrategy

ROUNDS = 48  # in which a budget of buckets is given away, the largest part each time where it helps most
INTERVALS = 40  # tried between passes, at equal ratios


def choose_settings(strategy: JoinStrategy) -> JoinStrategy:
    method = strategy.method
    description = Description(strategy)
    if method.bucket_budget is not None:
        method = replace(method, buckets=share_buckets(description.with_buckets({}), method.bucket_budget))
    if method.expires_at_best:
        interval = best_expiration(description.with_buckets(method.buckets))
        # Whole milliseconds, for EXPLAIN to print; and never before the refresh that still joins the rows.
        expire_us = max(1000, round(interval * 1000) * 1000, method.refresh_us or 0)
        method = replace(method, expire_us=expire_us)
    return replace(strategy, method=method)


def share_buckets(graph: JoinGraph, budget: int) -> dict[str, int]:
    """The budget by stream so that joins compare least: a bucket goes each time where it saves most (GO03, 6.5).

    What a stream's scans cost falls with 1/b, so that the next bucket never saves more than the one before, and giving
    them away one after another is best for given orders; these are then chosen anew, and it is done again.

    >>> from watersmeet.optimizer.cost.inputs import StreamRate
    >>> slow, fast = (StreamRate("slow", 1, 100, 50), StreamRate("fast", 50, 100, 50))
    >>> share_buckets(JoinGraph.on_one_key([slow, fast]), 20)
    {'slow': 10, 'fast': 10}
    """
    shares = dict.fromkeys(graph.names, 1)
    # Orders depend on the buckets and buckets on the orders, so both are found twice.
    for _ in range(2):
        orders = best_local_orders(_with_buckets(graph, shares))
        shares = _given_away(graph, orders, budget)
    return shares


def _given_away(graph: JoinGraph, orders: Orders, budget: int) -> dict[str, int]:
    shares = dict.fromkeys(graph.names, 1)
    left = budget - len(shares)
    while left:
        # The last ones are given away singly, so that nothing is left over.
        part = max(1, left // ROUNDS)
        costs = {name: _cost(graph, orders, {**shares, name: shares[name] + part}) for name in shares}
        shares[min(costs, key=lambda name: (costs[name], shares[name]))] += part
        left -= part
    return shares


def _cost(graph: JoinGraph, orders: Orders, buckets: Mapping[str, int]) -> float:
    shared = _with_buckets(graph, buckets)
    return sum(one.rate * Loops(shared, one.name).cost(orders[one.name]) for one in shared.streams)


def _with_buckets(graph: JoinGraph, buckets: Mapping[str, int]) -> JoinGraph:
    return replace(graph, streams=tuple(replace(one, buckets=buckets[one.name]) for one in graph.streams))


def best_expiration(graph: JoinGraph) -> float:
    """The time between passes over all windows that costs least.

    Rare passes are cheap, but the rows that wait for them, τλ/2 in the mean, are compared as if they were alive.
    """
    longest = max(one.window for one in graph.streams)
    orders = best_local_orders(graph)
    # At ratios of √2, from the longest window down to about a millionth of it.
    intervals = [longest * 2 ** (-i / 2) for i in range(INTERVALS)]
    return min(
        intervals, key=lambda interval: expiration_cost(graph.streams, interval) + _stale(graph, orders, interval)
    )


def _stale(graph: JoinGraph, orders: Orders, interval: float) -> float:
    # A pass finds rows that waited up to the interval; in the mean they are compared for half of it.
    longer = tuple(replace(one, window=one.window + interval / 2) for one in graph.streams)
    bounds = {pair: limit + interval / 2 for pair, limit in graph.bounds.items()}
    waiting = replace(graph, streams=longer, bounds=bounds)
    return _cost(waiting, orders, {one.name: one.buckets for one in graph.streams})
