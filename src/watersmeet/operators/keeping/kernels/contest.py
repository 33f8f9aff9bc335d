"""The rows of one stream that compete for memory, in the order of their positions, each with its level of priority.

`held[start:end]` are positions in the store, with levels beside them; the level of a row that competes no more is a
GAP, until gaps are closed. `sizes` counts the rows of each level. The victims are those of the lowest levels, and of
the last such level the oldest: how low that is `sizes` tells, and one pass over the levels finds them. As many rows
come between two passes as are a fixed part of all, so a row costs a constant number of short, sequential steps.
Often a pass need not look at all rows, because the last one left none as low before a certain place.
"""

from __future__ import annotations

import numpy as np

from watersmeet.compiling import kernel
from watersmeet.operators.keeping.kernels.priorities import chance, level_of, rank
from watersmeet.operators.keeping.kernels.slots import GONE

GAP = np.uint16(0xFFFF)
# state: where the rows in use begin and end, and how many of them compete. The last pass went up to a level: rows
# of that level are left only from a place on, and lower ones only from where that pass ended.
START, END, COMPETING, LIMIT, LEFT_AT_LIMIT, PASSED = range(6)
STATE_FIELDS = 6


@kernel
def enter(
    slot_of, first, last, codes, flawed, ages, now, scale, factors, key_columns, counts, shift, unseen, by_age, per_bin,
    per_count, held, levels, sizes, state,
):  # fmt: skip
    """Let the rows at first..last-1 that have memory compete for it; there must be room for one row more."""
    start, end = state[END], line_up(slot_of, first, last, held, state)
    rank(
        held[start:end], codes, flawed, ages, now, scale, factors, key_columns, counts, shift, unseen, by_age, per_bin,
        per_count, levels[start:end],
    )  # fmt: skip
    for i in range(start, end):
        sizes[levels[i]] += 1


@kernel
def enter_at_random(slot_of, first, last, number, seed, held, levels, sizes, state):
    """The same with a random priority for each row: `number` is how many rows came before the first."""
    start, end = state[END], line_up(slot_of, first, last, held, state)
    for i in range(start, end):
        levels[i] = level_of(chance(seed, number + held[i] - first))
        sizes[levels[i]] += 1


@kernel
def line_up(slot_of, first, last, held, state):
    """Put the rows that have memory, or are promised it, at the end; returns where that is then."""
    end = state[END]
    for p in range(first, last):
        held[end] = p
        end += slot_of[p] != GONE
    state[COMPETING] += end - state[END]
    state[END] = end
    return end


@kernel
def lowest(count, sizes):
    """The level below which there are fewer than `count` rows, and how many of that level make up the number."""
    left = count
    for level in range(sizes.size):
        if sizes[level] >= left:
            return level, left
        left -= sizes[level]
    return sizes.size - 1, sizes[sizes.size - 1]


@kernel
def evict(held, levels, sizes, state, victims):
    """Find the rows with the lowest priority, which compete no more; `victims` is filled with their positions."""
    limit, of_limit = lowest(victims.size, sizes)
    begin = state[START]
    # What the last pass has left below its limit, or at it, tells where there can be victims (see `state`).
    if limit < state[LIMIT]:
        begin = max(begin, state[PASSED])
    elif limit == state[LIMIT]:
        begin = max(begin, min(state[LEFT_AT_LIMIT], state[PASSED]))
    # Which rows are low is anyone's guess, so they are picked out without a branch.
    found = np.empty(state[END] - begin + 1, np.int32)
    many, low = np.uint64(0), np.uint16(limit)
    for i in range(begin, state[END]):
        found[many] = i
        many += np.uint64(levels[i] <= low)
    gone = 0
    left = state[END]
    for k in range(many):
        i = found[k]
        level = levels[i]
        if level == low:
            of_limit -= 1
            if of_limit < 0:
                left = min(left, np.int64(i))
                continue
        sizes[level] -= 1
        levels[i] = GAP
        victims[gone] = held[i]
        gone += 1
    state[COMPETING] -= gone
    state[LIMIT] = limit
    state[LEFT_AT_LIMIT] = left
    state[PASSED] = state[END]


@kernel
def leave(tail, held, levels, sizes, state):
    """Rows below `tail` have expired."""
    start = state[START]
    while start < state[END] and held[start] < tail:
        if levels[start] != GAP:
            sizes[levels[start]] -= 1
            state[COMPETING] -= 1
        start += 1
    state[START] = start


@kernel
def close_gaps(held, levels, state):
    """Move the rows that compete to the front."""
    kept = np.int64(0)
    left = passed = np.int64(0)  # how many rows there are before each of these places
    for i in range(state[START], state[END]):
        held[kept] = held[i]
        levels[kept] = levels[i]
        competes = levels[i] != GAP
        kept += competes
        left += competes & (i < state[LEFT_AT_LIMIT])
        passed += competes & (i < state[PASSED])
    state[START] = 0
    state[END] = kept
    state[LEFT_AT_LIMIT] = left
    state[PASSED] = passed


@kernel
def renumber(positions, held, levels, sizes, state):
    """The rows at some positions, in order, stay and are numbered from 0; the others compete no more."""
    sizes[:] = 0
    kept = at = np.int64(0)
    for i in range(state[START], state[END]):
        while at < positions.size and positions[at] < held[i]:
            at += 1
        if at < positions.size and positions[at] == held[i] and levels[i] != GAP:
            held[kept] = at
            levels[kept] = levels[i]
            sizes[levels[i]] += 1
            kept += 1
    state[START] = 0
    state[END] = kept
    state[COMPETING] = kept
    # Places have changed, so the next pass looks at all rows.
    state[PASSED] = state[LEFT_AT_LIMIT] = 0


@kernel
def look_again(
    codes, flawed, ages, now, scale, factors, key_columns, counts, shift, unseen, by_age, per_bin, per_count, held,
    levels, sizes, state,
):  # fmt: skip
    """Give every row the priority of now."""
    close_gaps(held, levels, state)
    end = state[END]
    rank(
        held[:end], codes, flawed, ages, now, scale, factors, key_columns, counts, shift, unseen, by_age, per_bin,
        per_count, levels[:end],
    )  # fmt: skip
    sizes[:] = 0
    for i in range(end):
        sizes[levels[i]] += 1
    state[PASSED] = state[LEFT_AT_LIMIT] = 0
