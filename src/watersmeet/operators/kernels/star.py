"""The n-way join on one common key, the case that must be fastest.

Every other store is reached from the new row's own key, so each chain is walked once per new row: its matches
go into a list per store, and the lists are multiplied out under the pairwise window bounds. Same tables, same
output and same way of stopping and resuming as walk.py; the lists live only while one row is processed.
"""

from __future__ import annotations

import numpy as np

from watersmeet.compiling import kernel
from watersmeet.operators.kernels.hashing import combine
from watersmeet.operators.kernels.memory import load32, load64, prefetch, store64
from watersmeet.operators.kernels.walk import (
    AT_DEPTH,
    AT_ROW,
    BLOCK,
    BOUND_CODES,
    CURSOR,
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

LISTS_FULL = -1


@kernel
def fetch_block(steps, depths, equals, start, end, heads_of):
    """Find the newest row of every chain for a block of new rows, overlapping the memory latency."""
    for d in range(depths):
        heads, shift = of_step(steps, d, HEADS), np.uint64(of_step(steps, d, SHIFT))
        # Each step has a single equality, so entry d of `equals` is that of step d.
        keys = of_three(equals, d, BOUND_CODES)
        base = d * BLOCK
        for i in range(start, end):
            where = heads + 4 * np.int64(combine(np.uint64(0), load64(keys, i)) >> shift)
            store64(heads_of, base + i - start, where)
            prefetch(where)
        times, following, codes = of_step(steps, d, TIME), of_step(steps, d, FOLLOWING), of_three(equals, d, OWN_CODES)
        tail = of_step(steps, d, TAIL)
        for i in range(base, base + end - start):
            p = np.int64(load32(load64(heads_of, i), np.int64(0)))
            store64(heads_of, i, p)
            if p >= tail:
                prefetch(times + 8 * p)
                prefetch(codes + 8 * p)
                prefetch(following + 4 * p)
        for i in range(base, base + end - start):  # most chains have a second row, which is as far away
            p = load64(heads_of, i)
            if p >= tail:
                p = np.int64(load32(following, p))
                if p >= tail:
                    prefetch(times + 8 * p)
                    prefetch(codes + 8 * p)
                    prefetch(following + 4 * p)


@kernel
def collect(steps, equals, limits, d, key, t, p, found, room):
    """List the rows of one chain that match the key within reach of time t; -1 if the list has no room."""
    tail, times, following = of_step(steps, d, TAIL), of_step(steps, d, TIME), of_step(steps, d, FOLLOWING)
    codes = of_three(equals, d, OWN_CODES)
    lo = t - limit(limits, 0, d, 0, EARLIER)
    hi = t + limit(limits, 0, d, 0, LATER)
    stop = lo - of_step(steps, d, SLACK)
    count = np.int64(0)
    while p >= tail:
        then = load64(times, p)
        if then < stop:
            break
        if load64(codes, p) == key and lo <= then <= hi:
            if count == room:
                return np.int64(-1)
            store64(found, count, p)
            count += 1
        p = np.int64(load32(following, p))
    return count


@kernel
def compatible(steps, limits, d, p, chosen):
    """Whether row p of step d lies within the bounds of the rows chosen for the steps before it."""
    t = load64(of_step(steps, d, TIME), p)
    for b in range(d):
        # The new row is bound at depth 0, so that of step b at depth b + 1.
        since = t - load64(of_step(steps, b, TIME), load64(chosen, b))
        if since > limit(limits, 0, d, b + 1, LATER) or -since > limit(limits, 0, d, b + 1, EARLIER):
            return False
    return True


@kernel
def star(origin_time, rows, steps, depths, equals, limits, pairwise, state, lists, room, out):
    """As walk.walk; returns LISTS_FULL when `lists` (depths x room) must grow before the call is repeated."""
    last, capacity = depths - 1, out.shape[1]
    heads_of = np.empty(depths * BLOCK, np.int64)
    sizes = np.empty(depths, np.int64)
    chosen = np.empty(depths, np.int64)
    chosen_at = np.int64(chosen.ctypes.data)
    heads_at = np.int64(heads_of.ctypes.data)
    count = 0
    row, d = get(state, SCALARS, AT_ROW), get(state, SCALARS, AT_DEPTH)
    block_start = block_end = row
    while row < rows:
        if row >= block_end:
            block_start, block_end = row, min(rows, row + BLOCK)
            fetch_block(steps, depths, equals, block_start, block_end, heads_at)
        t = load64(origin_time, row)
        # Lists are no part of the state: for a row that is resumed they are made again, which gives the same, as stores
        # may not change meanwhile.
        matched = True
        for k in range(depths):
            key = load64(of_three(equals, k, BOUND_CODES), row)
            sizes[k] = collect(
                steps, equals, limits, k, key, t, heads_of[k * BLOCK + row - block_start], lists + 8 * k * room, room
            )
            if sizes[k] < 0:
                put(state, SCALARS, AT_ROW, row)
                put(state, SCALARS, AT_DEPTH, np.int64(d))
                # What was found goes out first; the next call stands before this row again, with nothing found.
                return count if count > 0 else LISTS_FULL
            if sizes[k] == 0:
                matched = False
                break
        if not matched:
            row += 1
            continue
        if d < 0:
            d = 0
            put(state, CURSOR, 0, np.int64(0))
        else:  # resumed inside this row: the rows chosen so far are those just before the cursors
            for k in range(d):
                chosen[k] = load64(lists, k * room + get(state, CURSOR, k) - 1)
        while d >= 0:
            i = get(state, CURSOR, d)
            if i == sizes[d]:
                d -= 1
                continue
            if count == capacity:
                put(state, SCALARS, AT_ROW, row)
                put(state, SCALARS, AT_DEPTH, np.int64(d))
                return count
            put(state, CURSOR, d, i + 1)
            p = load64(lists, d * room + i)
            if pairwise and d > 0 and not compatible(steps, limits, d, p, chosen_at):
                continue
            chosen[d] = p
            if d < last:
                d += 1
                put(state, CURSOR, d, np.int64(0))
                continue
            out[0, count] = row
            for k in range(depths):
                out[k + 1, count] = chosen[k]
            count += 1
        row += 1
    put(state, SCALARS, AT_ROW, row)
    put(state, SCALARS, AT_DEPTH, np.int64(-1))
    return count
