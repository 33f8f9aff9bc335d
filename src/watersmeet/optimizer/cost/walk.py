"""What the engine's own join costs: GO03's loops, each through the index that is cheapest for it.

The papers count comparisons, which all cost the same. Here a row that a vector scan passes over is nearly free, and a
row at the end of a chain is a wait for memory, so indexes are weighed by time. The weights were measured on the
kernels; only their ratios matter.
"""

from __future__ import annotations

import math

from watersmeet.dataclass import dataclass
from watersmeet.optimizer.cost.inputs import JoinGraph
from watersmeet.optimizer.cost.loops import Loops
from watersmeet.physical.strategy import Access

PROBE_NS = 20.0  # to find a chain
CHAINED_ROW_NS = 8.0
SEARCH_NS = 40.0  # to find an interval in each sorted run, for each doubling of the rows
SORTED_ROW_NS = 5.0
SCAN_NS = 30.0  # to find the period in the store
PASSED_ROW_NS = 0.3  # a row that a vector comparison passes over
TESTED_ROW_NS = 4.0
# An index on a key stays unless another way is so much cheaper: chains are fetched ahead, and keys are sure to help.
FAVOUR_HASH = 2.0


@dataclass(frozen=True)
class Visit:
    """One way to find the rows of a stream: rows looked at, and time, for one combination bound so far."""

    access: Access
    scanned: float
    ns: float


class Walk(Loops):
    """The loops for one new row of `origin`, in nanoseconds. `intervals` are the pairs of streams (own, bound) for
    which a sorted index on the first can be searched."""

    def __init__(self, graph: JoinGraph, origin: str, intervals: frozenset[tuple[str, str]] = frozenset()) -> None:
        super().__init__(graph, origin)
        self._intervals = {(graph.position(own), graph.position(bound)) for own, bound in intervals}
        self._visits: dict[tuple[int, int], Visit] = {}

    def step(self, bound: int, stream: int) -> float:
        return self.rows(bound) * self.visit(bound, stream).ns if bound else 0.0

    def visit(self, bound: int, stream: int) -> Visit:
        """The cheapest way to find the rows of `stream` from those bound."""
        if (bound, stream) not in self._visits:
            self._visits[bound, stream] = min(self._ways(bound, stream), key=_weighed)
        return self._visits[bound, stream]

    def _ways(self, bound: int, stream: int) -> list[Visit]:
        reach = self._in_reach(bound, stream)
        passing = math.prod(selectivity for _, selectivity in self._complete(bound, stream))
        ways = [self._scan(bound, stream, reach, passing)]
        if self._keyed(bound, stream):
            # Chains run from new to old and end at the first row that is too old, so only rows in reach are met.
            chain = reach * self._equal(bound, stream)
            ways.append(Visit("hash", chain, PROBE_NS + CHAINED_ROW_NS * chain))
        if any((stream, other) in self._intervals for other in range(len(self.graph.streams)) if bound >> other & 1):
            rows = self.graph.streams[stream].rows
            # Not only those in reach: a sorted index goes by value, over all that is stored.
            found = rows * passing
            search = SEARCH_NS * math.log2(rows + 2)
            ways.append(Visit("sorted", found, search + SORTED_ROW_NS * found))
        return ways

    def _scan(self, bound: int, stream: int, reach: float, passing: float) -> Visit:
        tested = reach * passing if passing < 1 else reach
        return Visit("scan", reach, SCAN_NS + PASSED_ROW_NS * reach + TESTED_ROW_NS * tested)


def _weighed(visit: Visit) -> float:
    return visit.ns / FAVOUR_HASH if visit.access == "hash" else visit.ns
