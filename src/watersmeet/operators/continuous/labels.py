"""Int64 labels in the order of what they stand for, far enough apart that new ones find room between old ones."""

from __future__ import annotations

import numpy as np

from watersmeet.operators.continuous.delta import Int64s

LIMIT = 2**61  # labels stay below it, so that differences do not overflow
STRIDE = 2**36


def even_labels(count: int) -> Int64s:
    stride = min(STRIDE, 2 * LIMIT // (count + 1))
    return (np.arange(count) - count // 2) * stride


def labels_between(labels: Int64s, before: Int64s) -> Int64s | None:
    """Labels for new values that come before the given places, ascending; None if there is no room somewhere."""
    size = labels.size
    if size == 0:
        return even_labels(before.size)
    _, first, run, counts = np.unique(before, return_index=True, return_inverse=True, return_counts=True)
    number, together = np.arange(before.size) - first[run] + 1, counts[run]
    bounds = np.concatenate([[-LIMIT], labels, [LIMIT]])
    low, high = bounds[before], bounds[before + 1]
    steps = (high - low) // (together + 1)
    at_the_edge = (before == 0) | (before == size)
    steps = np.where(at_the_edge, np.minimum(steps, STRIDE), steps)
    if bool((steps < 1).any()):
        return None
    found: Int64s = np.where(before == 0, high - steps * (together + 1 - number), low + steps * number)
    return found
