"""The rows of one stream that have memory, in queues by priority.

A row that has memory holds a *slot*; `slot_of[position]` is the slot of a row of the store, or GONE. Slots that may be
taken away are linked into a queue per *level* of priority, the first to come in front; so a victim is found without
a search. Levels are sixteen to each power of two. A row's level is looked at again when it is about to go: if it has
risen meanwhile, the row moves up instead.

What a priority is made of, the same for all kernels here:
    scale x PRODUCT over `factors` of (how often the key came in another stream) x by_age[age of the row].
`factors[f]` is a row of `counts` and a slice of `key_columns`, which are rows of the store's codes.
"""

from __future__ import annotations

from math import frexp

import numpy as np
from numba import njit

from watersmeet.operators.kernels.hashing import combine

GONE = np.int32(-1)
NO_LEVEL = np.int32(-1)
STEPS = 16
EXPONENTS = 128
LEVELS = 2 * EXPONENTS * STEPS

# nodes[slot]: the level of a slot, its neighbours in the queue of that level, and whether its row is worth little
LEVEL, FOLLOWING, BEFORE, FLAWED = range(4)
NODE_FIELDS = 4
# Rows of frequent keys are nearly all worth the same. Those whose partners are rarer go first, so that a few keys lose
# all their rows and not all keys a few. Of the exponents tried, this one left the fewest rows incomplete.
BY_FREQUENCY = 0.75
# lists[level]: the two ends of a queue, and how many are in it
HEAD, TAIL, SIZE = range(3)
LIST_FIELDS = 4
# state: how many slots are free, how many are in queues, the lowest level that may have a row
FREE, QUEUED, LOWEST = range(3)


@njit(cache=True, inline="always")
def level_of(priority):
    step = np.int64(0)
    if priority > 0.0:
        fraction, exponent = frexp(priority)
        step = (exponent + EXPONENTS) * STEPS + np.int64((fraction - 0.5) * (2 * STEPS))
        step = min(max(step, np.int64(1)), np.int64(LEVELS - 1))
    return np.int32(step)


@njit(cache=True, inline="always")
def weight(codes, p, factors, key_columns, counts, shift, unseen):
    """How often partners of a row came, up to a constant of its stream."""
    w = 1.0
    for f in range(factors.shape[0]):
        h = np.uint64(0)
        for k in range(factors[f, 1], factors[f, 2]):
            h = combine(h, codes[key_columns[k], p])
        w *= counts[factors[f, 0], np.int64(h >> shift)] + unseen
    return w


@njit(cache=True, inline="always")
def at_age(by_age, per_bin, age):
    """The value for an age; ages beyond the last bin count as the last."""
    bin_ = np.int64(age / per_bin)
    return by_age[min(max(bin_, 0), by_age.size - 1)]


@njit(cache=True)
def left_incomplete(codes, p, flawed, left, factors, key_columns, counts, shift, unseen, per_count):
    """How many rows the loss of a row leaves incomplete, for the share of its life that is left. `per_count` makes
    expected numbers in a window of counts; the last of the factors is the row's own stream.

    The row itself is left incomplete if a partner is to come, unless it is so already. So is every partner to come;
    but they are shared with all rows of the same key, which go together, and are so anyway where rows are gone.
    """
    partners = weight(codes, p, factors[:-1], key_columns, counts, shift, unseen)
    for _ in range(factors.shape[0] - 1):
        partners *= per_count
    own = weight(codes, p, factors[-1:], key_columns, counts, shift, unseen) * per_count
    if flawed:
        return partners * np.exp(-own)
    alone = (1.0 - np.exp(-partners * left)) / left
    return (alone + partners / (1.0 + own)) * (1.0 + partners) ** BY_FREQUENCY


@njit(cache=True, inline="always")
def worth_of(
    codes, p, flawed, age, scale, factors, key_columns, counts, shift, unseen, by_age, per_bin, per_count
):  # fmt: skip
    """The priority of a row; with `per_count`, by what its loss would leave incomplete."""
    if per_count > 0.0:
        left = max(1.0 - age / (per_bin * by_age.size), 0.5 / by_age.size)
        return scale * left_incomplete(
            codes, p, flawed, left, factors, key_columns, counts, shift, unseen, per_count
        )  # fmt: skip
    w = scale * weight(codes, p, factors, key_columns, counts, shift, unseen)
    return w * at_age(by_age, per_bin, age)


@njit(cache=True)
def count_keys(codes, first, last, tracked, key_columns, counts, shift, clock, since, half_life):
    """Count the keys of new rows; with a half-life later rows count for more, twice as much after each."""
    for p in range(first, last):
        amount = 1.0
        if half_life > 0.0:
            amount = 2.0 ** ((clock[p - first] - since) / half_life)
        for f in range(tracked.shape[0]):
            h = np.uint64(0)
            for k in range(tracked[f, 1], tracked[f, 2]):
                h = combine(h, codes[key_columns[k], p])
            counts[tracked[f, 0], np.int64(h >> shift)] += amount


@njit(cache=True)
def count_held(codes, first, last, slot_of, in_memory, tracked, key_columns, counts, shift):
    """Count the keys of the rows that a store holds at first..last-1, or of those with memory alone."""
    for p in range(first, last):
        if in_memory and slot_of[p] < 0:
            continue
        for f in range(tracked.shape[0]):
            h = np.uint64(0)
            for k in range(tracked[f, 1], tracked[f, 2]):
                h = combine(h, codes[key_columns[k], p])
            counts[tracked[f, 0], np.int64(h >> shift)] += 1.0


@njit(cache=True)
def weigh(codes, factors, key_columns, counts, shift, unseen, found):
    """The weight of every row that codes are given of."""
    for p in range(found.size):
        found[p] = weight(codes, p, factors, key_columns, counts, shift, unseen)


@njit(cache=True)
def take_slots(slot_of, first, last, shifted, position, nodes, free, state):
    """Give slots to the rows at first..last-1; there must be enough."""
    left = state[FREE]
    for p in range(first, last):
        left -= 1
        slot = free[left]
        slot_of[p] = slot
        position[slot] = p + shifted
        nodes[slot, LEVEL] = NO_LEVEL
        nodes[slot, FLAWED] = 0
    state[FREE] = left


@njit(cache=True, inline="always")
def link(slot, at, nodes, lists, state):
    last = lists[at, TAIL]
    nodes[slot, LEVEL] = at
    nodes[slot, FOLLOWING] = -1
    nodes[slot, BEFORE] = last
    if last >= 0:
        nodes[last, FOLLOWING] = slot
    else:
        lists[at, HEAD] = slot
    lists[at, TAIL] = slot
    lists[at, SIZE] += 1
    state[QUEUED] += 1
    state[LOWEST] = min(state[LOWEST], at)


@njit(cache=True, inline="always")
def unlink(slot, nodes, lists, state):
    at, following, before = nodes[slot, LEVEL], nodes[slot, FOLLOWING], nodes[slot, BEFORE]
    if before >= 0:
        nodes[before, FOLLOWING] = following
    else:
        lists[at, HEAD] = following
    if following >= 0:
        nodes[following, BEFORE] = before
    else:
        lists[at, TAIL] = before
    lists[at, SIZE] -= 1
    nodes[slot, LEVEL] = NO_LEVEL
    state[QUEUED] -= 1


@njit(cache=True)
def enqueue(
    slot_of, first, last, codes, ages, now, scale, factors, key_columns, counts, shift, unseen, by_age, per_bin,
    per_count, nodes, lists, state,
):  # fmt: skip
    """Put the rows at first..last-1 into the queues."""
    for p in range(first, last):
        slot = slot_of[p]
        if slot >= 0:
            worth = worth_of(
                codes, p, nodes[slot, FLAWED], now - ages[p], scale, factors, key_columns, counts, shift, unseen,
                by_age, per_bin, per_count,
            )  # fmt: skip
            link(slot, level_of(worth), nodes, lists, state)


@njit(cache=True)
def enqueue_at_random(slot_of, first, last, number, seed, nodes, lists, state):
    """The same with a random priority for each row: `number` is how many rows came before the first."""
    for p in range(first, last):
        slot = slot_of[p]
        if slot >= 0:
            z = np.uint64(seed) + np.uint64(number + p - first + 1) * np.uint64(0x9E3779B97F4A7C15)
            z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            z = z ^ (z >> np.uint64(31))
            chance = (np.float64(z >> np.uint64(11)) + 1.0) / 9007199254740993.0
            link(slot, level_of(chance), nodes, lists, state)


@njit(cache=True)
def evict(
    count, again, slot_of, shifted, position, free, codes, ages, now, scale, factors, key_columns, counts, shift,
    unseen, by_age, per_bin, per_count, nodes, lists, state, victims, slots,
):  # fmt: skip
    """Take the memory of the `count` rows with the lowest priority; their positions go into `victims`. With `again`
    priorities are looked at again first."""
    gone = 0
    while gone < count and state[QUEUED] > 0:
        lowest = state[LOWEST]
        while lists[lowest, SIZE] == 0:
            lowest += 1
        state[LOWEST] = lowest
        slot = lists[lowest, HEAD]
        p = position[slot] - shifted
        if again:
            worth = worth_of(
                codes, p, nodes[slot, FLAWED], now - ages[p], scale, factors, key_columns, counts, shift, unseen,
                by_age, per_bin, per_count,
            )  # fmt: skip
            risen = level_of(worth)
            if risen > lowest:
                unlink(slot, nodes, lists, state)
                link(slot, risen, nodes, lists, state)
                continue
        unlink(slot, nodes, lists, state)
        slot_of[p] = GONE
        free[state[FREE]] = slot
        state[FREE] += 1
        victims[gone] = p
        slots[gone] = slot
        gone += 1
    return gone


@njit(cache=True)
def release(slot_of, positions, nodes, lists, free, state):
    """Take back the slots of rows that have expired, whether queued or not; returns how many had one."""
    had = 0
    for p in positions:
        slot = slot_of[p]
        if slot >= 0:
            if nodes[slot, LEVEL] >= 0:
                unlink(slot, nodes, lists, state)
            free[state[FREE]] = slot
            state[FREE] += 1
            slot_of[p] = GONE
            had += 1
    return had


@njit(cache=True)
def enqueue_anew(
    order, shifted, position, codes, ages, now, scale, factors, key_columns, counts, shift, unseen, by_age, per_bin,
    per_count, nodes, lists, state, exposed,
):  # fmt: skip
    """Queue every row by its priority of now. `order` has room for all of them; `exposed` counts their ages."""
    queued = 0
    for at in range(lists.shape[0]):
        slot = lists[at, HEAD]
        while slot >= 0:
            order[queued] = slot
            queued += 1
            slot = nodes[slot, FOLLOWING]
        lists[at, HEAD] = -1
        lists[at, TAIL] = -1
        lists[at, SIZE] = 0
    state[QUEUED] = 0
    state[LOWEST] = lists.shape[0] - 1
    for i in range(queued):
        slot = order[i]
        p = position[slot] - shifted
        worth = worth_of(
            codes, p, nodes[slot, FLAWED], now - ages[p], scale, factors, key_columns, counts, shift, unseen,
            by_age, per_bin, per_count,
        )  # fmt: skip
        exposed[min(max(np.int64((now - ages[p]) / per_bin), 0), exposed.size - 1)] += 1.0
        link(slot, level_of(worth), nodes, lists, state)


@njit(cache=True)
def only_in_memory(numbers, slot_of, wanted):
    """Clear `wanted[i]` where the member of a combination has no memory any more."""
    for i in range(numbers.size):
        if slot_of[numbers[i]] < 0:
            wanted[i] = False


@njit(cache=True)
def note_flaws(members, whole, slot_of, flawed, demote, nodes, lists, state):
    """Mark the members of combinations that are not whole as incomplete; returns how many were not before. With
    `demote` those in memory become worth little."""
    noted = 0
    for i in range(members.size):
        p = members[i]
        if whole[i] or flawed[p]:
            continue
        flawed[p] = 1
        noted += 1
        slot = slot_of[p]
        if demote and slot >= 0:
            nodes[slot, FLAWED] = 1
            if nodes[slot, LEVEL] >= 0:
                unlink(slot, nodes, lists, state)
                link(slot, np.int32(0), nodes, lists, state)  # it is looked at again before it goes
    return noted


@njit(cache=True)
def note_new_flaws(members, whole, flawed):
    """The same for rows that are not stored yet."""
    noted = 0
    for i in range(members.size):
        if not whole[i] and not flawed[members[i]]:
            flawed[members[i]] = 1
            noted += 1
    return noted


@njit(cache=True)
def store_flaws(new, first, slot_of, flawed, demote, nodes):
    """Give rows that were just stored, the first of them at `first`, the marks they had before."""
    for i in range(new.size):
        if new[i]:
            flawed[first + i] = 1
            if demote:
                nodes[slot_of[first + i], FLAWED] = 1
