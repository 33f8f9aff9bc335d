"""A chained hash index over a window store: `heads[bucket]` is the newest row, `following[row]` the next older.

Rows are numbered by position in the store. A pointer below the store's tail is a row that has expired, so
expiry needs no change here: a walk simply stops there.
"""

from __future__ import annotations

import numpy as np

from watersmeet.compiling import kernel
from watersmeet.operators.kernels.hashing import combine
from watersmeet.operators.kernels.memory import load32, load64, on_stack, prefetch, store32, store64

BLOCK = 64


@kernel
def link(codes, columns, first, last, heads, shift, following):
    """Put rows first..last-1 into the chains; `columns` names the rows of `codes` that make the key."""
    places, base, older = on_stack(BLOCK), np.int64(heads.ctypes.data), np.int64(following.ctypes.data)
    own = np.int64(codes.ctypes.data) + 8 * codes.shape[1] * columns[0]
    several = len(columns) > 1
    for start in range(first, last, BLOCK):
        count = min(last - start, BLOCK)
        for i in range(count):
            h = combine(np.uint64(0), load64(own, start + i))
            if several:
                for c in range(1, len(columns)):
                    h = combine(h, codes[columns[c], start + i])
            where = base + 4 * np.int64(h >> shift)
            store64(places, i, where)
            prefetch(where)
        # In a loop of its own, so that the heads of a whole block are on their way before the first is read.
        for i in range(count):
            where = load64(places, i)
            store32(older, start + i, load32(where, np.int64(0)))
            store32(where, np.int64(0), np.int32(start + i))


@kernel
def move(heads, following, target, count, by):
    """Renumber after the store moved its live rows down by `by` positions; what fell off ends its chain."""
    for i in range(len(heads)):
        heads[i] = max(heads[i] - by, -1)
    for p in range(count):
        target[p] = max(following[p + by] - by, -1)
