"""Which joins walk together, as their rows look for the same ones by the same keys in windows of different widths.

Together they walk as far as the widest needs, and each looks through what was found. So a join walks with others where
that is less than its own walk; one whose window is so much wider that the others would mostly throw away what it finds
walks by itself, or with those that are about as wide.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log2

from watersmeet.dataclass import dataclass
from watersmeet.operators.join.shared_walk import WalkSeen
from watersmeet.optimizer.choose_routes import walk_of
from watersmeet.optimizer.cost.walk import CHAINED_ROW_NS, PROBE_NS
from watersmeet.optimizer.describe import Description
from watersmeet.physical.strategy import JoinStrategy

# As measured: to have a combination wait for all, and to look at it for one of them.
HELD_NS = 10.0
LOOKED_AT_NS = 5.0
# Walks that find so nearly the same number are one to the search: classes to each doubling.
CLASSES = 8


@dataclass(frozen=True)
class WalkCost:
    """Walks of joins: how many, what the dearest takes by itself, and all of them, and what is found at most."""

    walks: int
    dearest_ns: float
    apart_ns: float
    found: float

    @staticmethod
    def of(seen: WalkSeen) -> WalkCost:
        ns = PROBE_NS * seen.steps * seen.rows + CHAINED_ROW_NS * seen.found
        return WalkCost(1, ns, ns, seen.found)

    def with_all_of(self, other: WalkCost) -> WalkCost:
        return WalkCost(
            self.walks + other.walks,
            max(self.dearest_ns, other.dearest_ns),
            self.apart_ns + other.apart_ns,
            max(self.found, other.found),
        )

    @property
    def together_ns(self) -> float:
        """What they take as one."""
        if self.walks == 1:
            return self.apart_ns
        return self.dearest_ns + self.found * (HELD_NS + LOOKED_AT_NS * self.walks)


class ByCost:
    """Decides by what the walks take."""

    def expected(self, strategy: JoinStrategy, origin: str) -> WalkSeen:
        return expected_walk(strategy, origin)

    def together(self, walks: Sequence[WalkSeen]) -> list[list[int]]:
        return walks_together(walks)


def expected_walk(strategy: JoinStrategy, origin: str) -> WalkSeen:
    """What the new rows of a stream find in a second."""
    description = Description(strategy)
    walk, visits = walk_of(description, origin), strategy.route(origin).visits
    bound = sum(1 << walk.graph.position(one) for one in visits)
    rate = description.rates[origin]
    return WalkSeen(len(visits) - 1, rate, rate * walk.rows(bound))


def took_together(walks: Sequence[WalkSeen]) -> tuple[float, float]:
    """What walks take as one, and each by itself, in nanoseconds."""
    cost = _summed([WalkCost.of(one) for one in walks])
    return cost.together_ns, cost.apart_ns


def walks_together(walks: Sequence[WalkSeen]) -> list[list[int]]:
    """The places of walks in groups, those of a group together, so that all of them take least.

    >>> walks_together([WalkSeen(1, 1000, 10), WalkSeen(1, 1000, 20), WalkSeen(1, 1000, 100_000)])
    [[0, 1], [2]]
    """
    alike: dict[int, list[int]] = {}
    for place, one in enumerate(walks):
        alike.setdefault(round(CLASSES * log2(1 + one.found)), []).append(place)
    # Whoever finds about as much goes together, so of walks in this order groups are pieces.
    order = [alike[size] for size in sorted(alike)]
    costs = [_summed([WalkCost.of(walks[place]) for place in places]) for places in order]
    # Of the first so many: what they take at least, and where the last of their groups begins.
    best: list[tuple[float, int]] = [(0.0, 0)]
    for end in range(1, len(order) + 1):
        ways, group = [], costs[end - 1]
        for first in range(end - 1, -1, -1):
            group = group if first == end - 1 else group.with_all_of(costs[first])
            ways.append((best[first][0] + min(group.together_ns, group.apart_ns), first))
        best.append(min(ways))
    return [group for places in _pieces(best) for group in _divided([p for part in order[places] for p in part], walks)]


def _summed(costs: Sequence[WalkCost]) -> WalkCost:
    total = costs[0]
    for one in costs[1:]:
        total = total.with_all_of(one)
    return total


def _pieces(best: Sequence[tuple[float, int]]) -> list[slice]:
    end, found = len(best) - 1, []
    while end:
        first = best[end][1]
        found.append(slice(first, end))
        end = first
    return found[::-1]


def _divided(places: list[int], walks: Sequence[WalkSeen]) -> list[list[int]]:
    """As one group, or each by itself where that is less."""
    together_ns, apart_ns = took_together([walks[place] for place in places])
    return [sorted(places)] if together_ns <= apart_ns else [[place] for place in places]
