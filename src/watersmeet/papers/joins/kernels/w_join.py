"""The W-join scheme (H02 section 3.1): every arriving row goes through the buffers of the inputs that follow it."""

from __future__ import annotations

from watersmeet.compiling import kernel
from watersmeet.operators.kernels.memory import load64, store64
from watersmeet.papers.joins.contract import INSERTED, RESULTS
from watersmeet.papers.joins.kernels.nested import (
    AT_ARRIVAL,
    DEPTH,
    JOINED,
    PROVEN,
    PURGE_EVERY,
    SINCE_PURGE,
    UNSIGNED,
    begin,
    search,
)
from watersmeet.papers.joins.kernels.removal import remove, take_in


@kernel
def clean(plan, buffers, state, counts):
    """Removal after each arrival, or after as many as the plan says."""
    since = load64(state, SINCE_PURGE) + 1
    if since >= load64(plan, PURGE_EVERY):
        remove(plan, buffers, counts, load64(plan, UNSIGNED) != 0)
        since = 0
    store64(state, SINCE_PURGE, since)


@kernel
def w_join(streams, serials, times, arrivals, plan, buffers, state, counts, out):
    """Fill `out[input, i]` with serials of combinations; returns how many.

    The arrivals are done when AT_ARRIVAL has reached their number; otherwise call again with the same state.
    """
    count = 0
    at = load64(state, AT_ARRIVAL)
    while at < arrivals:
        if load64(state, DEPTH) == 0:
            i, serial, t = load64(streams, at), load64(serials, at), load64(times, at)
            take_in(buffers, i, serial, min(t, load64(plan, PROVEN)))
            store64(buffers, JOINED + i, serial + 1)
            counts[INSERTED] += 1
            begin(plan, buffers, state, i, serial, t)
        if load64(state, DEPTH) > 0:
            count = search(plan, buffers, state, counts, out, count)
            if load64(state, DEPTH) > 0:
                break
        # After the search: a new row must have been joined before it can itself be removed (AMB-14).
        clean(plan, buffers, state, counts)
        at += 1
    store64(state, AT_ARRIVAL, at)
    counts[RESULTS] += count
    return count


@kernel
def take_back(streams, serials, times, arrivals, plan, buffers, state, counts):
    """Buffer rows that were joined before."""
    for at in range(arrivals):
        i, serial = load64(streams, at), load64(serials, at)
        take_in(buffers, i, serial, min(load64(times, at), load64(plan, PROVEN)))
        store64(buffers, JOINED + i, serial + 1)
        clean(plan, buffers, state, counts)
