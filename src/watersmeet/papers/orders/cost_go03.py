"""GO03: what multi-way joins of sliding windows cost, in comparisons a unit of time.

Hash joins and hybrids need no formulas of their own: a stream with b buckets has |S|/b rows scanned per probe, and
its carry does not know of b. A nested loop join is b = 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from watersmeet.errors import WatersmeetError
from watersmeet.optimizer.cost.inputs import JoinGraph, StreamRate
from watersmeet.optimizer.cost.loops import Loops, along, lazy_loops
from watersmeet.optimizer.join_order import moved_to_front

Orders = Mapping[str, Sequence[str]]  # for each origin the order of the loops, outermost first


def join_size(m: StreamRate, n: StreamRate) -> float:
    """|S_m ⋈ S_n| = λ_m T_m λ_n T_n / max(v_m, v_n).

    >>> join_size(StreamRate("m", 1, 200, 40), StreamRate("n", 3, 100, 5))
    1500.0
    """
    return m.rows * n.rows / max(m.distinct, n.distinct)


class Eager:
    """Costs of one join under eager evaluation; asking for many orders is cheap, as they share their loops."""

    def __init__(self, graph: JoinGraph) -> None:
        self._graph = graph
        self._loops = {name: Loops(graph, name) for name in graph.names}
        self._steps: dict[tuple[int, int], float] = {}

    def of_origin(self, origin: str, order: Sequence[str]) -> float:
        """What the new rows of one stream cost: λ_i Σ_j carry_{i,j-1} |S_j|."""
        return self._graph.streams[self._graph.position(origin)].rate * self._loops[origin].cost(order)

    def of_orders(self, orders: Orders) -> float:
        """With an order of its own for each origin, which need not come first in it."""
        return sum(self.of_origin(name, _order_of(orders, name)) for name in self._graph.names)

    def of_global(self, order: Sequence[str]) -> float:
        """With one order, in which a new row moves to the front: the same sum, stream by stream."""
        return along(self._graph.positions(order), self.of_step)

    def of_step(self, bound: int, stream: int) -> float:
        """What it costs all origins to bind `stream` after the set `bound` in a global order."""
        if (bound, stream) not in self._steps:
            origins = zip(self._graph.streams, self._loops.values(), strict=True)
            costs = (k.rate * loops.step(bound | loops.new, stream) for k, loops in origins if loops.origin != stream)
            self._steps[bound, stream] = sum(costs)
        return self._steps[bound, stream]


def eager_cost(graph: JoinGraph, order: Sequence[str]) -> float:
    """EAGER MULTI-WAY NLJ under a global order: Σ_i λ_i Σ_j carry_{i,j-1} |S_j|.

    >>> eager_cost(JoinGraph.on_one_key(StreamRate(name, 1, 100, 50) for name in "abc"), "abc")
    900.0
    """
    return Eager(graph).of_global(order)


def local_orders_cost(graph: JoinGraph, orders: Orders) -> float:
    """Eager evaluation with an order of its own for each origin."""
    return Eager(graph).of_orders(orders)


def naive_eager_cost(graph: JoinGraph, order: Sequence[str]) -> float:
    """NAIVE MULTI-WAY NLJ: the loops keep the global order, with the new row alone in the place of its window.

    >>> naive_eager_cost(JoinGraph.on_one_key(StreamRate(name, 1, 100, 50) for name in "abc"), "abc")
    10800.0
    """
    return local_orders_cost(graph, dict.fromkeys(graph.names, order))


def general_lazy_cost(graph: JoinGraph, orders: Orders, interval: float, *, drops_expired: bool = False) -> float:
    """GENERAL LAZY MULTI-WAY NLJ: every τ, for each origin its batch of new rows at any place of its own order.

    (1/τ) Σ_i Σ_{q≥2} carry_{q-1} n_q, where n = λτ for the batch and λ(T + τ) for the other windows.

    That is the model of Figure 3, in which expired rows are carried along. With `drops_expired` a carry with the batch
    in it has λT of each other window, as the algorithm's own time tests leave it: what is counted on joins that run.
    """
    batches = (
        lazy_loops(graph, name, interval, drops_expired=drops_expired).cost(_order_of(orders, name))
        for name in graph.names
    )
    return sum(batches) / interval


def lazy_cost(graph: JoinGraph, order: Sequence[str], interval: float, *, drops_expired: bool = False) -> float:
    """LAZY MULTI-WAY NLJ: new rows first, the other streams in the global order.

    >>> graph = JoinGraph.on_one_key(StreamRate(name, 1, 100, 50) for name in "abcd")
    >>> round(lazy_cost(graph, "abcd", interval=10)), round(lazy_cost(graph, "abcd", interval=10, drops_expired=True))
    (3538, 3080)
    """
    orders = {name: moved_to_front(order, name) for name in graph.names}
    return general_lazy_cost(graph, orders, interval, drops_expired=drops_expired)


def naive_lazy_cost(graph: JoinGraph, order: Sequence[str], interval: float, *, drops_expired: bool = False) -> float:
    """NAIVE under lazy evaluation, with the time tests that make it right: the same order for every batch."""
    return general_lazy_cost(graph, dict.fromkeys(graph.names, order), interval, drops_expired=drops_expired)


def expiration_cost(streams: Iterable[StreamRate], interval: float | None = None) -> float:
    """Rows purged and buckets looked at, a unit of time; with no interval a pass follows every arrival.

    A pass looks at every bucket of every window. What it purges does not depend on how often it runs: Σλ.

    >>> expiration_cost([StreamRate("a", 2, 100, buckets=5), StreamRate("b", 3, 100, buckets=1)], interval=10)
    5.6
    """
    streams = tuple(streams)
    if interval is not None and interval <= 0:
        raise WatersmeetError(f"the interval of expiration is {interval:g}; it must be above 0")
    arriving = sum(one.rate for one in streams)
    passes = arriving if interval is None else 1 / interval
    return arriving + passes * sum(one.buckets for one in streams)


def stale_rows(stream: StreamRate, interval: float) -> float:
    """Rows that wait in a window when a pass runs once in `interval`: τλ."""
    return interval * stream.rate


def _order_of(orders: Orders, origin: str) -> Sequence[str]:
    if origin not in orders:
        raise WatersmeetError(f"no order is given for new rows of {origin}; each stream needs one")
    return orders[origin]
