"""Counts of rows by key and pane of time, in a hash table of fixed size.

`keys[entry]` is a key and `counts[entry]` has its rows by pane; panes are numbered by time and lie in a ring, a column
each. `seen[entry]` is the newest pane up to which the columns are right: later ones are emptied when the entry is used
again, so time passes without a look at the table, and an entry whose panes are all over may be given to another key.
Rows of keys that found no entry are counted in `others`, by pane alone.
"""

from __future__ import annotations

import numpy as np

from watersmeet.compiling import kernel
from watersmeet.operators.kernels.hashing import combine, finish
from watersmeet.operators.kernels.memory import prefetch

NO_ENTRY = -1
NEVER = np.int64(-(1 << 60))
PROBES = 8
# Entries lie anywhere: those of so many rows are fetched together, before the first of them is looked at.
TOGETHER = 64
# state: the number of the newest pane
NEWEST = 0
# found: at least, at most, about
LOW, HIGH, ABOUT = range(3)


@kernel(inline="always")
def key_of(codes, columns, p):
    h = np.uint64(0)
    for c in columns:
        h = combine(h, codes[c, p])
    return np.int64(finish(h))


@kernel(inline="always")
def look_ahead(key, keys, seen, counts):
    """Have the entries where a key may be on their way to the processor."""
    at = key & (keys.size - 1)
    last = min(at + PROBES, keys.size) - 1
    width = 4 * counts.shape[1]
    prefetch(np.int64(seen.ctypes.data) + 8 * at)
    prefetch(np.int64(seen.ctypes.data) + 8 * last)
    prefetch(np.int64(keys.ctypes.data) + 8 * at)
    prefetch(np.int64(keys.ctypes.data) + 8 * last)
    prefetch(np.int64(counts.ctypes.data) + width * at)
    prefetch(np.int64(counts.ctypes.data) + width * at + width)


@kernel(inline="always")
def entry_of(key, keys, seen):
    """Where a key is, or NO_ENTRY."""
    mask = keys.size - 1
    for i in range(PROBES):
        at = (key + i) & mask
        # Entries are never given back, so no key lies behind one that was not used.
        if seen[at] == NEVER:
            return NO_ENTRY
        if keys[at] == key:
            return at
    return NO_ENTRY


@kernel(borrows=True)
def claim(key, oldest, keys, seen):
    """Where a key is, or an entry for it that was never used or whose panes are all before the oldest."""
    mask = keys.size - 1
    free = NO_ENTRY
    for i in range(PROBES):
        at = (key + i) & mask
        if seen[at] == NEVER:
            return at if free == NO_ENTRY else free
        if keys[at] == key:
            return at
        if free == NO_ENTRY and seen[at] < oldest:
            free = at
    return free


@kernel(borrows=True)
def turn_to(pane, ring, others, state):
    """Make a pane the newest."""
    for number in range(max(state[NEWEST] + 1, pane - ring + 1), pane + 1):
        others[number % ring] = 0
    state[NEWEST] = pane


@kernel
def add_rows(codes, columns, times, positions, pane_us, keys, seen, counts, others, state):
    """Count rows of a store."""
    ahead = np.empty(TOGETHER, np.int64)
    count_rows(codes, columns, times, positions, pane_us, keys, seen, counts, others, state, ahead)


@kernel(borrows=True)
def count_rows(codes, columns, times, positions, pane_us, keys, seen, counts, others, state, ahead):
    ring = counts.shape[1]
    pane, begins = np.int64(0), np.int64(0)
    for i in range(positions.size):
        if i % TOGETHER == 0:
            for k in range(min(TOGETHER, positions.size - i)):
                ahead[k] = key_of(codes, columns, positions[i + k])
                look_ahead(ahead[k], keys, seen, counts)
        p, key = positions[i], ahead[i % TOGETHER]
        # Times of rows that follow each other are mostly in one pane, and a division takes long.
        if not 0 <= times[p] - begins < pane_us:
            pane = times[p] // pane_us
            begins = pane * pane_us
        if pane > state[NEWEST]:
            turn_to(pane, ring, others, state)
        newest = state[NEWEST]
        # Its column is that of a later pane by now, and no row to come reaches so far back.
        if pane <= newest - ring:
            continue
        at = claim(key, newest - ring + 1, keys, seen)
        if at == NO_ENTRY:
            others[pane % ring] += 1
            continue
        before = seen[at]
        # The entry was that of a key whose panes are all over: nothing in it counts.
        if keys[at] != key:
            before = NEVER
        oldest = max(before, newest - ring) + 1
        column = oldest % ring
        for _ in range(oldest, newest + 1):
            counts[at, column] = 0
            column = column + 1 if column + 1 < ring else 0
        keys[at] = key
        seen[at] = newest
        counts[at, pane % ring] += 1


@kernel
def matches(codes, columns, times, earlier, later, pane_us, keys, seen, counts, others, state, found):
    """Add to `found` how many counted rows match rows of the other stream."""
    before, ahead = np.zeros(counts.shape[1] + 1), np.empty(TOGETHER, np.int64)
    count_matches(
        codes, columns, times, earlier, later, pane_us, keys, seen, counts, others, state, found, before, ahead
    )


@kernel(borrows=True)
def count_matches(
    codes, columns, times, earlier, later, pane_us, keys, seen, counts, others, state, found, before, ahead
):
    """before: of zeros, for how many others there are before a pane."""
    ring = counts.shape[1]
    newest = state[NEWEST]
    oldest = newest - ring + 1
    for i in range(ring):
        before[i + 1] = before[i] + others[(oldest + i) % ring]
    # The panes of the earliest and the latest that a row meets, and where these begin: as in add_rows.
    from_pane = from_us = to_pane = to_us = np.int64(0)
    for p in range(times.size):
        if p % TOGETHER == 0:
            for k in range(min(TOGETHER, times.size - p)):
                ahead[k] = key_of(codes, columns, p + k)
                look_ahead(ahead[k], keys, seen, counts)
        at = entry_of(ahead[p % TOGETHER], keys, seen)
        if at == NO_ENTRY and before[ring] == 0:
            continue
        lo, hi = times[p] - earlier, times[p] + later
        if not 0 <= lo - from_us < pane_us:
            from_pane = lo // pane_us
            from_us = from_pane * pane_us
        if not 0 <= hi - to_us < pane_us:
            to_pane = hi // pane_us
            to_us = to_pane * pane_us
        start, stop = max(from_pane, oldest), min(to_pane, newest) + 1
        if start < stop:
            found[HIGH] += before[stop - oldest] - before[start - oldest]
        if at == NO_ENTRY:
            continue
        column = start % ring
        for pane in range(start, min(stop, seen[at] + 1)):
            count = np.float64(counts[at, column])
            column = column + 1 if column + 1 < ring else 0  # a division for each pane would take longer than the rest
            if count > 0:
                inside = min(hi, (pane + 1) * pane_us - 1) - max(lo, pane * pane_us) + 1
                found[HIGH] += count
                found[ABOUT] += count * inside / pane_us
                if inside == pane_us:
                    found[LOW] += count
