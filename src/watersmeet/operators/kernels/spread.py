"""Keys to coordinates of a grid, independent of the hash that the window stores use; rows by coordinate, and the N-th
next row of the same group, for ROWS windows over partitions."""

from __future__ import annotations

import numpy as np

from watersmeet.compiling import kernel
from watersmeet.operators.kernels.hashing import finish
from watersmeet.operators.kernels.memory import load8, load16, load32, load64, store8, store16, store32, store64

BLOCK = 1 << 12  # positions that stay in the nearest cache while the columns are copied


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
def placed_in(part, parts, codes, positions):
    """The positions of the codes that have this coordinate, in their order; how many. What `divided` does in one thread
    for all parts, so that each may do it in its own."""
    count = 0
    mask = of_two(parts)
    for i in range(len(codes)):
        positions[count] = i  # without a branch, which would be guessed wrong at every other code
        count += np.int64(coordinate(codes[i], parts, mask) == part)
    return count


@kernel
def copied(columns, positions):
    """The values at some positions of several columns: from where, to where, and how wide they are."""
    for start in range(0, len(positions), BLOCK):
        some = positions[start : start + BLOCK]
        for c in range(len(columns)):
            source, target, width = columns[c, 0], columns[c, 1] + start * columns[c, 2], columns[c, 2]
            if width == 8:
                for i in range(len(some)):
                    store64(target, i, load64(source, some[i]))
            elif width == 4:
                for i in range(len(some)):
                    store32(target, i, load32(source, some[i]))
            elif width == 2:
                for i in range(len(some)):
                    store16(target, i, load16(source, some[i]))
            else:
                for i in range(len(some)):
                    store8(target, i, load8(source, some[i]))


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
