"""Nested loops over windows, tuple at a time: every join of K05 and GO03 is a case of these.

A walk binds one row per input, outermost loop first. The loop over the *origin* binds a new row k; every other loop
binds a row of a whole window or of one bucket. With k outermost and one new row at a time this is GO03's eager join
(and K05's for two streams), with many new rows its lazy join, with k further in its general lazy and its naive join.
Times are tested once k is known, codes as soon as both sides are.

Same plan vector as classic_buffers. A walk stops when its output is full and resumes where it stopped.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from watersmeet.operators.kernels.classic_buffers import (
    ALL,
    ALTERNATIVES,
    ARRIVAL,
    ATTRIBUTE_COMPARISONS,
    BUCKETS,
    BY_TIME,
    CODE,
    COUNTING,
    DEATHS_AT,
    FIRST_NEW,
    FOLLOWING,
    HEAD,
    HEAD_FIELDS,
    HEADS,
    INPUT_COUNT,
    INVALIDATE,
    LIMITS,
    MARK_ARRIVAL,
    MARK_BUCKET,
    MAX_DEPTH,
    NEW_FROM,
    NEW_TO,
    NEXT,
    NEXT_PASS,
    OLDEST,
    ORIGIN_DEPTHS,
    PASS_EVERY,
    PLAIN,
    PROBE,
    PROBE_ALL,
    PROBE_INSERT,
    RESULTS,
    SCANNED,
    SERIAL,
    SLOT_FIELDS,
    SLOTS,
    STATE,
    STEPS,
    TESTS,
    TIME,
    TIMES_AT,
    WINDOW_COMPARISONS,
    add,
    drop_dead,
    expire_bucket,
    expire_input,
    expire_table,
    insert,
    of_input,
    of_table,
    pass_over,
    put_table,
    put_input,
    spread,
)
from watersmeet.operators.kernels.hashing import combine
from watersmeet.operators.kernels.memory import load64, store64
from watersmeet.operators.kernels.walk import AT_MOST, EARLIER, LATER, LESS, MORE, next_inside

# steps[origin, depth]: one loop. TIMED: candidates' times are tested; DYING: what is done about ROWS windows;
# PAIRED: with k bound, the rows before it are tested among themselves; KEYS: so many of the tests make the key
INPUT, TABLE, ACCESS, TIMED, DYING, PAIRED, TEST_FROM, TEST_TO, KEYS = range(9)
STEP_FIELDS = 9
NEW_ROWS, LIST, BUCKET, NEW_IN_BUCKET = range(4)
# DYING: no matter; a candidate must outlive k; k must come before the first death; deaths are noted until k is known
NOT_DYING, OUTLIVES, BEFORE_DEATHS, NOTED = range(4)

# tests[i]: a candidate's code OWN against the code BOUND of the row bound at DEPTH, which is VALUE during a loop
OPERATOR, OWN, DEPTH, BOUND, VALUE = range(5)
TEST_FIELDS = 5
EQUAL, UNEQUAL = 4, 5  # besides LESS, AT_MOST, MORE, AT_LEAST of walk

# state[field, depth]
CURSOR, END, LOW, HIGH, BOUND_ROW, BOUND_TIME, FIRST_DEATH, SCALARS = range(8)
STATE_FIELDS = 8
AT_DEPTH, AT_ARRIVAL = range(2)

INT64_MIN = np.int64(-(2**63))
INT64_MAX = np.int64(2**63 - 1)


@njit(cache=True)
def get(plan, field, depth):
    return load64(load64(plan, STATE), field * MAX_DEPTH + depth)


@njit(cache=True)
def put(plan, field, depth, value):
    store64(load64(plan, STATE), field * MAX_DEPTH + depth, value)


@njit(cache=True)
def of_step(plan, origin, d, field):
    return load64(load64(plan, STEPS), (origin * MAX_DEPTH + d) * STEP_FIELDS + field)


@njit(cache=True)
def limit(plan, origin, k, d, b, side):
    """How much later or earlier than the row at depth b that at depth d may be; as walk.limit, from depth 1 on."""
    alternatives = load64(plan, ALTERNATIVES) + 1
    block = (origin * alternatives + k) * MAX_DEPTH + d - 1
    return load64(load64(plan, LIMITS), (block * MAX_DEPTH + b) * 2 + side)


@njit(cache=True)
def clean_for_probe(plan, t, bucket, now):
    """Remove what has expired before it is scanned, once per arrival."""
    j = of_table(plan, t, 0)
    strategy = of_input(plan, j, INVALIDATE)
    if of_input(plan, j, COUNTING) != BY_TIME:
        return
    arrival = load64(plan, ARRIVAL)
    if strategy == PROBE or strategy == PROBE_INSERT:
        if of_table(plan, t, MARK_ARRIVAL) != arrival or of_table(plan, t, MARK_BUCKET) != bucket:
            expire_bucket(plan, t, bucket, now)
    elif strategy == PROBE_ALL:
        if of_table(plan, t, MARK_ARRIVAL) != arrival:
            expire_table(plan, t, now)
    put_table(plan, t, MARK_ARRIVAL, arrival)
    put_table(plan, t, MARK_BUCKET, bucket)


@njit(cache=True)
def wanted_bucket(plan, t, first_test, keys):
    """The bucket that the bound rows' key belongs to."""
    tests = load64(plan, TESTS)
    if of_table(plan, t, PLAIN):
        return load64(tests, first_test * TEST_FIELDS + VALUE) % of_table(plan, t, BUCKETS)
    h = np.uint64(0)
    for i in range(first_test, first_test + keys):
        h = combine(h, load64(tests, i * TEST_FIELDS + VALUE))
    return spread(h, of_table(plan, t, BUCKETS))


@njit(cache=True)
def enter(plan, origin, d, now):
    """Stand before the first candidate of a loop; False if there can be none."""
    tests = load64(plan, TESTS)
    first_test = of_step(plan, origin, d, TEST_FROM)
    for i in range(first_test, of_step(plan, origin, d, TEST_TO)):
        row = get(plan, BOUND_ROW, load64(tests, i * TEST_FIELDS + DEPTH))
        store64(tests, i * TEST_FIELDS + VALUE, load64(load64(tests, i * TEST_FIELDS + BOUND), row))
    if of_step(plan, origin, d, TIMED):
        lo, hi = INT64_MIN, INT64_MAX
        for b in range(d):
            t = get(plan, BOUND_TIME, b)
            hi = min(hi, t + limit(plan, origin, 0, d, b, LATER))
            lo = max(lo, t - limit(plan, origin, 0, d, b, EARLIER))
        if lo > hi:
            return False
        put(plan, LOW, d, lo)
        put(plan, HIGH, d, hi)
    j, table, access = of_step(plan, origin, d, INPUT), of_step(plan, origin, d, TABLE), of_step(plan, origin, d, ACCESS)
    if access == NEW_ROWS:
        put(plan, CURSOR, d, of_input(plan, j, NEW_FROM))
        put(plan, END, d, of_input(plan, j, NEW_TO))
    elif access == LIST:
        clean_for_probe(plan, table, np.int64(0), now)
        put(plan, CURSOR, d, of_table(plan, table, OLDEST))
        put(plan, END, d, of_input(plan, j, NEXT))
    else:
        bucket = wanted_bucket(plan, table, first_test, of_step(plan, origin, d, KEYS))
        clean_for_probe(plan, table, bucket, now)
        end = HEAD if access == BUCKET else FIRST_NEW
        put(plan, CURSOR, d, load64(of_table(plan, table, HEADS), bucket * HEAD_FIELDS + end))
    return True


@njit(cache=True)
def fits(tests, first, past, serial):
    """Whether a candidate's codes pass the tests first to past - 1."""
    for i in range(first, past):
        base = tests + 8 * TEST_FIELDS * i
        x, v, operator = load64(load64(base, OWN), serial), load64(base, VALUE), load64(base, OPERATOR)
        if operator == EQUAL:
            passed = x == v
        elif operator == UNEQUAL:
            passed = x != v
        elif operator == LESS:
            passed = x < v
        elif operator == AT_MOST:
            passed = x <= v
        elif operator == MORE:
            passed = x > v
        else:
            passed = x >= v
        if not passed:
            return False
    return True


@njit(cache=True)
def lives(plan, origin, d, dying, deaths, serial, time):
    """What ROWS windows say to a candidate; notes the first death as long as k is not known."""
    dies = INT64_MAX if deaths == 0 else load64(deaths, serial)
    if dying == OUTLIVES:
        return dies > get(plan, BOUND_TIME, load64(load64(plan, ORIGIN_DEPTHS), origin))
    if d > 0:
        dies = min(dies, get(plan, FIRST_DEATH, d - 1))
    put(plan, FIRST_DEATH, d, dies)
    return dying == NOTED or dies > time


@njit(cache=True)
def next_in_bucket(plan, origin, d):
    """Bind the next slot of a bucket that fits; False when there is none left."""
    j, table = of_step(plan, origin, d, INPUT), of_step(plan, origin, d, TABLE)
    timed, dying = of_step(plan, origin, d, TIMED), of_step(plan, origin, d, DYING)
    first, past = of_step(plan, origin, d, TEST_FROM), of_step(plan, origin, d, TEST_TO)
    lo, hi, slot = get(plan, LOW, d), get(plan, HIGH, d), get(plan, CURSOR, d)
    slots, deaths, tests = of_table(plan, table, SLOTS), of_input(plan, j, DEATHS_AT), load64(plan, TESTS)
    key = load64(tests, first * TEST_FIELDS + VALUE)
    scanned = compared = 0
    found = False
    while slot >= 0:
        cell = slots + 8 * SLOT_FIELDS * slot
        slot = load64(cell, FOLLOWING)
        scanned += 1
        t = load64(cell, TIME)
        if timed and (t < lo or t > hi):
            continue
        serial = load64(cell, SERIAL)
        if dying and not lives(plan, origin, d, dying, deaths, serial, t):
            continue
        compared += 1
        if load64(cell, CODE) != key or not fits(tests, first + 1, past, serial):
            continue
        put(plan, BOUND_ROW, d, serial)
        put(plan, BOUND_TIME, d, t)
        found = True
        break
    put(plan, CURSOR, d, slot)
    add(plan, SCANNED, scanned)
    add(plan, ATTRIBUTE_COMPARISONS, compared)
    if timed or dying:
        add(plan, WINDOW_COMPARISONS, scanned)
    return found


@njit(cache=True)
def next_in_list(plan, origin, d):
    """Bind the next row of a range of serials that fits; False when there is none left."""
    j, timed, dying = of_step(plan, origin, d, INPUT), of_step(plan, origin, d, TIMED), of_step(plan, origin, d, DYING)
    first, past = of_step(plan, origin, d, TEST_FROM), of_step(plan, origin, d, TEST_TO)
    tests, times, deaths = load64(plan, TESTS), of_input(plan, j, TIMES_AT), of_input(plan, j, DEATHS_AT)
    start, end = get(plan, CURSOR, d), get(plan, END, d)
    lo, hi = get(plan, LOW, d), get(plan, HIGH, d)
    serial = start
    compared = 0
    found = np.int64(-1)
    one_key = past == first + 1 and load64(tests, first * TEST_FIELDS + OPERATOR) == EQUAL
    if one_key and not timed and not dying:
        key = load64(tests, first * TEST_FIELDS + VALUE)
        found = next_inside(load64(tests, first * TEST_FIELDS + OWN), key, key, start, end)
        serial = min(end, found + 1)
        compared = serial - start
        if found == end:
            found = np.int64(-1)
    else:
        while serial < end:
            here = serial
            serial += 1
            t = load64(times, here)
            if timed and (t < lo or t > hi):
                continue
            if dying and not lives(plan, origin, d, dying, deaths, here, t):
                continue
            compared += 1
            if fits(tests, first, past, here):
                found = here
                break
    put(plan, CURSOR, d, serial)
    if d > 0 or of_step(plan, origin, d, ACCESS) == LIST:
        add(plan, SCANNED, serial - start)
        if past > first:
            add(plan, ATTRIBUTE_COMPARISONS, compared)
        if d > 0 and (timed or dying):
            add(plan, WINDOW_COMPARISONS, serial - start)
    if found < 0:
        return False
    put(plan, BOUND_ROW, d, found)
    put(plan, BOUND_TIME, d, load64(times, found))
    return True


@njit(cache=True)
def near_enough(plan, origin, k, d, b):
    since = get(plan, BOUND_TIME, d) - get(plan, BOUND_TIME, b)
    return since <= limit(plan, origin, k, d, b, LATER) and -since <= limit(plan, origin, k, d, b, EARLIER)


@njit(cache=True)
def all_near(plan, origin, k, depths):
    """Whether the rows bound at the first so many depths keep every limit of alternative k."""
    for d in range(1, depths):
        for b in range(d):
            if not near_enough(plan, origin, k, d, b):
                return False
    return True


@njit(cache=True)
def is_admitted(plan, origin, depths):
    """Whether a whole combination satisfies one alternative of a WINDOW PATH."""
    alternatives = load64(plan, ALTERNATIVES)
    if alternatives == 0:
        return True
    add(plan, WINDOW_COMPARISONS, 1)
    for k in range(1, alternatives + 1):
        if all_near(plan, origin, k, depths):
            return True
    return False


@njit(cache=True)
def next_match(plan, origin, d):
    access = of_step(plan, origin, d, ACCESS)
    while True:
        found = next_in_bucket(plan, origin, d) if access >= BUCKET else next_in_list(plan, origin, d)
        if not found:
            return False
        if not of_step(plan, origin, d, PAIRED) or all_near(plan, origin, 0, d):
            return True


@njit(cache=True)
def descend(plan, origin, now, out, count):
    """Go on with the loops of one origin; fills out[input, i], returns the new count. Depth -1 is the end."""
    depths, capacity = load64(plan, INPUT_COUNT), out.shape[1]
    d = get(plan, SCALARS, AT_DEPTH)
    while d >= 0 and count < capacity:
        if not next_match(plan, origin, d):
            d -= 1
        elif d < depths - 1:
            if enter(plan, origin, d + 1, now):
                d += 1
        elif is_admitted(plan, origin, depths):
            for k in range(depths):
                out[of_step(plan, origin, k, INPUT), count] = get(plan, BOUND_ROW, k)
            count += 1
    put(plan, SCALARS, AT_DEPTH, np.int64(d))
    return count


@njit(cache=True)
def before_probing(plan, origin, now):
    """What an arrival does to the buffers before its row is joined."""
    store64(plan, ARRIVAL, load64(plan, ARRIVAL) + 1)
    every = load64(plan, PASS_EVERY)
    due = every > 0 and now >= load64(plan, NEXT_PASS)
    if due:
        pass_over(plan, now)
        store64(plan, NEXT_PASS, (now // every + 1) * every)
    for j in range(load64(plan, INPUT_COUNT)):
        if of_input(plan, j, COUNTING) != BY_TIME:
            drop_dead(plan, j, now)
        elif j != origin and of_input(plan, j, INVALIDATE) == ALL:
            expire_input(plan, j, now)


@njit(cache=True)
def arrive(plan, streams, serials, times, end, out):
    """Join arrivals one at a time and insert each; returns how many combinations are in `out`.

    Complete when state AT_ARRIVAL is `end`; otherwise the output is full: call again.
    """
    count, capacity = 0, out.shape[1]
    a = get(plan, SCALARS, AT_ARRIVAL)
    while a < end:
        origin, now = streams[a], times[a]
        if get(plan, SCALARS, AT_DEPTH) < 0:
            before_probing(plan, origin, now)
            put_input(plan, origin, NEW_FROM, serials[a])
            put_input(plan, origin, NEW_TO, serials[a] + 1)
            if enter(plan, origin, np.int64(0), now):
                put(plan, SCALARS, AT_DEPTH, np.int64(0))
        count = descend(plan, origin, now, out, count)
        if get(plan, SCALARS, AT_DEPTH) >= 0:
            break
        insert(plan, origin, serials[a], now)
        a += 1
    put(plan, SCALARS, AT_ARRIVAL, np.int64(a))
    add(plan, RESULTS, count)
    return count


@njit(cache=True)
def refresh(plan, origin, resumed, now, out):
    """Join all new rows of one input; returns how many combinations are in `out`.

    Complete when state AT_DEPTH is -1; otherwise call again with `resumed`.
    """
    if not resumed and enter(plan, origin, np.int64(0), now):
        put(plan, SCALARS, AT_DEPTH, np.int64(0))
    count = descend(plan, origin, now, out, 0)
    add(plan, RESULTS, count)
    return count
