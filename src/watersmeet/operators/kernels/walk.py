"""The n-way join: every new row of one stream walks the other streams' stores, depth first.

No intermediate result is kept: a walk holds one row number per stream and backtracks. Each step narrows the
period in which the next member's time must lie (from the closed window bounds) and the intervals in which its
codes must lie (from the comparisons), then visits candidates through a hash chain, sorted runs or a scan.

The plan of a walk is a handful of int64 tables, passed by address (see memory.py); their columns are named
here and filled in by operators.program. A walk stops when its output is full and resumes where it stopped.
"""

from __future__ import annotations

import numpy as np

from watersmeet.compiling import kernel
from watersmeet.operators.kernels.hashing import combine
from watersmeet.operators.kernels.memory import load32, load64, prefetch, store64

# As many inputs as a join may have (plan.nodes.MAX_INPUTS), so that tables of one size serve every join.
MAX_DEPTH = 8

# steps[d]: how depth d + 1 is found
ACCESS, TIME, DEATH, TAIL, HEAD, SLACK, HEADS, SHIFT, FOLLOWING = range(9)
EQUAL_FROM, EQUAL_TO, RANGE_FROM, RANGE_TO, UNEQUAL_FROM, UNEQUAL_TO, RUN_FROM, RUN_TO, ORIGIN_KEYED = range(9, 18)
STEP_FIELDS = 18
HASH, SORTED, SCAN, GIVEN = range(4)
# Of a step that is given, HEADS is where its rows stand: one for each new row, found before.

# equals[e] and unequals[e]: the code of a bound row against the candidate's own
BOUND_DEPTH, BOUND_CODES, OWN_CODES = range(3)

# ranges[r]: an interval for one own code, made by tests[t]; LOW and HIGH are set during the walk
RANGE_CODES, TEST_FROM, TEST_TO, RANGE_LOW, RANGE_HIGH = range(5)
RANGE_FIELDS = 5
TEST_OPERATOR, TEST_DEPTH, TEST_CODES = range(3)
LESS, AT_MOST, MORE, AT_LEAST = range(4)

# runs[r]: a sorted piece of an index
RUN_VALUES, RUN_ROWS, RUN_LENGTH = range(3)

# limits[k, d, b]: how much later (0) and earlier (1) than bound row b the candidate of step d may be;
# k = 0 holds the loosest limits, k > 0 those of each alternative of a WINDOW PATH
LATER, EARLIER = range(2)

# state[field, depth]: where a walk stands
CURSOR, RUN, RUN_STOP, LOW, HIGH, BOUND_ROW, BOUND_TIME, NEWEST, FIRST_DEATH, CHOICES, SCALARS = range(11)
STATE_FIELDS = 11
AT_ROW, AT_DEPTH = range(2)

# How many new rows are looked ahead for, and how many codes of a scan are tested, at once.
BLOCK = 64
INT64_MIN = np.int64(-(2**63))
INT64_MAX = np.int64(2**63 - 1)


@kernel
def of_step(steps, d, field):
    return load64(steps, d * STEP_FIELDS + field)


@kernel
def of_three(table, row, field):
    """A field of equals, unequals, tests or runs."""
    return load64(table, row * 3 + field)


@kernel
def get(state, field, depth):
    return load64(state, field * (MAX_DEPTH + 1) + depth)


@kernel
def put(state, field, depth, value):
    store64(state, field * (MAX_DEPTH + 1) + depth, value)


@kernel
def limit(limits, k, d, b, side):
    return load64(limits, ((k * MAX_DEPTH + d) * MAX_DEPTH + b) * 2 + side)


@kernel
def bound_code(table, row, state):
    """The code, of a row already bound, that an entry of equals, unequals or tests names in fields 1 and 2."""
    depth = of_three(table, row, 0)
    return load64(of_three(table, row, 1), get(state, BOUND_ROW, depth))


@kernel
def next_inside(codes, low, high, p, end):
    """The first position from p on whose code lies in the interval, or end; whole blocks are tested at once.

    `low <= x <= high` is one unsigned comparison of differences, which the compiler turns into vector code.
    """
    span = np.uint64(high - low)
    # Whole blocks begin at multiples of BLOCK: after a hit the rest of its block is gone through row by row, and no
    # block is tested as a whole twice.
    stop = min(end, (p + BLOCK - 1) & ~(BLOCK - 1))
    while p < stop:
        if np.uint64(load64(codes, p) - low) <= span:
            return p
        p += 1
    while p + BLOCK <= end:
        # Without a way out of the loop: one would keep it from becoming vector code.
        hits = 0
        for i in range(BLOCK):
            hits += np.uint64(load64(codes, p + i) - low) <= span
        if hits:
            break
        p += BLOCK
    while p < end:
        if np.uint64(load64(codes, p) - low) <= span:
            return p
        p += 1
    return end


@kernel
def next_inside_both(codes, low, high, others, least, most, p, end):
    """The same of two codes of a row, each in an interval of its own: one alone may let half of the rows pass."""
    span, reach = np.uint64(high - low), np.uint64(most - least)
    stop = min(end, (p + BLOCK - 1) & ~(BLOCK - 1))
    while True:
        while p < stop:
            if np.uint64(load64(codes, p) - low) <= span and np.uint64(load64(others, p) - least) <= reach:
                return p
            p += 1
        if p >= end:
            return end
        while p + BLOCK <= end:
            hits = 0
            for i in range(BLOCK):
                inside = np.uint64(load64(codes, p + i) - low) <= span
                hits += inside & (np.uint64(load64(others, p + i) - least) <= reach)
            if hits:
                break
            p += BLOCK
        stop = end


@kernel
def first_at_least(values, length, x):
    """Binary search in the ascending int64s at an address."""
    low, high = np.int64(0), length
    while low < high:
        middle = (low + high) >> 1
        if load64(values, middle) < x:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def narrow(ranges, tests, r, state):
    """Set the interval of range r from the rows bound so far; False if nothing can lie in it."""
    a, b = INT64_MIN, INT64_MAX
    base = r * RANGE_FIELDS
    for t in range(load64(ranges, base + TEST_FROM), load64(ranges, base + TEST_TO)):
        operator = of_three(tests, t, TEST_OPERATOR)
        v = load64(of_three(tests, t, TEST_CODES), get(state, BOUND_ROW, of_three(tests, t, TEST_DEPTH)))
        if operator == LESS:
            # v - 1 would wrap around, and nothing is below the smallest code.
            if v == INT64_MIN:
                return False
            b = min(b, v - 1)
        elif operator == AT_MOST:
            b = min(b, v)
        elif operator == MORE:
            if v == INT64_MAX:
                return False
            a = max(a, v + 1)
        else:
            a = max(a, v)
    store64(ranges, base + RANGE_LOW, a)
    store64(ranges, base + RANGE_HIGH, b)
    return a <= b


@kernel
def enter(steps, equals, ranges, tests, limits, d, state):
    """Stand before the first candidate of step d; False if there can be none."""
    lo, hi = INT64_MIN, INT64_MAX
    for b in range(d + 1):
        t = get(state, BOUND_TIME, b)
        hi = min(hi, t + limit(limits, 0, d, b, LATER))
        lo = max(lo, t - limit(limits, 0, d, b, EARLIER))
    if lo > hi:
        return False
    put(state, LOW, d, lo)
    put(state, HIGH, d, hi)
    for r in range(of_step(steps, d, RANGE_FROM), of_step(steps, d, RANGE_TO)):
        if not narrow(ranges, tests, r, state):
            return False
    access = of_step(steps, d, ACCESS)
    if access == HASH:
        h = np.uint64(0)
        for e in range(of_step(steps, d, EQUAL_FROM), of_step(steps, d, EQUAL_TO)):
            h = combine(h, bound_code(equals, e, state))
        bucket = np.int64(h >> np.uint64(of_step(steps, d, SHIFT)))
        put(state, CURSOR, d, np.int64(load32(of_step(steps, d, HEADS), bucket)))
    elif access == SORTED:
        put(state, RUN, d, of_step(steps, d, RUN_FROM) - 1)
        put(state, CURSOR, d, np.int64(0))
        put(state, RUN_STOP, d, np.int64(0))
    elif access == GIVEN:
        put(state, CURSOR, d, load64(of_step(steps, d, HEADS), get(state, BOUND_ROW, 0)))
    else:
        p, end = of_step(steps, d, TAIL), of_step(steps, d, HEAD)
        # The newest time so far ascends from tail to head, and a row is behind it by SLACK at most. So where halving
        # finds a row that is further than that before the period, or after it, all rows on that side are outside.
        slack = of_step(steps, d, SLACK)
        base, count = of_step(steps, d, TIME) + 8 * p, end - p
        end = p + first_at_least(base, count, hi + slack + 1)
        p += first_at_least(base, count, lo - slack)
        put(state, CURSOR, d, p)
        put(state, RUN_STOP, d, end)
    return True


@kernel
def next_in_runs(steps, ranges, runs, d, state):
    """The next row whose sorted code lies in the step's first interval, or -1."""
    # Comparisons with the code that the runs are sorted by come first in a step (optimizer/choose_routes.py).
    base = of_step(steps, d, RANGE_FROM) * RANGE_FIELDS
    while True:
        i = get(state, CURSOR, d)
        run = get(state, RUN, d)
        if i < get(state, RUN_STOP, d):
            put(state, CURSOR, d, i + 1)
            return np.int64(load32(of_three(runs, run, RUN_ROWS), i))
        run += 1
        put(state, RUN, d, run)
        if run >= of_step(steps, d, RUN_TO):
            return np.int64(-1)
        values, length = of_three(runs, run, RUN_VALUES), of_three(runs, run, RUN_LENGTH)
        low, high = load64(ranges, base + RANGE_LOW), load64(ranges, base + RANGE_HIGH)
        put(state, CURSOR, d, first_at_least(values, length, low))
        past = length
        if high < INT64_MAX:
            past = first_at_least(values, length, high + 1)
        put(state, RUN_STOP, d, past)


@kernel
def next_in_scan(steps, ranges, d, state):
    """The next row of the store that passes the step's first interval (or its period), or -1."""
    p, end = get(state, CURSOR, d), get(state, RUN_STOP, d)
    r = of_step(steps, d, RANGE_FROM)
    if r < of_step(steps, d, RANGE_TO):
        base = r * RANGE_FIELDS
        codes, low, high = (
            load64(ranges, base + RANGE_CODES),
            load64(ranges, base + RANGE_LOW),
            load64(ranges, base + RANGE_HIGH),
        )
        if r + 1 < of_step(steps, d, RANGE_TO):
            base += RANGE_FIELDS
            least, most = load64(ranges, base + RANGE_LOW), load64(ranges, base + RANGE_HIGH)
            p = next_inside_both(codes, low, high, load64(ranges, base + RANGE_CODES), least, most, p, end)
        else:
            p = next_inside(codes, low, high, p, end)
    elif of_step(steps, d, SLACK) > 0:
        p = next_inside(of_step(steps, d, TIME), get(state, LOW, d), get(state, HIGH, d), p, end)
    put(state, CURSOR, d, p + 1)
    return p if p < end else np.int64(-1)


@kernel
def fits(steps, equals, unequals, ranges, d, p, state):
    """Whether candidate p has the codes that step d asks for."""
    for e in range(of_step(steps, d, EQUAL_FROM), of_step(steps, d, EQUAL_TO)):
        if load64(of_three(equals, e, OWN_CODES), p) != bound_code(equals, e, state):
            return False
    for r in range(of_step(steps, d, RANGE_FROM), of_step(steps, d, RANGE_TO)):
        base = r * RANGE_FIELDS
        x = load64(load64(ranges, base + RANGE_CODES), p)
        if x < load64(ranges, base + RANGE_LOW) or x > load64(ranges, base + RANGE_HIGH):
            return False
    for e in range(of_step(steps, d, UNEQUAL_FROM), of_step(steps, d, UNEQUAL_TO)):
        if load64(of_three(unequals, e, OWN_CODES), p) == bound_code(unequals, e, state):
            return False
    return True


@kernel
def choices_left(limits, choices, d, t, state):
    """Which alternatives of a WINDOW PATH the members so far, and this one at time t, still satisfy (bit set)."""
    left = get(state, CHOICES, d)
    for k in range(1, choices + 1):
        bit = np.int64(1) << np.int64(k - 1)
        if left & bit:
            for b in range(d + 1):
                since = t - get(state, BOUND_TIME, b)
                if since > limit(limits, k, d, b, LATER) or -since > limit(limits, k, d, b, EARLIER):
                    left &= ~bit
                    break
    return left


@kernel
def next_candidate(steps, equals, unequals, ranges, runs, limits, choices, d, state):
    """Bind the next row of step d at depth d + 1; False when there is none left."""
    tail, lo, hi = of_step(steps, d, TAIL), get(state, LOW, d), get(state, HIGH, d)
    access, times, death = of_step(steps, d, ACCESS), of_step(steps, d, TIME), of_step(steps, d, DEATH)
    # No row is later than one that came after it by more than SLACK. So below this, all older rows of a chain are
    # before `lo`.
    stop = lo - of_step(steps, d, SLACK)
    while True:
        if access == HASH:
            p = get(state, CURSOR, d)
            # Chains run from new to old and end with -1, so all that follows has expired too.
            if p < tail:
                return False
            t = load64(times, p)
            if t < stop:
                return False
            put(state, CURSOR, d, np.int64(load32(of_step(steps, d, FOLLOWING), p)))
        else:
            if access == SORTED:
                p = next_in_runs(steps, ranges, runs, d, state)
            elif access == GIVEN:
                p = get(state, CURSOR, d)
                put(state, CURSOR, d, np.int64(-1))
            else:
                p = next_in_scan(steps, ranges, d, state)
            if p < 0:
                return False
            if p < tail:
                continue
            t = load64(times, p)
        if t < lo or t > hi or not fits(steps, equals, unequals, ranges, d, p, state):
            continue
        newest = max(get(state, NEWEST, d), t)
        dies = get(state, FIRST_DEATH, d)
        if death != 0:
            dies = min(dies, load64(death, p))
        # A death is the first instant at which a row is gone: all members must be there when the newest comes.
        if newest >= dies:
            continue
        if choices > 0:
            left = choices_left(limits, choices, d, t, state)
            if left == 0:
                continue
            put(state, CHOICES, d + 1, left)
        put(state, BOUND_ROW, d + 1, p)
        put(state, BOUND_TIME, d + 1, t)
        put(state, NEWEST, d + 1, newest)
        put(state, FIRST_DEATH, d + 1, dies)
        return True


@kernel
def look_ahead(steps, depths, equals, start, end, pointers, hopeful):
    """For a block of new rows, start fetching the chains that depend on the new row alone.

    The memory latency of a whole block overlaps, and a row that some store cannot match is set aside at once.
    """
    for i in range(end - start):
        hopeful[i] = 1
    for d in range(depths):
        if of_step(steps, d, ORIGIN_KEYED) == 0:
            continue
        heads, tail, shift = of_step(steps, d, HEADS), of_step(steps, d, TAIL), np.uint64(of_step(steps, d, SHIFT))
        first, past = of_step(steps, d, EQUAL_FROM), of_step(steps, d, EQUAL_TO)
        for i in range(start, end):
            h = np.uint64(0)
            for e in range(first, past):
                h = combine(h, load64(of_three(equals, e, BOUND_CODES), i))
            # Heads and chains are int32, times and codes int64: hence 4 and 8 bytes.
            pointers[i - start] = heads + 4 * np.int64(h >> shift)
            prefetch(pointers[i - start])
        times, following = of_step(steps, d, TIME), of_step(steps, d, FOLLOWING)
        for i in range(end - start):
            p = np.int64(load32(pointers[i], np.int64(0)))
            if p < tail:
                hopeful[i] = 0
            elif hopeful[i]:
                prefetch(times + 8 * p)
                prefetch(following + 4 * p)
                for e in range(first, past):
                    prefetch(of_three(equals, e, OWN_CODES) + 8 * p)


@kernel
def start(origin_time, origin_death, row, choices, state):
    """Bind a new row at depth 0; False if it has left its own window by the time it counts."""
    t = load64(origin_time, row)
    dies = INT64_MAX
    if origin_death != 0:
        dies = load64(origin_death, row)
    put(state, BOUND_ROW, 0, row)
    put(state, BOUND_TIME, 0, t)
    put(state, NEWEST, 0, t)
    put(state, FIRST_DEATH, 0, dies)
    put(state, CHOICES, 0, (np.int64(1) << np.int64(choices)) - 1)
    return t < dies


@kernel
def walk(
    origin_time, origin_death, rows, steps, depths, equals, unequals, ranges, tests, runs, limits, choices, state, out
):
    """Fill `out[depth, i]` with row numbers of combinations; returns how many.

    Fewer than out.shape[1] means that the walk is complete; otherwise call again with the same state.
    """
    last, capacity = depths - 1, out.shape[1]
    hopeful = np.ones(BLOCK, np.int8)
    pointers = np.empty(BLOCK, np.int64)
    count = 0
    row, d = get(state, SCALARS, AT_ROW), get(state, SCALARS, AT_DEPTH)
    block_start = block_end = row
    if d >= 0:  # resumed: go on with this row, its block is looked at again
        block_end = min(rows, row + BLOCK)
        look_ahead(steps, depths, equals, block_start, block_end, pointers, hopeful)
    while row < rows:
        if d < 0:
            if row >= block_end:
                block_start = row
                block_end = min(rows, row + BLOCK)
                look_ahead(steps, depths, equals, block_start, block_end, pointers, hopeful)
            if not (
                hopeful[row - block_start]
                and start(origin_time, origin_death, row, choices, state)
                and enter(steps, equals, ranges, tests, limits, 0, state)
            ):
                row += 1
                continue
            d = 0
        while d >= 0:
            # Asked before the next candidate is bound, so that a walk which goes on has lost none.
            if count == capacity:
                put(state, SCALARS, AT_ROW, row)
                put(state, SCALARS, AT_DEPTH, np.int64(d))
                return count
            if not next_candidate(steps, equals, unequals, ranges, runs, limits, choices, d, state):
                d -= 1
            elif d == last:
                for k in range(depths + 1):
                    out[k, count] = get(state, BOUND_ROW, k)
                count += 1
            elif enter(steps, equals, ranges, tests, limits, d + 1, state):
                d += 1
        row += 1
    put(state, SCALARS, AT_ROW, row)
    put(state, SCALARS, AT_DEPTH, np.int64(-1))
    return count
