"""Labels: int64s that stand for values in the order of the values, with room between them for more."""

from __future__ import annotations

import numpy as np

from watersmeet.operators.continuous.aggregates.contract import Int64s

LIMIT = 2**61  # labels lie between -LIMIT and LIMIT, so that differences do not overflow
# Room for 36 halvings between two labels, and for 2**26 strides between the limits.
STRIDE = 2**36


def even_labels(count: int) -> Int64s:
    stride = min(STRIDE, 2 * LIMIT // (count + 1))
    return (np.arange(count) - count // 2) * stride


def labels_between(low: Int64s, high: Int64s) -> Int64s | None:
    """Labels for new values in order, each between the labels next to it; None if there is no room somewhere.

    Values between the same two labels share the room evenly. Beyond the first or last label they take a stride each,
    as more may come on that side.
    """
    # There are no labels yet.
    if low[0] == -LIMIT and high[0] == LIMIT:
        return even_labels(low.size)
    _, first, gap, counts = np.unique(low, return_index=True, return_inverse=True, return_counts=True)
    number, together = np.arange(low.size) - first[gap] + 1, counts[gap]
    below, above = low == -LIMIT, high == LIMIT
    steps = (high - low) // (together + 1)
    steps = np.where(below | above, np.minimum(steps, STRIDE), steps)
    if (steps < 1).any():
        return None
    made: Int64s = np.where(below, high - steps * (together + 1 - number), low + steps * number)
    return made


def renamed(old: Int64s, new: Int64s, labels: Int64s) -> Int64s:
    """The new names of labels, where old[i] became new[i] and `old` ascends; what was no label becomes anything."""
    return new[np.minimum(np.searchsorted(old, labels), new.size - 1)]
