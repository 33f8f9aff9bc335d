"""The order of changes inside a cell."""

from __future__ import annotations

import numpy as np

from watersmeet.compiling import kernel


@kernel
def additions_first(diffs, ends):
    """An order of the changes in which every cell has its additions before its removals; empty if they are so."""
    # A row may come and go in one cell, and whoever takes it away must find it.
    start = 0
    in_order = True
    for end in ends:
        removing = False
        for i in range(start, end):
            if diffs[i] < 0:
                removing = True
            elif removing and diffs[i] > 0:
                in_order = False
        start = end
    if in_order:
        return np.empty(0, np.int64)
    order = np.empty(len(diffs), np.int64)
    start = at = 0
    for end in ends:
        for i in range(start, end):
            if diffs[i] >= 0:
                order[at] = i
                at += 1
        for i in range(start, end):
            if diffs[i] < 0:
                order[at] = i
                at += 1
        start = end
    return order
