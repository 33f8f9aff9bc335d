"""The MW-join (H02 section 3.2): a sweep over time looks for a starting combination, then rows near it are admitted.

Mode 1 visits the heads of the buffers in turn and keeps the period in which the others must lie; heads left of it
are dropped, a head right of it starts a new period. When all heads fit, Mode 2 admits the rows that come up to the
end of the period and joins each with the whole buffers, without looking at times again. Then the head that nothing
to come can reach is dropped, and the sweep goes on.

With REACH different by input this is the filtering step of LCA (section 5.1).
"""

from __future__ import annotations

import numpy as np

from watersmeet.compiling import kernel
from watersmeet.operators.kernels.memory import load64, store64
from watersmeet.papers.joins.contract import (
    INSERTED,
    INVALIDATED,
    INVALIDATION_COMPARISONS,
    RESULTS,
    WINDOW_COMPARISONS,
)
from watersmeet.papers.joins.kernels.nested import (
    ADMIT_UNTIL,
    ARRIVED,
    AT_ARRIVAL,
    AT_INPUT,
    CLOCK,
    CLOCKED,
    DEPTH,
    DROP_HEADS,
    FITTING,
    GOING,
    HEADS_ONLY,
    INPUTS,
    JOINED,
    JOINING,
    MODE,
    ONLY_HEADS,
    ORIGIN,
    PATIENCE,
    PERIOD_HIGH,
    PERIOD_LOW,
    REACH,
    RESTARTS,
    TAIL,
    TIMES,
    TRACED,
    UNREAD,
    begin,
    search,
)
from watersmeet.papers.joins.kernels.removal import take_in

SWEEP, START, ADMIT = range(3)
WAITS, IS_FULL, IS_LOST, FOUND = range(4)

# trace[i]: what happened to which row, and the period that holds afterwards
DROPPED, FITS, BEGINS, STARTS, ADMITTED = range(5)


@kernel
def head_time(plan, buffers, i):
    return load64(load64(plan, TIMES + i), load64(buffers, TAIL + i))


@kernel
def has_head(buffers, i):
    return load64(buffers, TAIL + i) < load64(buffers, ARRIVED + i)


@kernel
def note(state, trace, event, i, serial, low, high):
    at = load64(state, TRACED)
    if at < trace.shape[0]:
        trace[at, 0], trace[at, 1], trace[at, 2], trace[at, 3], trace[at, 4] = event, i, serial, low, high
        store64(state, TRACED, at + 1)


@kernel
def drop_head(buffers, state, i, counts, trace):
    serial = load64(buffers, TAIL + i)
    store64(buffers, TAIL + i, serial + 1)
    # A head may go before it was joined with anything; then it never will be.
    store64(buffers, JOINED + i, max(load64(buffers, JOINED + i), serial + 1))
    store64(state, RESTARTS, 0)  # something has gone, so the sweep is not going in circles
    counts[INVALIDATED] += 1
    note(state, trace, DROPPED, i, serial, load64(state, PERIOD_LOW), load64(state, PERIOD_HIGH))


@kernel
def drop_unreachable(plan, buffers, state, keep, before, counts, trace):
    """Drop the heads, except those of one input, that reach no row at `before` or later; whether there were any."""
    any_dropped = False
    for j in range(load64(plan, INPUTS)):
        while j != keep and has_head(buffers, j):
            counts[INVALIDATION_COMPARISONS] += 1
            if head_time(plan, buffers, j) + load64(plan, REACH + j) >= before:
                break
            drop_head(buffers, state, j, counts, trace)
            any_dropped = True
    return any_dropped


@kernel
def set_period(state, low, high):
    store64(state, PERIOD_LOW, low)
    store64(state, PERIOD_HIGH, high)


@kernel
def restart_at(state, i):
    """Start sweeping anew from input i."""
    store64(state, MODE, SWEEP)
    store64(state, AT_INPUT, i)
    store64(state, FITTING, 0)


@kernel
def wait_for(plan, buffers, state, i, counts, trace):
    """Input i has no head. If time is known to have moved on, heads that its next row cannot reach may go."""
    clock = load64(state, CLOCK)
    if clock != UNREAD and drop_unreachable(plan, buffers, state, i, clock, counts, trace):
        restart_at(state, i)


@kernel
def sweep(plan, buffers, state, counts, trace):
    """Mode 1, up to a starting combination (then the mode changes) or to an input without a head."""
    inputs = load64(plan, INPUTS)
    while True:
        i = load64(state, AT_INPUT)
        if not has_head(buffers, i):
            wait_for(plan, buffers, state, i, counts, trace)
            return WAITS
        h, reach = head_time(plan, buffers, i), load64(plan, REACH + i)
        fitting = load64(state, FITTING)
        low, high = h - reach, h + reach
        event = BEGINS
        if fitting > 0:
            counts[WINDOW_COMPARISONS] += 1
            if h < load64(state, PERIOD_LOW):
                drop_head(buffers, state, i, counts, trace)
                continue
            if h <= load64(state, PERIOD_HIGH):
                event = FITS
                low, high = max(low, load64(state, PERIOD_LOW)), min(high, load64(state, PERIOD_HIGH))
            else:
                fitting = 0
                store64(state, RESTARTS, load64(state, RESTARTS) + 1)
                # What does not reach h meets nothing after it either; left in place it may make LCA loop (AMB-16).
                if load64(plan, DROP_HEADS):
                    drop_unreachable(plan, buffers, state, i, h, counts, trace)
                elif load64(state, RESTARTS) > load64(plan, PATIENCE):
                    return IS_LOST
        set_period(state, low, high)
        note(state, trace, event, i, load64(buffers, TAIL + i), low, high)
        store64(state, FITTING, fitting + 1)
        if fitting + 1 == inputs:
            store64(state, MODE, START)
            store64(state, ADMIT_UNTIL, high)
            store64(state, AT_INPUT, 0)
            note(state, trace, STARTS, i, load64(buffers, TAIL + i), low, high)
            return FOUND
        store64(state, AT_INPUT, (i + 1) % inputs)


@kernel
def admit(plan, buffers, state, i, trace):
    """Let the next row of input i in; it is to be joined with everything in the other buffers."""
    serial = load64(buffers, JOINED + i)
    t = load64(load64(plan, TIMES + i), serial)
    begin(plan, buffers, state, i, serial, t)
    store64(state, JOINING, 1)
    note(state, trace, ADMITTED, i, serial, load64(state, PERIOD_LOW), load64(state, PERIOD_HIGH))


@kernel
def start_with_heads(plan, buffers, state, trace):
    """Mode 2 begins: each head that is new meets the full buffers of the others, one after another."""
    inputs = load64(plan, INPUTS)
    for i in range(inputs):
        tail = load64(buffers, TAIL + i)
        # This head was joined in an earlier period.
        if load64(buffers, JOINED + i) > tail:
            continue
        if load64(plan, HEADS_ONLY):  # as printed: only the starting combination itself is looked at
            for j in range(inputs):
                if j != i:
                    head = load64(buffers, TAIL + j)
                    store64(buffers, JOINED + j, max(load64(buffers, JOINED + j), head + 1))
        store64(state, ONLY_HEADS, load64(plan, HEADS_ONLY))
        admit(plan, buffers, state, i, trace)
        return True
    store64(state, MODE, ADMIT)
    store64(state, ONLY_HEADS, 0)
    store64(state, AT_INPUT, 0)
    return False


@kernel
def admit_next(plan, buffers, state, counts, trace):
    """Mode 2: the next row, in turn, that lies not after the period; False if there is none among those arrived."""
    inputs, until, turn = load64(plan, INPUTS), load64(state, ADMIT_UNTIL), load64(state, AT_INPUT)
    for k in range(inputs):
        i = (turn + k) % inputs
        joined = load64(buffers, JOINED + i)
        if joined < load64(buffers, ARRIVED + i):
            counts[WINDOW_COMPARISONS] += 1
            if load64(load64(plan, TIMES + i), joined) <= until:
                store64(state, AT_INPUT, (i + 1) % inputs)
                admit(plan, buffers, state, i, trace)
                return True
    return False


@kernel
def is_past(plan, buffers, state):
    """Whether the next row of every input is known to lie right of the period."""
    if load64(state, CLOCK) > load64(state, ADMIT_UNTIL):  # before which nothing comes
        return True
    known = 0
    for i in range(load64(plan, INPUTS)):
        known += load64(buffers, JOINED + i) < load64(buffers, ARRIVED + i)
    return known == load64(plan, INPUTS)


@kernel
def leave_period(plan, buffers, state, counts, trace):
    """Drop the head whose reach ends first, as nothing to come can meet it, and sweep on from its input."""
    # With one reach for all this is the head with TSmin, as in the paper.
    first, ends = np.int64(0), head_time(plan, buffers, 0) + load64(plan, REACH)
    for i in range(1, load64(plan, INPUTS)):
        end = head_time(plan, buffers, i) + load64(plan, REACH + i)
        if end < ends:
            first, ends = np.int64(i), end
    drop_head(buffers, state, first, counts, trace)
    restart_at(state, first)


@kernel
def run(plan, buffers, state, counts, trace, quietly, out, count):
    """Go on until a row is missing (WAITS), the output is full (IS_FULL), or the sweep goes in circles (IS_LOST)."""
    while True:
        if load64(state, JOINING):
            if quietly:
                # A search of depth 0 is over at once, and finds nothing.
                store64(state, DEPTH, 0)
            count = search(plan, buffers, state, counts, out, count)
            if load64(state, DEPTH) > 0:
                return IS_FULL, count
            i = load64(state, ORIGIN)
            store64(buffers, JOINED + i, load64(buffers, JOINED + i) + 1)
            store64(state, JOINING, 0)
        mode = load64(state, MODE)
        if mode == SWEEP:
            outcome = sweep(plan, buffers, state, counts, trace)
            if outcome != FOUND:
                return outcome, count
        elif mode == START:
            start_with_heads(plan, buffers, state, trace)
        elif not admit_next(plan, buffers, state, counts, trace):
            if not is_past(plan, buffers, state):
                return WAITS, count
            leave_period(plan, buffers, state, counts, trace)


@kernel
def merge_join(streams, serials, times, arrivals, plan, buffers, state, counts, trace, quietly, out):
    """Fill `out[input, i]` with serials of combinations; returns the outcome and how many.

    Resumable as w_join.w_join. GOING is set while there is something to do; without arrivals, as far as CLOCK allows.
    """
    count, outcome = 0, WAITS
    at = load64(state, AT_ARRIVAL)
    while True:
        if load64(state, GOING):
            outcome, count = run(plan, buffers, state, counts, trace, quietly, out, count)
            if outcome != WAITS:
                break
            store64(state, GOING, 0)
        if at == arrivals:
            break
        i, t = load64(streams, at), load64(times, at)
        take_in(buffers, i, load64(serials, at), t)
        if load64(plan, CLOCKED):
            store64(state, CLOCK, t)
        store64(state, GOING, 1)
        counts[INSERTED] += 1
        at += 1
    store64(state, AT_ARRIVAL, at)
    counts[RESULTS] += count
    return outcome, count
