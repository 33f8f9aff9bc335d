"""A chained hash index over a window store: `heads[bucket]` is the newest row, `following[row]` the next older.

Rows are numbered by position in the store. A pointer below the store's tail is a row that has expired, so
expiry needs no change here: a walk simply stops there.
"""

from __future__ import annotations

import numpy as np

from watersmeet.compiling import kernel
from watersmeet.operators.kernels.hashing import combine
from watersmeet.operators.kernels.memory import prefetch

BLOCK = 64


@kernel
def link(codes, columns, first, last, heads, shift, following):
    """Put rows first..last-1 into the chains; `columns` names the rows of `codes` that make the key."""
    buckets = np.empty(BLOCK, np.int64)
    base = heads.ctypes.data
    for start in range(first, last, BLOCK):
        end = min(last, start + BLOCK)
        for p in range(start, end):
            h = np.uint64(0)
            for c in columns:
                h = combine(h, codes[c, p])
            bucket = np.int64(h >> shift)
            buckets[p - start] = bucket
            prefetch(np.int64(base) + 4 * bucket)
        # In a loop of its own, so that the heads of a whole block are on their way before the first is read.
        for p in range(start, end):
            bucket = buckets[p - start]
            following[p] = heads[bucket]
            heads[bucket] = p


@kernel
def move(heads, following, target, count, by):
    """Renumber after the store moved its live rows down by `by` positions; what fell off ends its chain."""
    for i in range(len(heads)):
        heads[i] = max(heads[i] - by, -1)
    for p in range(count):
        target[p] = max(following[p + by] - by, -1)
