"""Limits between inputs as the tables that kernels read, and the windows that merging filters by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from watersmeet.model.time import FOREVER_US
from watersmeet.model.windows import Matrix
from watersmeet.papers.joins.contract import Int64s
from watersmeet.papers.joins.description import JoinDescription, TimeAlternative

# Kernels add limits to times, so "no limit" must dwarf any time yet not overflow.
NO_LIMIT = 2 * FOREVER_US

Windows = Literal["closure", "gca", "lca"]


def limits_table(limits: Matrix, size: int) -> Int64s:
    """`limits[u, v]` padded to size x size, with NO_LIMIT where there is none."""
    table = np.full((size, size), NO_LIMIT, np.int64)
    for u, row in enumerate(limits):
        table[u, : len(row)] = [NO_LIMIT if limit >= FOREVER_US else limit for limit in row]
    return table


def bounds_table(alternatives: Sequence[TimeAlternative], places: Sequence[int]) -> Int64s:
    """The constraints as written, one alternative after the other, behind where each begins; inputs by position."""
    position = {place: p for p, place in enumerate(places)}
    starts, numbers = [0], list[int]()
    for one in alternatives:
        for c in one.constraints:
            numbers += [position[c.earlier], position[c.later], c.at_most_us]
        starts.append(starts[-1] + len(one.constraints))
    return np.array([*starts, *numbers], np.int64)


def merge_windows(description: JoinDescription, windows: Windows) -> tuple[int, ...]:
    """How far from a row of each input, in either direction, the others may lie in the filtering step.

    GCA takes the largest window of the query for all inputs, LCA the largest of each input (H02 section 5.1). Both
    use windows as written, and shortest paths for pairs without one (section 5.2); `closure` is LCA with every
    pair's window tightened to the shortest path.
    """
    places = range(description.inputs)
    closed = description.limits
    limits = closed if windows == "closure" else _written(description, closed)
    local = tuple(max(max(limits[u][v], limits[v][u]) for v in places if v != u) for u in places)
    return (max(local),) * description.inputs if windows == "gca" else local


def _written(description: JoinDescription, closed: Matrix) -> Matrix:
    """The windows as written between two inputs, in the loosest alternative; the implied ones where none was."""
    limits = [list(row) for row in closed]
    given: dict[tuple[int, int], list[int]] = {}
    for one in description.alternatives:
        tightest: dict[tuple[int, int], int] = {}
        for c in one.constraints:
            pair = c.earlier, c.later
            tightest[pair] = min(c.at_most_us, tightest.get(pair, c.at_most_us))
        for pair, at_most_us in tightest.items():
            given.setdefault(pair, []).append(at_most_us)
    for (u, v), sizes in given.items():
        # A pair that some alternative says nothing of keeps its implied limit, which covers that alternative too.
        if len(sizes) == len(description.alternatives):
            limits[u][v] = max(sizes)
    return tuple(map(tuple, limits))


def is_exact(description: JoinDescription, reach_us: Sequence[int]) -> bool:
    """Whether the filter lets nothing else through: one window between all pairs in both directions (H02 form 1)."""
    sizes = {d for u, row in enumerate(description.limits) for v, d in enumerate(row) if u != v}
    return len(description.alternatives) == 1 and sizes == set(reach_us) and len(sizes) == 1
