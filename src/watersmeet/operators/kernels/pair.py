"""The two-way join on one key: walk a single chain and emit as it goes. Same tables and state as star.py."""

from __future__ import annotations

import numpy as np

from watersmeet.compiling import kernel
from watersmeet.operators.kernels.memory import load32, load64
from watersmeet.operators.kernels.star import fetch_block
from watersmeet.operators.kernels.walk import (
    AT_DEPTH,
    AT_ROW,
    BLOCK,
    BOUND_CODES,
    EARLIER,
    FOLLOWING,
    LATER,
    OWN_CODES,
    SCALARS,
    SLACK,
    TAIL,
    TIME,
    get,
    limit,
    of_step,
    of_three,
    put,
)


@kernel
def pair(origin_time, rows, steps, equals, limits, state, out):
    """As walk.walk for one step; a walk that stops keeps the row of the store it stands at instead of a depth."""
    keys, codes = of_three(equals, 0, BOUND_CODES), of_three(equals, 0, OWN_CODES)
    tail, times, following = of_step(steps, 0, TAIL), of_step(steps, 0, TIME), of_step(steps, 0, FOLLOWING)
    earlier, later, slack = limit(limits, 0, 0, 0, EARLIER), limit(limits, 0, 0, 0, LATER), of_step(steps, 0, SLACK)
    heads_of = np.empty(BLOCK, np.int64)
    capacity = out.shape[1]
    count = 0
    row, p = get(state, SCALARS, AT_ROW), get(state, SCALARS, AT_DEPTH)
    resumed = p >= 0
    block_start = block_end = row
    while row < rows:
        if row >= block_end:
            block_start, block_end = row, min(rows, row + BLOCK)
            fetch_block(steps, 1, equals, block_start, block_end, np.int64(heads_of.ctypes.data))
        if not resumed:
            p = heads_of[row - block_start]
        resumed = False
        t, key = load64(origin_time, row), load64(keys, row)
        lo, hi = t - earlier, t + later
        while p >= tail:
            then = load64(times, p)
            if then < lo - slack:
                break
            if load64(codes, p) == key and lo <= then <= hi:
                # p was not given out yet: the next call begins with it.
                if count == capacity:
                    put(state, SCALARS, AT_ROW, row)
                    put(state, SCALARS, AT_DEPTH, p)
                    return count
                out[0, count] = row
                out[1, count] = p
                count += 1
            p = np.int64(load32(following, p))
        row += 1
    put(state, SCALARS, AT_ROW, row)
    put(state, SCALARS, AT_DEPTH, np.int64(-1))
    return count
