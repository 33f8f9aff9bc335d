"""Counts of rows by key and pane of time, in a hash table of fixed size.

`keys[entry]` is a key and `counts[entry]` has its rows by pane; panes are numbered by time and lie in a ring, a column
each. Rows of keys that found no entry are counted in `others`, by pane alone.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from watersmeet.operators.kernels.hashing import combine, finish

NO_ENTRY = -1
# state: the number of the newest pane, and how many entries are taken
NEWEST, TAKEN = range(2)
# found: at least, at most, about
LOW, HIGH, ABOUT = range(3)


@njit(cache=True)
def key_of(codes, columns, p):
    h = np.uint64(0)
    for c in columns:
        h = combine(h, codes[c, p])
    return np.int64(finish(h))


@njit(cache=True)
def entry_of(key, keys, used):
    """Where a key is, or the free entry where it would be; NO_ENTRY if there is neither near enough."""
    mask = keys.size - 1
    at = key & mask
    for _ in range(32):
        if not used[at] or keys[at] == key:
            return at
        at = (at + 1) & mask
    return NO_ENTRY


@njit(cache=True)
def turn_to(pane, keys, used, counts, others, state):
    """Make a pane the newest: the columns it and those before it come to lie in are emptied."""
    ring = counts.shape[1]
    first = max(state[NEWEST] + 1, pane - ring + 1)
    for number in range(first, pane + 1):
        counts[:, number % ring] = 0
        others[number % ring] = 0
    state[NEWEST] = pane


@njit(cache=True)
def add_rows(codes, columns, times, positions, pane_us, keys, used, counts, others, state):
    """Count rows of a store."""
    ring = counts.shape[1]
    for p in positions:
        pane = times[p] // pane_us
        if pane > state[NEWEST]:
            turn_to(pane, keys, used, counts, others, state)
        if pane <= state[NEWEST] - ring:
            continue
        key = key_of(codes, columns, p)
        at = entry_of(key, keys, used)
        if at == NO_ENTRY or (not used[at] and 4 * state[TAKEN] >= 3 * keys.size):
            others[pane % ring] += 1
            continue
        if not used[at]:
            used[at] = True
            keys[at] = key
            state[TAKEN] += 1
        counts[at, pane % ring] += 1


@njit(cache=True)
def matches(codes, columns, times, first, last, earlier, later, pane_us, keys, used, counts, others, state, found):
    """Add to `found` how many counted rows the rows at first..last-1 of the other store match."""
    ring = counts.shape[1]
    newest = state[NEWEST]
    for p in range(first, last):
        lo, hi = times[p] - earlier, times[p] + later
        start, stop = max(lo // pane_us, newest - ring + 1), min(hi // pane_us, newest)
        at = entry_of(key_of(codes, columns, p), keys, used)
        known = at != NO_ENTRY and used[at]
        for pane in range(start, stop + 1):
            count = np.float64(counts[at, pane % ring]) if known else 0.0
            inside = min(hi, (pane + 1) * pane_us - 1) - max(lo, pane * pane_us) + 1
            found[HIGH] += count + others[pane % ring]
            found[ABOUT] += count * inside / pane_us
            if inside == pane_us:
                found[LOW] += count


@njit(cache=True)
def squeeze(keys, used, counts, new_keys, new_used, new_counts, state):
    """Leave out the keys that have no rows any more."""
    taken = 0
    for at in range(keys.size):
        if used[at] and counts[at].any():
            to = entry_of(keys[at], new_keys, new_used)
            if to != NO_ENTRY:
                new_used[to] = True
                new_keys[to] = keys[at]
                new_counts[to] = counts[at]
                taken += 1
    state[TAKEN] = taken
