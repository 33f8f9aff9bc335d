"""What the nodes of H02's pipelines have in common: the plan, periods of m-tuples, and when something may go.

Inputs are numbered by their position in the pipeline. Node k joins m-tuples of positions 0 to k - 1, its left
input, with rows of position k, its right one. The plan and the state are flat tables of int64s.
"""

from __future__ import annotations

import numpy as np

from watersmeet.compiling import kernel
from watersmeet.operators.kernels.memory import load64, store64
from watersmeet.papers.joins.kernels.nested import MAX_INPUTS, NEVER, SERIAL, TIME, UNREAD, bind, satisfied_by

# plan: scalars, then one entry per position, then one per ordered pair of them
INPUTS, COUNTED, EARLIER_ALTERNATIVES, TESTS, BOUNDS, UNSIGNED, QUIETLY = range(7)
PURGE_EVERY, PURGE_ALL, LAZY = range(7, 10)
PROVEN = 10  # as in nested.py
# Eight entries each (MAX_INPUTS), and two per node for SPANS and KEYS.
TIMES, DEATHS, POSITIONS, PLACES, SPANS, KEYS = 16, 24, 32, 40, 48, 64  # SPANS + 2 * node, KEYS + 2 * node
LIMITS = 80
PLAN_SIZE = 144

# state: the bound rows (SERIAL and TIME, as in nested.py), what each level scans, the newest time read, scalars
CURSOR, LOW, HIGH, LAST = 16, 24, 32, 40
AT_ARRIVAL, LEVEL, BASE, READ, WRITE, ENTERING, GROWING, SINCE_PURGE, EPOCH = range(48, 57)
PREVIOUS, HASH = 64, 72
STATE_SIZE = 80

DONE, IS_FULL, MUST_GROW = range(3)


@kernel
def limit(plan, u, v):
    """How much later than a row of position u one of position v may be."""
    return load64(plan, LIMITS + MAX_INPUTS * u + v)


@kernel
def death_of(plan, i, serial):
    deaths = load64(plan, DEATHS + i)
    return NEVER if deaths == 0 else load64(deaths, serial)


@kernel
def set_period(plan, state, k):
    """The period in which position k must lie to join the members bound before it; False if it is empty."""
    low, high = -NEVER, NEVER
    for u in range(k):
        t = load64(state, TIME + u)
        low = max(low, t - limit(plan, k, u))
        high = min(high, t + limit(plan, u, k))
    store64(state, LOW + k, low)
    store64(state, HIGH + k, high)
    return low <= high


@kernel
def is_alive(plan, state, members):
    """Whether no member has left a window that counts rows by the time of the newest one."""
    newest, dies = -NEVER, NEVER
    for i in range(members):
        newest = max(newest, load64(state, TIME + i))
        dies = min(dies, death_of(plan, i, load64(state, SERIAL + i)))
    return newest < dies


@kernel
def is_out_right(plan, state, k, t, dies):
    """Whether everything to come from the left of node k lies beyond the reach of its right row at time t."""
    unsigned = load64(plan, UNSIGNED)
    for u in range(k):
        last, reach = load64(state, LAST + u), limit(plan, k, u)
        if unsigned:
            if last == UNREAD or abs(last - t) <= reach:
                return False
        # All positions on the left must have passed it: any may have the oldest row of an m-tuple to come (H02 Fig. 3).
        elif last - reach <= t and last < dies:
            return False
    return True


@kernel
def any_dead(plan, k, members, last):
    """Whether a member of an m-tuple of node k has left its window by the time of the last row on the right."""
    dies = NEVER
    for u in range(k):
        dies = min(dies, death_of(plan, u, load64(members, u)))
    return dies <= last


@kernel
def is_out_left(plan, state, k, low, high, members):
    """Whether everything to come from the right of node k lies beyond the reach of an m-tuple (by its TSmin)."""
    last = load64(state, LAST + k)
    # One input on the right decides: no row before LAST comes of it, so the period is over for good.
    if last > high:
        return True
    if load64(plan, UNSIGNED) and last != UNREAD and last < low:
        return True
    return load64(plan, COUNTED) != 0 and any_dead(plan, k, members, last)


@kernel
def bind_members(plan, state, k, members):
    for u in range(k):
        serial = load64(members, u)
        bind(state, u, serial, load64(load64(plan, TIMES + u), serial))


@kernel
def emit(plan, state, counts, out, count):
    """Write a whole combination, unless an alternative before this one has it too; returns how many there are."""
    inputs, alternatives = load64(plan, INPUTS), load64(plan, EARLIER_ALTERNATIVES)
    if load64(plan, COUNTED) and not is_alive(plan, state, inputs):
        return count
    # It has been given by the pipeline of that alternative (AMB-17).
    if alternatives and satisfied_by(load64(plan, BOUNDS), alternatives, state, counts) >= 0:
        return count
    if load64(plan, QUIETLY):
        return count
    for i in range(inputs):
        out[load64(plan, PLACES + i), count] = load64(state, SERIAL + i)
    return count + 1


@kernel
def next_of(streams, positions, k, start):
    """The first arrival from `start` on whose input is at position k, or their number if there is none."""
    at = start
    while at < streams.size and positions[streams[at]] != k:
        at += 1
    return at


@kernel
def alternate(streams, positions, inputs, order):
    """Fill `order` with the arrivals, by number, as a left-deep pipeline reads them when every node takes its two sides
    in turn (H02 Figure 5); each input keeps its own order. A side that has nothing to give is passed over: no input is
    waited for."""
    past = streams.size
    ahead = np.empty(inputs, np.int64)  # the next arrival of each position
    for k in range(inputs):
        ahead[k] = next_of(streams, positions, k, 0)
    takes_left = np.ones(inputs, np.bool_)  # by node; node k has positions 0 to k - 1 on its left
    for i in range(past):
        # From the top: GetNext of the last node asks one of its sides, and so down to the input that is read.
        k = inputs - 1
        while k > 0:
            left_has = False
            for u in range(k):
                left_has |= ahead[u] < past
            goes_left = left_has and (takes_left[k] or ahead[k] == past)
            takes_left[k] = not goes_left
            if not goes_left:
                break
            k -= 1
        order[i] = ahead[k]
        ahead[k] = next_of(streams, positions, k, ahead[k] + 1)
