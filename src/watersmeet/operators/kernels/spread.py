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
    mask = of_two(size)
    for i in range(len(codes)):
        out[i] = coordinate(codes[i], size, mask)
    return out


@kernel(inline="always")
def of_two(size):
    """What masks the rest of a division by a power of two, which otherwise takes longer than all else; or 0."""
    return np.uint64(size - 1) if size & (size - 1) == 0 else np.uint64(0)


@kernel(inline="always")
def coordinate(code, size, mask):
    h = finish(np.uint64(code))
    return np.int64(h & mask if mask else h % np.uint64(size))


@kernel
def divided(codes, out):
    """The positions of the codes that have each coordinate, in their order, in a row of `out`; how many in each."""
    parts = len(out)
    counts = np.zeros(parts, np.int64)
    mask = of_two(parts)
    for i in range(len(codes)):
        part = coordinate(codes[i], parts, mask)
        out[part, counts[part]] = i
        counts[part] += 1
    return counts


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
