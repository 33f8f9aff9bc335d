"""The order in which a left-deep pipeline reads its inputs when every node takes its two sides in turn (H02 Figure 5).

A side that has nothing to give is passed over: no input is waited for.
"""

from __future__ import annotations

import numpy as np

from watersmeet.compiling import kernel


@kernel
def next_of(streams, positions, k, start):
    """The first arrival from `start` on whose input is at position k, or their number if there is none."""
    at = start
    while at < streams.size and positions[streams[at]] != k:
        at += 1
    return at


@kernel
def alternate(streams, positions, inputs, order):
    """Fill `order` with the arrivals, by number, as the pipeline reads them; each input keeps its own order."""
    past = streams.size
    ahead = np.empty(inputs, np.int64)  # the next arrival of each position
    for k in range(inputs):
        ahead[k] = next_of(streams, positions, k, 0)
    takes_left = np.ones(inputs, np.bool_)  # by node; node k has positions 0 to k - 1 on its left
    for i in range(past):
        # From the top: GetNext of the last node asks one of its sides, and so down to the input that is read.
        k = inputs - 1
        while k > 0:
            left_has = False
            for u in range(k):
                left_has |= ahead[u] < past
            goes_left = left_has and (takes_left[k] or ahead[k] == past)
            takes_left[k] = not goes_left
            if not goes_left:
                break
            k -= 1
        order[i] = ahead[k]
        ahead[k] = next_of(streams, positions, k, ahead[k] + 1)
