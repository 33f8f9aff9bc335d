"""Nested loops over buffered rows: one new row against the buffers of all other inputs, depth first.

A buffer is a range of serials, as rows enter at one end and leave at the other. The plan of a search is one flat
table of int64s, some of them addresses (see memory.py); its layout is given here and filled in by
operators.classic.nested_plan. A search stops when its output is full and resumes where it stopped.
"""

from __future__ import annotations

import numpy as np

from watersmeet.compiling import kernel
from watersmeet.operators.kernels.memory import load64, store64
from watersmeet.papers.joins.contract import ATTRIBUTE_COMPARISONS, SCANNED, WINDOW_COMPARISONS

MAX_INPUTS = 8  # the fixed places in the tables below leave room for so many

# plan: scalars, then one entry per input, then one per ordered pair or per (origin, depth)
INPUTS, TIMED, COUNTED, ALTERNATIVES, TESTS, BOUNDS, UNSIGNED, PURGE_EVERY = range(8)
CLOCKED, DROP_HEADS, HEADS_ONLY, PATIENCE = range(8, 12)
PROVEN = 12  # before which time no row will come of any input; NEVER where each input's own rows tell it
TIMES, DEATHS, REACH = 16, 24, 32
VISITS = 40  # VISITS + 8 * origin + depth: the input visited there; depth 0 is the origin
LIMITS = 104  # LIMITS + 8 * u + v: how much later than a row of u a row of v may be
SPANS = 168  # SPANS + 2 * (8 * origin + depth): from where to where the tests of that depth lie
PLAN_SIZE = 296

# tests[i]: the candidate's own code against that of a bound row
OWN_CODES, BOUND_INPUT, BOUND_CODES, OPERATOR = range(4)
TEST_FIELDS = 4
EQUAL, UNEQUAL, LESS, AT_MOST, MORE, AT_LEAST = range(6)

# bounds: where each alternative begins and the last ends, then the constraints as they were written
EARLIER, LATER, AT_MOST_US = range(3)
BOUND_FIELDS = 3

# buffers: rows TAIL to JOINED can be found, rows JOINED to ARRIVED wait; LAST is the time of the newest, or PROVEN if
# that is before: no row to come of the input is older
TAIL, JOINED, ARRIVED, LAST = 0, 8, 16, 24
BUFFERS_SIZE = 32
# Less the largest limit, 2**62, this is just within int64: an unread input is behind everything, without a test for it.
UNREAD = np.int64(-(2**62))
ENDED = np.int64(2**62)

# state: by input, by depth, then scalars
SERIAL, TIME, CURSOR, STOP, LOW, HIGH, NEWEST, DIES = 0, 8, 16, 24, 32, 40, 48, 56
AT_ARRIVAL, DEPTH, ORIGIN, SINCE_PURGE, MODE, AT_INPUT, FITTING, CLOCK, RESTARTS = range(64, 73)
PERIOD_LOW, PERIOD_HIGH, ADMIT_UNTIL, JOINING, TRACED, ONLY_HEADS, GOING = range(73, 80)
STATE_SIZE = 80

NEVER = np.int64(2**63 - 1)


@kernel
def compare(x, operator, y):
    if operator == EQUAL:
        return x == y
    if operator == UNEQUAL:
        return x != y
    if operator == LESS:
        return x < y
    if operator == AT_MOST:
        return x <= y
    if operator == MORE:
        return x > y
    return x >= y


@kernel
def fits(tests, first, past, p, state):
    """Whether candidate p has the codes that these tests ask for."""
    for i in range(first, past):
        test = tests + 8 * TEST_FIELDS * i
        own = load64(load64(test, OWN_CODES), p)
        bound = load64(load64(test, BOUND_CODES), load64(state, SERIAL + load64(test, BOUND_INPUT)))
        if not compare(own, load64(test, OPERATOR), bound):
            return False
    return True


@kernel
def satisfied(bounds, first, past, state, counts):
    """Whether the bound times satisfy one alternative of the constraints as written."""
    for i in range(first, past):
        bound = bounds + 8 * BOUND_FIELDS * i
        counts[WINDOW_COMPARISONS] += 1
        later, earlier = load64(bound, LATER), load64(bound, EARLIER)
        if load64(state, TIME + later) - load64(state, TIME + earlier) > load64(bound, AT_MOST_US):
            return False
    return True


@kernel
def satisfied_by(bounds, alternatives, state, counts):
    """The first alternative that the bound times satisfy, or -1."""
    table = bounds + 8 * (alternatives + 1)
    for k in range(alternatives):
        if satisfied(table, load64(bounds, k), load64(bounds, k + 1), state, counts):
            return k
    return -1


@kernel
def bind(state, i, serial, t):
    store64(state, SERIAL + i, serial)
    store64(state, TIME + i, t)


@kernel
def death_of(plan, i, serial):
    """When a row leaves a window that counts rows; never, if its window does not."""
    deaths = load64(plan, DEATHS + i)
    return NEVER if deaths == 0 else load64(deaths, serial)


@kernel
def enter(plan, buffers, state, d):
    """Set the period of the input visited at depth d from the rows bound so far, and start at its oldest row."""
    origin = load64(state, ORIGIN)
    v = load64(plan, VISITS + MAX_INPUTS * origin + d)
    # How much later u may be than v is how much earlier v may be than u, hence the low end.
    low, high = -NEVER, NEVER
    for b in range(d):
        u = load64(plan, VISITS + MAX_INPUTS * origin + b)
        t = load64(state, TIME + u)
        low = max(low, t - load64(plan, LIMITS + MAX_INPUTS * v + u))
        high = min(high, t + load64(plan, LIMITS + MAX_INPUTS * u + v))
    store64(state, LOW + d, low)
    store64(state, HIGH + d, high)
    tail = load64(buffers, TAIL + v)
    store64(state, CURSOR + d, tail)
    # Rows that wait (MW-join) are not searched: a combination is found by the last of its rows to be joined.
    stop = load64(buffers, JOINED + v)
    if load64(state, ONLY_HEADS):
        stop = min(stop, tail + 1)
    store64(state, STOP + d, stop)


@kernel
def begin(plan, buffers, state, origin, serial, t):
    """Bind a new row and go to the first buffer after it; False if it counts for nothing at its own time."""
    store64(state, ORIGIN, origin)
    bind(state, origin, serial, t)
    dies = death_of(plan, origin, serial)
    if t >= dies:
        return False
    store64(state, NEWEST, t)
    store64(state, DIES, dies)
    enter(plan, buffers, state, 1)
    store64(state, DEPTH, 1)
    return True


@kernel
def search(plan, buffers, state, counts, out, count):
    """Go on with the search begun; returns how many combinations `out` holds then. DEPTH is 0 when it is over."""
    inputs, timed, counted = load64(plan, INPUTS), load64(plan, TIMED), load64(plan, COUNTED)
    alternatives, tests, bounds = load64(plan, ALTERNATIVES), load64(plan, TESTS), load64(plan, BOUNDS)
    capacity = out.shape[1]
    origin = load64(state, ORIGIN)
    d = load64(state, DEPTH)
    scanned = in_period = 0
    attributes = 0
    while d > 0 and count < capacity:
        v = load64(plan, VISITS + MAX_INPUTS * origin + d)
        times = load64(plan, TIMES + v)
        span = SPANS + 2 * (MAX_INPUTS * origin + d)
        first, past = load64(plan, span), load64(plan, span + 1)
        low, high = load64(state, LOW + d), load64(state, HIGH + d)
        start, stop = load64(state, CURSOR + d), load64(state, STOP + d)
        p = start
        found = False
        # the first test is nearly always an equality and decides most candidates: keep its operands at hand
        keyed = past > first and load64(tests, TEST_FIELDS * first + OPERATOR) == EQUAL
        own_codes = key = np.int64(0)
        if keyed:
            test = tests + 8 * TEST_FIELDS * first
            own_codes = load64(test, OWN_CODES)
            key = load64(load64(test, BOUND_CODES), load64(state, SERIAL + load64(test, BOUND_INPUT)))
            first += 1
        tested = keyed or past > first
        while p < stop:
            if timed:
                t = load64(times, p)
                if t < low or t > high:
                    p += 1
                    continue
            in_period += 1
            if keyed and load64(own_codes, p) != key:
                p += 1
                continue
            if past > first and not fits(tests, first, past, p, state):
                p += 1
                continue
            if counted:
                newest = max(load64(state, NEWEST + d - 1), load64(times, p))
                dies = min(load64(state, DIES + d - 1), death_of(plan, v, p))
                # ROWS windows: the newest member must come before the first death of any member.
                if newest >= dies:
                    p += 1
                    continue
                store64(state, NEWEST + d, newest)
                store64(state, DIES + d, dies)
            found = True
            break
        scanned += p - start + (1 if found else 0)
        if tested:
            attributes += in_period
        in_period = 0
        if not found:
            d -= 1
            continue
        store64(state, CURSOR + d, p + 1)
        bind(state, v, p, load64(times, p))
        if d + 1 < inputs:
            d += 1
            enter(plan, buffers, state, d)
        elif alternatives == 0 or satisfied_by(bounds, alternatives, state, counts) >= 0:
            for i in range(inputs):
                out[i, count] = load64(state, SERIAL + i)
            count += 1
    store64(state, DEPTH, d)
    counts[SCANNED] += scanned
    counts[ATTRIBUTE_COMPARISONS] += attributes
    if timed:
        counts[WINDOW_COMPARISONS] += scanned
    return count
