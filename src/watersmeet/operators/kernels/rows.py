"""Small passes over the rows of a window store."""

from __future__ import annotations

import numpy as np

from watersmeet.compiling import kernel
from watersmeet.operators.kernels.memory import move8


@kernel(borrows=True)
def disorder(times, newest):
    """How far a row lies behind the newest before it, at most; and the newest of all."""
    furthest = np.int64(0)
    for t in times:
        if t > newest:
            newest = t
        elif newest - t > furthest:
            furthest = newest - t
    return furthest, newest


@kernel(brief=True)
def old_rows(times, first, last, cutoff):
    """How many rows from the first on lie before a time, up to the first that does not."""
    p = first
    while p < last and times[p] < cutoff:
        p += 1
    return p - first


@kernel(borrows=True)
def move_down(start, by, count):
    """Move so many bytes down to an address, from that many behind it."""
    move8(start, start + by, count)
