"""The size of DGR03's flow graph: counted node by node and arc by arc, and within the paper's bounds."""

from __future__ import annotations

import numpy as np
import pytest

from watersmeet.papers.shedding.arrivals import one_per_tick
from watersmeet.papers.shedding.graph_size import GraphSize, graph_size, size_bounds
from watersmeet.papers.shedding.optimum import Allocation

Node = tuple[object, ...]


def drawn(r: list[int], s: list[int], window: int, memory: int, allocation: Allocation) -> dict[Node, set[Node]]:
    """The graph as section 3.2 draws it: the arcs that leave each node."""
    ticks, source, sink = len(r), ("source",), ("sink",)
    arcs: dict[Node, set[Node]] = {source: set(), sink: set()}
    for stream in "rs":
        for i in range(ticks):
            for j in range(i, min(i + window, ticks)):
                leaving = arcs.setdefault((stream, i, j), set())
                if j == ticks - 1:
                    leaving.add(sink)
                    continue
                if j + 1 < i + window:
                    leaving.add((stream, i, j + 1))
                leaving |= {(other, j + 1, j + 1) for other in ("rs" if allocation == "variable" else stream)}
        arcs[source] |= {(stream, i, i) for i in range(memory // 2)}
    path: Node = source
    for pair in [("pair", i) for i in range(ticks) if r[i] == s[i]]:
        arcs[path].add(pair)
        arcs[pair] = set()
        path = pair
    arcs[path].add(sink)
    return arcs


@pytest.mark.parametrize("allocation", ["fixed", "variable"])
@pytest.mark.parametrize(("ticks", "window", "memory"), [(5, 3, 2), (12, 4, 4), (20, 30, 6), (40, 1, 2), (60, 25, 20)])
def test_nodes_and_arcs_are_those_of_the_drawing_and_within_the_bounds(
    ticks: int, window: int, memory: int, allocation: Allocation
) -> None:
    rng = np.random.default_rng(ticks)
    r, s = (rng.integers(0, 4, ticks).tolist() for _ in "rs")
    arcs = drawn(r, s, window, memory, allocation)
    size = graph_size(one_per_tick(r, s, window), memory, allocation)
    assert size == GraphSize(len(arcs), sum(map(len, arcs.values())))
    assert max(len(leaving) for node, leaving in arcs.items() if node != ("source",)) <= 3
    most = size_bounds(ticks, window, memory)
    assert size.nodes <= most.nodes
    assert size.arcs <= most.arcs
    assert size.work <= most.work


def test_the_bounds_grow_as_the_paper_says_and_are_nearly_reached() -> None:
    """Nodes with wN, arcs with wN + M; of long streams whose rows all come in pairs nearly all of them are there."""
    keys = [1] * 5000
    size, most = graph_size(one_per_tick(keys, keys, 20), 10), size_bounds(5000, 20, 10)
    assert 0.99 * most.nodes <= size.nodes <= most.nodes
    assert 0.95 * most.arcs <= size.arcs <= most.arcs
    twice = size_bounds(5000, 40, 10)
    assert twice.nodes / most.nodes == pytest.approx(2, rel=0.03)
    assert size_bounds(5000, 20, 1010).arcs - most.arcs == 1000
