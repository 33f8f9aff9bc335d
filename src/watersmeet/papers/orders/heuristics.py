"""GO03's rules of thumb for the order of a join's loops, which look at few orders or at none."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations

from watersmeet.optimizer.cost.inputs import JoinGraph, StreamRate
from watersmeet.optimizer.cost.loops import Loops, members
from watersmeet.optimizer.join_order import Order, named, permitted
from watersmeet.optimizer.ranked_order import greedily, ranked_order
from watersmeet.papers.orders.cost_go03 import Eager

EXPENSIVE = 10.0  # comparisons; a test that costs as much decides where its streams go


# ---- a global order -------------------------------------------------------------------------------------------------


def size_order(graph: JoinGraph) -> Order:
    """With equal distinct counts: ascending window size, or bucket size."""
    return tuple(one.name for one in sorted(graph.streams, key=_bucket_size))


def selectivity_order(graph: JoinGraph) -> Order:
    """The most selective joins outermost; of the orders this leaves open the cheapest."""
    return _cheapest(graph, selectivity_orders(graph))


def selectivity_orders(graph: JoinGraph) -> tuple[Order, ...]:
    """The pair with the smallest result, either way round, then each time the stream that keeps the result smallest.

    With buckets, their size stands for the window's.
    """
    if len(graph.streams) < 2:
        return (graph.names,)
    windows = Loops(graph, None)
    pairs = combinations(range(len(graph.streams)), 2)
    # The text leaves the rule open; this reading gives its orders for Tables 5 and 7 (AMB-10).
    first, second = min(pairs, key=lambda pair: _result_size(windows, 1 << pair[0] | 1 << pair[1]))
    pair = named(graph, (first, second))
    rest = named(graph, _keep_smallest(windows, 1 << first | 1 << second))
    return (*pair, *rest), (*reversed(pair), *rest)


def augmented_order(graph: JoinGraph, fast: Sequence[str] | None = None) -> Order:
    """The same with the fast streams tried at every place further outside; what costs least is kept.

    Fast are the streams above the average rate, unless named. About n^f orders are costed for f of them.
    """
    chosen = fast_streams(graph) if fast is None else tuple(fast)
    starts = selectivity_orders(graph)
    return _cheapest(graph, (order for start in starts for order in _moved_outward(start, chosen)))


def fast_streams(graph: JoinGraph) -> Order:
    average = sum(one.rate for one in graph.streams) / len(graph.streams)
    return tuple(one.name for one in graph.streams if one.rate > average)


def volatile_order(graph: JoinGraph, volatile: Sequence[str]) -> Order:
    """Those whose rates are expected to fluctuate widely as near the top as joins allow, the smallest window of them
    first; the rest as `selectivity_order` has it: each time what keeps the result smallest."""
    windows = Loops(graph, None)
    places = {graph.position(name) for name in volatile}
    order = [min(places, key=lambda stream: (graph.streams[stream].rows, stream))]
    bound = 1 << order[0]
    while candidates := permitted(windows, bound):
        *_, following = min(
            (stream not in places, _result_size(windows, bound | 1 << stream), stream) for stream in candidates
        )
        order.append(following)
        bound |= 1 << following
    return named(graph, order)


def hybrid_order(graph: JoinGraph) -> Order:
    """Where some windows have an index: those innermost, and otherwise as `selectivity_order` has it."""
    order = selectivity_order(graph)
    indexed = {one.name for one in graph.streams if one.buckets > 1}
    return (*(name for name in order if name not in indexed), *(name for name in order if name in indexed))


# ---- an order for one origin ----------------------------------------------------------------------------------------


def greedy_local_order(graph: JoinGraph, origin: str) -> Order:
    """Where attributes differ: the new row outermost, then each time the most selective edge of the join graph."""
    return greedily(Loops(graph, origin), _combinations_left)


def ranked_local_order(graph: JoinGraph, origin: str) -> Order:
    """Not GO03's: each time the stream that adds fewest combinations, or removes most, for a comparison.

    That is the rank of Ibaraki and Kameda, by which a chain of joins is best sorted if a loop matches as often wherever
    it stands. Selectivity alone prefers a long scan that leaves little to a short one that leaves little more.
    """
    return ranked_order(Loops(graph, origin))


def expensive_first_or_last(graph: JoinGraph, origin: str, expensive: float = EXPENSIVE) -> Order:
    """Streams of expensive predicates next to the new row, where few combinations have come together, or innermost,
    where cheap tests have left few, or where `greedy_local_order` puts them: whichever costs least."""
    loops = Loops(graph, origin)
    tested = {name for theta in graph.thetas if theta.cost >= expensive for name in theta.streams}
    dear = {graph.position(name) for name in tested}
    first = greedily(loops, lambda _, bound, stream: (stream not in dear, *_combinations_left(loops, bound, stream)))
    last = greedily(loops, lambda _, bound, stream: (stream in dear, *_combinations_left(loops, bound, stream)))
    return min((greedy_local_order(graph, origin), first, last), key=loops.cost)


# ---- parts of the rules ---------------------------------------------------------------------------------------------


def _combinations_left(loops: Loops, bound: int, stream: int) -> tuple[float, ...]:
    return loops.rows(bound | 1 << stream), loops.step(bound, stream)


def _bucket_size(stream: StreamRate) -> float:
    return stream.rows / stream.buckets


def _result_size(windows: Loops, bound: int) -> float:
    buckets = math.prod(windows.graph.streams[stream].buckets for stream in members(bound))
    # Rows per bucket, rate times window over buckets; the paper writes T/b (AMB-13).
    return windows.rows(bound) / buckets


def _keep_smallest(windows: Loops, bound: int) -> Iterator[int]:
    """The streams not in `bound`, each time the one that keeps the result smallest; of equals the first."""
    while candidates := permitted(windows, bound):
        _, following = min((_result_size(windows, bound | 1 << stream), stream) for stream in candidates)
        yield following
        bound |= 1 << following


def _moved_outward(order: Order, fast: Sequence[str]) -> Iterator[Order]:
    """The order with each of the fast streams at its place or any place further outside."""
    if not fast:
        yield order
        return
    name, others = fast[0], fast[1:]
    place = order.index(name)
    without = order[:place] + order[place + 1 :]
    for outward in range(place, -1, -1):
        yield from _moved_outward((*without[:outward], name, *without[outward:]), others)


def _cheapest(graph: JoinGraph, orders: Iterable[Order]) -> Order:
    return min(orders, key=Eager(graph).of_global)
