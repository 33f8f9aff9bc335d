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
from watersmeet.operators.keeping.kernels.slots import GONE, PROMISED

GAP = np.uint16(0xFFFF)
# state: where the rows in use begin and end, and how many of them compete. The last pass went up to a level: rows
# of that level are left only from a place on, and lower ones only from where that pass ended.
START, END, COMPETING, LIMIT, LEFT_AT_LIMIT, PASSED = range(6)
STATE_FIELDS = 6


@kernel(borrows=True)
def line_up(slot_of, first, last, held, levels, state):
    """Put the rows at first..last-1 that have memory, or are promised it, at the end, without a rank; there must be
    room for one row more. Returns where the first of them is."""
    start = state[END]
    end = np.uint64(start)
    for p in range(first, last):
        held[end] = p
        levels[end] = 0
        end += np.uint64(slot_of[np.uint64(p)] != GONE)
    state[COMPETING] += np.int64(end) - start
    state[END] = end
    return start


@kernel(borrows=True)
def rank_from(
    start, codes, flawed, ages, now, scale, factors, key_columns, counts, shift, unseen, by_age, per_bin, per_count,
    held, levels, sizes, state,
):  # fmt: skip
    """Let the rows from a place on compete by what they are worth."""
    end = state[END]
    rank(
        held[start:end], codes, flawed, ages, now, scale, factors, key_columns, counts, shift, unseen, by_age, per_bin,
        per_count, levels[start:end],
    )  # fmt: skip
    for i in range(start, end):
        sizes[levels[i]] += 1


@kernel(borrows=True)
def enter_at_random(slot_of, first, last, number, seed, held, levels, sizes, state):
    """Line up rows and let them compete by a random priority each: `number` is how many rows came before the first."""
    for i in range(line_up(slot_of, first, last, held, levels, state), state[END]):
        levels[i] = level_of(chance(seed, number + held[i] - first))
        sizes[levels[i]] += 1


@kernel(borrows=True)
def lowest(count, sizes):
    """The level below which there are fewer than `count` rows, and how many of that level make up the number."""
    left = count
    for level in range(sizes.size):
        if sizes[level] >= left:
            return level, left
        left -= sizes[level]
    return sizes.size - 1, sizes[sizes.size - 1]


@kernel
def evict(held, levels, sizes, state, slot_of, free, left, victims, slots):
    """Find the rows with the lowest priority, which compete no more, and take their slots back. `victims` is filled
    with their positions and `slots` with what they had; returns how many slots are free now, and how many of the
    victims had none yet (see slots.PROMISED)."""
    limit, of_limit = lowest(victims.size, sizes)
    begin, end = state[START], state[END]
    # What the last pass has left below its limit, or at it, tells where there can be victims (see `state`).
    if limit < state[LIMIT]:
        begin = max(begin, state[PASSED])
    elif limit == state[LIMIT]:
        begin = max(begin, min(state[LEFT_AT_LIMIT], state[PASSED]))
    # Which rows are low is anyone's guess, so they are picked out without a branch.
    found = np.empty(end - begin + 1, np.int32)
    many, low = np.uint64(0), np.uint16(limit)
    for i in range(np.uint64(begin), np.uint64(end)):
        found[many] = i
        many += np.uint64(levels[i] <= low)
    gone, promised, left_at_limit = 0, 0, end
    for k in range(many):
        i = np.uint64(found[k])
        level = levels[i]
        if level == low:
            of_limit -= 1
            if of_limit < 0:
                left_at_limit = min(left_at_limit, np.int64(i))
                continue
        sizes[np.uint64(level)] -= 1
        levels[i] = GAP
        p = held[i]
        slot = slot_of[p]
        slot_of[p] = GONE
        victims[gone] = p
        slots[gone] = slot
        gone += 1
        free[left] = slot
        left += slot >= 0
        promised += slot == PROMISED
    state[COMPETING] -= gone
    state[LIMIT] = limit
    state[LEFT_AT_LIMIT] = left_at_limit
    state[PASSED] = end
    return left, promised


@kernel(borrows=True)
def leave(tail, held, levels, sizes, state):
    """Rows below `tail` have expired."""
    start = state[START]
    while start < state[END] and held[start] < tail:
        if levels[start] != GAP:
            sizes[levels[start]] -= 1
            state[COMPETING] -= 1
        start += 1
    state[START] = start


@kernel(borrows=True)
def close_gaps(held, levels, state):
    """Move the rows that compete to the front."""
    start, end = state[START], state[END]
    # Between these places there is nothing to note but how many compete.
    left, passed = min(max(state[LEFT_AT_LIMIT], start), end), min(max(state[PASSED], start), end)
    kept = start_of_second = move_up(held, levels, start, min(left, passed), 0)
    kept = start_of_third = move_up(held, levels, min(left, passed), max(left, passed), kept)
    state[END] = move_up(held, levels, max(left, passed), end, kept)
    state[START] = 0
    state[LEFT_AT_LIMIT] = start_of_second if left <= passed else start_of_third
    state[PASSED] = start_of_second if passed <= left else start_of_third


@kernel(borrows=True)
def move_up(held, levels, first, last, kept):
    """Move the rows that compete among those from one place to another; returns where they end then."""
    to = np.uint64(kept)
    for i in range(np.uint64(first), np.uint64(last)):
        level = levels[i]
        held[to] = held[i]
        levels[to] = level
        to += np.uint64(level != GAP)
    return np.int64(to)


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


@kernel(borrows=True)
def look_again(
    codes, flawed, ages, now, scale, factors, key_columns, counts, shift, unseen, by_age, per_bin, per_count, held,
    levels, sizes, state,
):  # fmt: skip
    """Give every row the priority of now."""
    close_gaps(held, levels, state)
    sizes[:] = 0
    rank_from(
        0, codes, flawed, ages, now, scale, factors, key_columns, counts, shift, unseen, by_age, per_bin, per_count,
        held, levels, sizes, state,
    )  # fmt: skip
    state[PASSED] = state[LEFT_AT_LIMIT] = 0


@kernel
def play(
    stops, old, numbers, room, at_random, seed, ever, unrefreshed, of_memory, of_ever, least, codes, flawed, ages, nows,
    scale, factors, key_columns, counts, shift, unseen, by_age, per_bin, held, levels, sizes, state, slot_of, free,
    left, victims, slots, turns,
):  # fmt: skip
    """Let rows come in turns, of which turn k is those from stops[k] to stops[k+1]-1, and those that there is no `room`
    for go after each. Before a turn the rows below old[k] leave, nows[k] is the time of its last row, and numbers[k] is
    noted in `turns` of those that go. All are ranked anew when so many new rows were not as are a part of those in
    memory, or of all that ever came. Returns how many slots are free, how many went and how many of them had none yet,
    and how many rows came since all were ranked."""
    gone = promised = np.int64(0)
    for k in range(stops.size - 1):
        first, last = stops[k], stops[k + 1]
        if first == last:
            continue
        leave(old[k], held, levels, sizes, state)
        if at_random:
            enter_at_random(slot_of, first, last, ever, seed, held, levels, sizes, state)
        else:
            enough = max(of_memory * state[COMPETING], of_ever * ever, least)
            start = line_up(slot_of, first, last, held, levels, state)
            unrefreshed += last - first
            if unrefreshed > enough:
                unrefreshed = 0
                look_again(
                    codes, flawed, ages, nows[k], scale, factors, key_columns, counts, shift, unseen, by_age, per_bin,
                    0.0, held, levels, sizes, state,
                )  # fmt: skip
            else:
                rank_from(
                    start, codes, flawed, ages, nows[k], scale, factors, key_columns, counts, shift, unseen, by_age,
                    per_bin, 0.0, held, levels, sizes, state,
                )  # fmt: skip
        ever += last - first
        over = state[COMPETING] - room
        if over > 0:
            left, of_new = evict(
                held, levels, sizes, state, slot_of, free, left, victims[gone : gone + over], slots[gone : gone + over]
            )
            turns[gone : gone + over] = numbers[k]
            promised += of_new
            gone += over
    return left, gone, promised, unrefreshed
