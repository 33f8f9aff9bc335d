"""The two-way join on one key: walk a single chain and emit as it goes. Same tables and state as star.py."""

from __future__ import annotations

import numpy as np

from watersmeet.compiling import kernel
from watersmeet.operators.kernels.hashing import combine
from watersmeet.operators.kernels.memory import load32, load64, on_stack
from watersmeet.operators.kernels.star import MOST_HITS, SCRATCH, all_of, meet
from watersmeet.operators.kernels.walk import (
    AT_DEPTH,
    AT_ROW,
    BLOCK,
    BOUND_CODES,
    EARLIER,
    FOLLOWING,
    HEADS,
    LATER,
    OWN_CODES,
    SCALARS,
    SHIFT,
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
    heads, shift = of_step(steps, 0, HEADS), np.uint64(of_step(steps, 0, SHIFT))
    scratch, ends = on_stack(SCRATCH), on_stack(BLOCK)
    capacity = np.int64(out.shape[1])
    first = np.int64(out.ctypes.data)
    second = first + 8 * capacity
    count = np.int64(0)
    row, p = get(state, SCALARS, AT_ROW), get(state, SCALARS, AT_DEPTH)
    resumed = p >= 0
    block = np.int64(1) if resumed else np.int64(BLOCK)
    while row < rows:
        block = min(block, rows - row)
        if block > 1:
            all_of(block, scratch)
            met = meet(
                origin_time, steps, equals, limits, np.int64(0), row, block, scratch, ends,
                first + 8 * count, second + 8 * count, capacity - count,
            )  # fmt: skip
            if met < 0:
                block >>= 1
                continue
            count += met
            row += block
            # Fewer rows at a time where they find very many, and more again where they do not.
            if 4 * met < MOST_HITS:
                block = min(2 * block, np.int64(BLOCK))
            continue
        t, key = load64(origin_time, row), load64(keys, row)
        lo, hi = t - earlier, t + later
        if not resumed:
            p = np.int64(load32(heads, np.int64(combine(np.uint64(0), key) >> shift)))
        resumed = False
        before = count
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
        if 4 * (count - before) < MOST_HITS:
            block = np.int64(2)
    put(state, SCALARS, AT_ROW, row)
    put(state, SCALARS, AT_DEPTH, np.int64(-1))
    return count
