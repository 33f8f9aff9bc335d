"""The N-th next row of the same group, for ROWS windows over partitions."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True)
def nth_later(groups, group_count, n, times, never, out):
    """out[i] = the time of the n-th row after i in i's group, or `never`. Groups are numbered from 0."""
    starts = np.zeros(group_count + 1, np.int64)
    for g in groups:
        starts[g + 1] += 1
    for g in range(group_count):
        starts[g + 1] += starts[g]
    filled = starts[:-1].copy()
    rows = np.empty(len(groups), np.int64)
    for i in range(len(groups)):
        g = groups[i]
        rows[filled[g]] = i
        filled[g] += 1
    for g in range(group_count):
        for k in range(starts[g], starts[g + 1]):
            later = k + n
            out[rows[k]] = times[rows[later]] if later < starts[g + 1] else never
