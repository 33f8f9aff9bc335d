"""An order for joins of so many streams that not all orders can be tried: each time the best next one by a rank.

That is the rank of Ibaraki and Kameda, by which a chain of joins is best sorted if a loop matches as often wherever it
stands. Selectivity alone prefers a long scan that leaves little to a short one that leaves little more.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from watersmeet.optimizer.cost.loops import Loops, members
from watersmeet.optimizer.join_order import Order, named, permitted


def ranked_order(loops: Loops) -> Order:
    """Each time the stream that adds fewest combinations, or removes most, for a comparison."""
    return greedily(loops, _combinations_added)


def greedily(loops: Loops, badness: Callable[[Loops, int, int], tuple[float, ...]]) -> Order:
    """New rows first, then each time what is least bad of what the join graph permits; of equals the first given."""
    bound, order = loops.new, list(members(loops.new))
    while candidates := permitted(loops, bound):
        _, following = min((badness(loops, bound, stream), stream) for stream in candidates)
        order.append(following)
        bound |= 1 << following
    return named(loops.graph, order)


def _combinations_added(loops: Loops, bound: int, stream: int) -> tuple[float, ...]:
    comparisons = loops.step(bound, stream)
    added = loops.rows(bound | 1 << stream) - loops.rows(bound)
    return added / comparisons if comparisons else -math.inf, comparisons
