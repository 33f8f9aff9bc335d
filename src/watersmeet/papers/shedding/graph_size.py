"""How large DGR03's flow graph is (section 3.2.2): counted for given rows, and the paper's bounds."""

from __future__ import annotations

from math import log2

import numpy as np

from watersmeet.dataclass import dataclass
from watersmeet.papers.shedding.arrivals import Arrivals
from watersmeet.papers.shedding.optimum import Allocation
from watersmeet.papers.shedding.paper_graph import keys_by_tick


@dataclass(frozen=True)
class GraphSize:
    nodes: int
    arcs: int

    @property
    def work(self) -> float:
        """n² m log n: the steps that solving it takes at most, up to a factor."""
        return self.nodes**2 * self.arcs * log2(max(self.nodes, 2))


def size_bounds(rows: int, window: int, memory: int) -> GraphSize:
    """2wN + N + 2 nodes and M + 1 + 3 (nodes - 2) arcs at most, for N rows of each stream.

    >>> size_bounds(rows=5600, window=400, memory=400)
    GraphSize(nodes=4485602, arcs=13457201)
    """
    nodes = 2 * window * rows + rows + 2
    return GraphSize(nodes, memory + 1 + 3 * (nodes - 2))


def graph_size(arrivals: Arrivals, memory: int, allocation: Allocation = "variable") -> GraphSize:
    """The nodes and arcs of the paper's graph, for one row of each stream per tick.

    A node for each row and each tick of its life, one for each pair that comes together, source and sink. Arcs: a row
    stays, gives way to a new one of its stream, or of either where memory is shared, or is there at the end; the first
    M rows come from the source, and the pairs lie on a path of their own.

    >>> from watersmeet.papers.shedding.arrivals import one_per_tick
    >>> streams = one_per_tick([1, 1, 1, 3, 2], [2, 3, 1, 1, 3], window=3)
    >>> graph_size(streams, 2, "fixed")
    GraphSize(nodes=27, arcs=42)
    """
    keys = keys_by_tick(arrivals)
    ticks = keys.shape[1]
    pairs = int(np.count_nonzero(keys[0] == keys[1]))
    nodes, arcs = pairs + 2, memory + pairs + 1
    for window in arrivals.windows:
        held = int(np.minimum(window, ticks - np.arange(ticks)).sum())
        at_end = min(window, ticks)
        staying = held - ticks  # at every tick of its life but the one at which it comes
        giving_way = (held - at_end) * (1 if allocation == "fixed" else 2)  # at the next tick, if there is one
        nodes += held
        arcs += staying + giving_way + at_end
    return GraphSize(nodes, arcs)
