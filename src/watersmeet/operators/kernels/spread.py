"""Keys to coordinates of a grid, independent of the hash that the window stores use."""

from __future__ import annotations

import numpy as np
from numba import njit

from watersmeet.operators.kernels.hashing import finish


@njit(cache=True)
def coordinates(codes, size):
    """A number from 0 to size - 1 for every code, the same everywhere and always."""
    out = np.empty(len(codes), np.int64)
    for i in range(len(codes)):
        out[i] = np.int64(finish(np.uint64(codes[i])) % np.uint64(size))
    return out
