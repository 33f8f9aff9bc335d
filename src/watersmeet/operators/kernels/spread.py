"""Keys to coordinates of a grid, independent of the hash that the window stores use; rows by coordinate, and the N-th
next row of the same group, for ROWS windows over partitions."""

from __future__ import annotations

import numpy as np

from watersmeet.compiling import kernel
from watersmeet.operators.kernels.hashing import finish


@kernel
def coordinates(codes, size):
    """A number from 0 to size - 1 for every code, the same everywhere and always."""
    out = np.empty(len(codes), np.int64)
    for i in range(len(codes)):
        out[i] = np.int64(finish(np.uint64(codes[i])) % np.uint64(size))
    return out


@kernel
def grouped(cells, count):
    """The order that puts rows of one cell together, and where each cell starts in it (the end comes last)."""
    starts = np.zeros(count + 1, np.int64)
    for cell in cells:
        starts[cell + 1] += 1
    for cell in range(count):
        starts[cell + 1] += starts[cell]
    at = starts[:-1].copy()
    order = np.empty(len(cells), np.int64)
    for i in range(len(cells)):
        order[at[cells[i]]] = i
        at[cells[i]] += 1
    return order, starts


@kernel
def nth_later(groups, group_count, n, times, never, out):
    """out[i] = the time of the n-th row after i in i's group, or `never`. Groups are numbered from 0."""
    rows, starts = grouped(groups, group_count)
    for g in range(group_count):
        for k in range(starts[g], starts[g + 1]):
            later = k + n
            out[rows[k]] = times[rows[later]] if later < starts[g + 1] else never
