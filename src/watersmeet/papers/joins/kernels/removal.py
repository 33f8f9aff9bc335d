"""When a buffered row can meet nothing any more: H02's removal rule, for any limits between pairs.

A row may go once the last row read of *every* other input lies out of its reach, to its right. Being left behind
by one input alone is not enough, as a later row of another may still need it.
"""

from __future__ import annotations

from watersmeet.compiling import kernel
from watersmeet.operators.kernels.memory import load64, store64
from watersmeet.papers.joins.contract import INVALIDATED, INVALIDATION_COMPARISONS
from watersmeet.papers.joins.kernels.nested import (
    ARRIVED,
    ENDED,
    INPUTS,
    JOINED,
    LAST,
    LIMITS,
    MAX_INPUTS,
    TAIL,
    TIMES,
    UNREAD,
    death_of,
)


@kernel
def is_left_behind(plan, buffers, i, t, dies):
    """Whether every other input has been read beyond what a row of input i at time t can reach."""
    for j in range(load64(plan, INPUTS)):
        last = load64(buffers, LAST + j)
        if j == i or last == ENDED:
            continue
        # Signed, unlike the printed rule: an input that is still behind this row has yet to meet it (AMB-14).
        if last - load64(plan, LIMITS + MAX_INPUTS * i + j) <= t and last < dies:
            return False
    return True


@kernel
def is_far_off(plan, buffers, i, t):
    """The rule as printed, by absolute distance: it also drops rows that the others have yet to come up to."""
    for j in range(load64(plan, INPUTS)):
        last = load64(buffers, LAST + j)
        if j != i and (last == UNREAD or abs(last - t) <= load64(plan, LIMITS + MAX_INPUTS * i + j)):
            return False
    return True


@kernel
def remove(plan, buffers, counts, unsigned):
    """Drop what can go from the old end of every buffer."""
    for i in range(load64(plan, INPUTS)):
        tail, joined = load64(buffers, TAIL + i), load64(buffers, JOINED + i)
        times = load64(plan, TIMES + i)
        kept = tail
        # Rows are in time order, so the first that stays ends it; one of another partition that died before it waits.
        while kept < joined:
            counts[INVALIDATION_COMPARISONS] += 1
            t = load64(times, kept)
            if unsigned:
                gone = is_far_off(plan, buffers, i, t)
            else:
                gone = is_left_behind(plan, buffers, i, t, death_of(plan, i, kept))
            if not gone:
                break
            kept += 1
        if kept > tail:
            counts[INVALIDATED] += kept - tail
            store64(buffers, TAIL + i, kept)


@kernel
def take_in(buffers, i, serial, t):
    """Note a row that has arrived; an empty buffer may start at any serial. `t`: what it proves of rows to come."""
    if load64(buffers, TAIL + i) == load64(buffers, ARRIVED + i):
        store64(buffers, TAIL + i, serial)
        store64(buffers, JOINED + i, serial)
    store64(buffers, ARRIVED + i, serial + 1)
    store64(buffers, LAST + i, max(load64(buffers, LAST + i), t))


@kernel
def held(plan, buffers, past, reach, now, totals):
    """Add up the rows held up to `past`, by input: those that a row arriving now could still match, and the others."""
    for i in range(load64(plan, INPUTS)):
        for p in range(load64(buffers, TAIL + i), load64(buffers, past + i)):
            t = load64(load64(plan, TIMES + i), p)
            live = now <= t + reach[i] and now < death_of(plan, i, p)
            totals[0 if live else 1, i] += 1


@kernel
def follow(streams, serials, times, arrivals, proven, buffers):
    """Note arrivals without doing anything with them."""
    for at in range(arrivals):
        i, serial = load64(streams, at), load64(serials, at)
        take_in(buffers, i, serial, min(load64(times, at), proven))
        store64(buffers, JOINED + i, serial + 1)
