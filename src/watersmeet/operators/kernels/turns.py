"""The order in which a left-deep pipeline reads its inputs when every node takes its two sides in turn (H02 Figure 5).

A side that has nothing to give is passed over: no input is waited for.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True)
def alternate(streams, positions, inputs, order):
    """Fill `order` with the arrivals, by number, as the pipeline reads them; each input keeps its own order."""
    waiting = np.zeros(inputs, np.int64)
    for stream in streams:
        waiting[positions[stream]] += 1
    starts = np.zeros(inputs + 1, np.int64)
    starts[1:] = np.cumsum(waiting)
    filled = starts[:-1].copy()
    queues = np.empty(len(streams), np.int64)
    for at in range(len(streams)):
        position = positions[streams[at]]
        queues[filled[position]] = at
        filled[position] += 1
    read = starts[:-1].copy()
    takes_left = np.ones(inputs, np.bool_)  # by node; node k has inputs 0 to k - 1 on its left
    for i in range(len(order)):
        k = inputs - 1
        while k > 0:
            left_has = np.any(read[:k] < starts[1 : k + 1])
            right_has = read[k] < starts[k + 1]
            goes_left = left_has and (takes_left[k] or not right_has)
            takes_left[k] = not goes_left
            if not goes_left:
                break
            k -= 1
        order[i] = queues[read[k]]
        read[k] += 1
