"""The dynamic programs of DGR03, section 3.1, over the components K(m, n) of a join graph."""

from __future__ import annotations

import numpy as np

from watersmeet.compiling import kernel


@kernel
def most_edges(m, n, p):
    """C_{m,n}(p): the most edges among p nodes of K(m, n); sides are filled in turn until the smaller one is full."""
    less = min(m, n)
    if p <= 2 * less:
        return (p // 2) * (p - p // 2)
    return less * (p - less)


@kernel
def by_nodes(m, n, k):
    """The most edges that 0 to k nodes keep, and per component and number of nodes how many of them it gets.

    T(i, j) = max over p of T(i − 1, j − p) + C_{mi,ni}(p); here j is the most nodes rather than their exact number, so
    that nothing is infeasible.
    """
    best = np.zeros(k + 1, np.int64)
    chosen = np.zeros((m.size, k + 1), np.int32)
    for i in range(m.size):
        size = min(k, m[i] + n[i])
        edges = np.empty(size + 1, np.int64)
        for p in range(size + 1):
            edges[p] = most_edges(m[i], n[i], p)
        for j in range(k, 1, -1):  # downwards, so that what is read is still of the components before
            most, nodes = best[j], 0
            for p in range(2, min(j, size) + 1):  # a single node has no edge
                if best[j - p] + edges[p] > most:
                    most, nodes = best[j - p] + edges[p], p
            best[j] = most
            chosen[i, j] = nodes
    return best, chosen


@kernel
def by_sides(m, n, k_a, k_b):
    """As by_nodes with k_a nodes of one side and k_b of the other: T(i, a, b) = max of T(i − 1, a − x, b − y) + x·y."""
    best = np.zeros((k_a + 1, k_b + 1), np.int64)
    chosen = np.zeros((m.size, k_a + 1, k_b + 1, 2), np.int32)
    for i in range(m.size):
        for a in range(k_a, 0, -1):
            for b in range(k_b, 0, -1):
                most = best[a, b]
                for x in range(1, min(a, m[i]) + 1):
                    for y in range(1, min(b, n[i]) + 1):
                        if best[a - x, b - y] + x * y > most:
                            most = best[a - x, b - y] + x * y
                            chosen[i, a, b, 0], chosen[i, a, b, 1] = x, y
                best[a, b] = most
    return best, chosen
