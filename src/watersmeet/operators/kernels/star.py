"""The n-way join on one common key, the case that must be fastest.

Every other store is reached from the new row's own key, so each chain is walked once per new row: its matches
go into a list per store, and the lists are multiplied out under the pairwise window bounds. Same tables, same
output and same way of stopping and resuming as walk.py; the lists live only while one row is processed.
"""

from __future__ import annotations

import numpy as np

from watersmeet.compiling import kernel
from watersmeet.operators.kernels.hashing import combine
from watersmeet.operators.kernels.memory import load32, load64, on_stack, prefetch, store64
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
TOO_MANY = -1

# Where parts of the scratch begin in which a block is met, of int64s, and how long it is.
WHO, AT, HITS = range(0, 3 * BLOCK, BLOCK)
MOST_HITS = 4096
SCRATCH = HITS + MOST_HITS
SCRATCH_OF_ALL = SCRATCH + MOST_HITS  # that of two of the streams at a time
HALF = np.int64(32)
LOWER_HALF = np.int64((1 << 32) - 1)


@kernel
def all_of(block, scratch):
    """All rows of a block are looked at."""
    for r in range(block):
        store64(scratch, WHO + r, np.int64(r))


@kernel
def meet(origin_time, steps, equals, limits, d, start, count, scratch, ends, rows, found, room):
    """List what some rows of the block that begins at row `start` find in the store of step d; `scratch` has which.

    `rows` and `found` get the numbers of new rows and of what they find, in the order of the rows and from new to old;
    `ends` where the list of each row of a block ends. Gives how many are listed, or TOO_MANY.

    All rows take one step along their chains, then all that go on the next. So what is read is on its way while others
    are looked at, and whether a row matches, or is the last of its chain, is added up and not branched on: a branch
    that cannot be foretold costs more than all the rest.
    """
    heads, shift = of_step(steps, d, HEADS), np.uint64(of_step(steps, d, SHIFT))
    tail, times, following = of_step(steps, d, TAIL), of_step(steps, d, TIME), of_step(steps, d, FOLLOWING)
    # Each step has a single equality, so entry d of `equals` is that of step d.
    codes = of_three(equals, d, OWN_CODES)
    keys, new_times = of_three(equals, d, BOUND_CODES) + 8 * start, origin_time + 8 * start
    earlier, later = limit(limits, 0, d, 0, EARLIER), limit(limits, 0, d, 0, LATER)
    slack = of_step(steps, d, SLACK)
    who, at, hits = scratch + 8 * WHO, scratch + 8 * AT, scratch + 8 * HITS
    most = min(room, MOST_HITS)
    for i in range(count):
        where = heads + 4 * np.int64(combine(np.uint64(0), load64(keys, load64(who, i))) >> shift)
        store64(at, i, where)
        prefetch(where)
    for r in range(BLOCK):
        store64(ends, r, np.int64(0))
    going = np.int64(0)
    for i in range(count):
        r, p = load64(who, i), np.int64(load32(load64(at, i), np.int64(0)))
        store64(who, going, r)
        store64(at, going, p)
        prefetch(times + 8 * p)
        prefetch(codes + 8 * p)
        prefetch(following + 4 * p)
        going += np.int64(p >= tail)
    total = np.int64(0)
    while going > 0:
        if total + going > most:
            return np.int64(TOO_MANY)
        count, going = going, np.int64(0)
        for i in range(count):
            r, p = load64(who, i), load64(at, i)
            since, then, older = load64(new_times, r), load64(times, p), np.int64(load32(following, p))
            fits = np.int64((load64(codes, p) == load64(keys, r)) & (since - earlier <= then) & (then <= since + later))
            store64(hits, total, (r << HALF) | p)
            store64(ends, r, load64(ends, r) + fits)
            total += fits
            store64(who, going, r)
            store64(at, going, older)
            prefetch(times + 8 * older)
            prefetch(codes + 8 * older)
            prefetch(following + 4 * older)
            going += np.int64((older >= tail) & (then >= since - earlier - slack))
    # Back into the order of the rows: their lists begin where those before them end, and grow to their ends.
    begin = np.int64(0)
    for r in range(BLOCK):
        size = load64(ends, r)
        store64(ends, r, begin)
        begin += size
    for i in range(total):
        hit = load64(hits, i)
        r = hit >> HALF
        place = load64(ends, r)
        store64(ends, r, place + 1)
        store64(rows, place, start + r)
        store64(found, place, hit & LOWER_HALF)
    return total


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
def begin_of(ends, r):
    """Where the list of a row of a block begins."""
    return load64(ends, r - 1) if r > 0 else np.int64(0)


@kernel
def meet_all(origin_time, steps, depths, equals, limits, start, block, scratch, ends, lists, room):
    """Make the lists of a block in all stores. Gives how many rows have something in each, and lists which in
    `scratch`; or TOO_MANY."""
    all_of(block, scratch)
    going = np.int64(block)
    for d in range(depths):
        here = ends + 8 * d * BLOCK
        # The numbers of the new rows are not asked for, and lie in the way of nothing.
        if meet(
            origin_time, steps, equals, limits, d, start, going, scratch, here, scratch + 8 * SCRATCH,
            lists + 8 * d * room, room,
        ) < 0:  # fmt: skip
            return np.int64(TOO_MANY)
        going = np.int64(0)
        for r in range(block):
            store64(scratch, WHO + going, np.int64(r))
            going += np.int64(load64(here, r) > begin_of(here, r))
    return going


@kernel
def list_all(origin_time, steps, depths, equals, limits, row, ends, lists, room):
    """The same for a single row that may find very many. Gives whether there is something in each store, or
    TOO_MANY."""
    t = load64(origin_time, row)
    for d in range(depths):
        key = load64(of_three(equals, d, BOUND_CODES), row)
        bucket = np.int64(combine(np.uint64(0), key) >> np.uint64(of_step(steps, d, SHIFT)))
        p = np.int64(load32(of_step(steps, d, HEADS), bucket))
        size = collect(steps, equals, limits, d, key, t, p, lists + 8 * d * room, room)
        store64(ends, d * BLOCK, size)
        if size <= 0:
            return size
    return np.int64(1)


@kernel
def star(origin_time, rows, steps, depths, equals, limits, pairwise, state, lists, room, out):
    """As walk.walk; returns LISTS_FULL when `lists` (depths x room) must grow before the call is repeated."""
    last, capacity = depths - 1, out.shape[1]
    ends_of = np.empty((depths, BLOCK), np.int64)
    begins = np.empty(depths, np.int64)
    chosen = np.empty(depths, np.int64)
    scratch, ends = on_stack(SCRATCH_OF_ALL), np.int64(ends_of.ctypes.data)
    chosen_at = np.int64(chosen.ctypes.data)
    count = 0
    row, d = get(state, SCALARS, AT_ROW), get(state, SCALARS, AT_DEPTH)
    block = np.int64(BLOCK)
    while row < rows:
        block = min(block, rows - row)
        # Lists are no part of the state: for a row that is resumed they are made again, which gives the same, as stores
        # may not change meanwhile.
        matched = np.int64(TOO_MANY)
        if block > 1:
            matched = meet_all(origin_time, steps, depths, equals, limits, row, block, scratch, ends, lists, room)
            if matched < 0:
                block >>= 1
                continue
        else:
            matched = list_all(origin_time, steps, depths, equals, limits, row, ends, lists, room)
            store64(scratch, WHO, np.int64(0))
            if matched < 0:
                put(state, SCALARS, AT_ROW, row)
                put(state, SCALARS, AT_DEPTH, np.int64(d))
                # What was found goes out first; the next call stands before this row again, with nothing found.
                return count if count > 0 else LISTS_FULL
        for i in range(matched):
            r = load64(scratch, WHO + i)
            for k in range(depths):
                begins[k] = begin_of(ends + 8 * k * BLOCK, r)
            if d < 0:
                d = 0
                put(state, CURSOR, 0, begins[0])
            else:  # resumed inside this row: the rows chosen so far are those just before the cursors
                for k in range(d):
                    chosen[k] = load64(lists, k * room + get(state, CURSOR, k) - 1)
            while d >= 0:
                at = get(state, CURSOR, d)
                if at == ends_of[d, r]:
                    d -= 1
                    continue
                if count == capacity:
                    for k in range(d + 1):  # the next call begins with this row, and its lists where all do
                        put(state, CURSOR, k, get(state, CURSOR, k) - begins[k])
                    put(state, SCALARS, AT_ROW, row + r)
                    put(state, SCALARS, AT_DEPTH, np.int64(d))
                    return count
                put(state, CURSOR, d, at + 1)
                p = load64(lists, d * room + at)
                if pairwise and d > 0 and not compatible(steps, limits, d, p, chosen_at):
                    continue
                chosen[d] = p
                if d < last:
                    d += 1
                    put(state, CURSOR, d, begins[d])
                    continue
                out[0, count] = row + r
                for k in range(depths):
                    out[k + 1, count] = chosen[k]
                count += 1
        row += block
        # Fewer rows at a time where they find very many, and more again where they do not.
        fullest = np.int64(0)
        for k in range(depths):
            fullest = max(fullest, ends_of[k, block - 1])
        if 4 * fullest < room:
            block = min(2 * block, np.int64(BLOCK))
    put(state, SCALARS, AT_ROW, row)
    put(state, SCALARS, AT_DEPTH, np.int64(-1))
    return count
