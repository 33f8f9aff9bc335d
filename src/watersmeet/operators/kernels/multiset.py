"""How often each value stands in each group: a hash table with linear probing, emptied by shifting back."""

from __future__ import annotations

import numpy as np

from watersmeet.compiling import kernel
from watersmeet.operators.kernels.hashing import combine, finish
from watersmeet.operators.kernels.memory import prefetch

# table[slot]; a slot with COUNT 0 is free. A value is known by two words.
GROUP, WORD_1, WORD_2, COUNT = range(4)
SLOT_FIELDS = 4

AHEAD = 12  # values


@kernel(inline="always")
def home(group, word_1, word_2, mask):
    """The slot at which the search for a value starts."""
    h = combine(combine(combine(np.uint64(0), group), word_1), word_2)
    # `finish` because of the mask, which takes the lower bits.
    return np.int64(finish(h)) & mask


@kernel(inline="always")
def fetch(table, group, word_1, word_2):
    """Fetch the slot at which the search for a value will start."""
    slot = home(group, word_1, word_2, np.int64(len(table) - 1))
    prefetch(np.int64(table.ctypes.data) + 8 * SLOT_FIELDS * slot)


@kernel(borrows=True)
def slot_of(table, group, word_1, word_2):
    """The slot that holds a value, or the free one where it belongs."""
    mask = np.int64(len(table) - 1)
    slot = home(group, word_1, word_2, mask)
    while table[slot, COUNT] and (
        table[slot, GROUP] != group or table[slot, WORD_1] != word_1 or table[slot, WORD_2] != word_2
    ):
        slot = (slot + 1) & mask
    return slot


@kernel(borrows=True)
def clear_slot(table, slot):
    """Free a slot and move back what was pushed beyond it."""
    mask = np.int64(len(table) - 1)
    hole = slot
    slot = (slot + 1) & mask
    while table[slot, COUNT]:
        start = home(table[slot, GROUP], table[slot, WORD_1], table[slot, WORD_2], mask)
        # Only what begins its search at the hole or before it may move there. Distances are taken round the end.
        if ((slot - start) & mask) >= ((slot - hole) & mask):
            for field in range(SLOT_FIELDS):
                table[hole, field] = table[slot, field]
            hole = slot
        slot = (slot + 1) & mask
    table[hole, COUNT] = 0


@kernel
def add_value(table, group, word_1, word_2):
    """One more of a value; whether it is the first."""
    slot = slot_of(table, group, word_1, word_2)
    if table[slot, COUNT]:
        table[slot, COUNT] += 1
        return False
    table[slot, GROUP], table[slot, WORD_1], table[slot, WORD_2], table[slot, COUNT] = group, word_1, word_2, 1
    return True


@kernel(borrows=True)
def first_and_last(groups, live, ends, words_1, words_2, table, out):
    """out[i] = +1 where a value comes into its group, -1 where the last of it leaves, else 0; and their sum.

    Additions of a cell count before its removals. `table` must have room for all that comes. The second result
    is False if a value left that was not there.
    """
    start = 0
    net = 0
    for end in ends:
        for i in range(start, end):
            ahead = min(i + AHEAD, len(live) - 1)
            if live[ahead]:
                fetch(table, groups[ahead], words_1[ahead], words_2[ahead])
            if live[i] > 0:
                out[i] = 1 if add_value(table, groups[i], words_1[i], words_2[i]) else 0
                net += out[i]
            elif live[i] == 0:
                out[i] = 0
        for i in range(start, end):
            if live[i] < 0:
                slot = slot_of(table, groups[i], words_1[i], words_2[i])
                if table[slot, COUNT] == 0:
                    return net, False
                table[slot, COUNT] -= 1
                out[i] = 0
                if table[slot, COUNT] == 0:
                    clear_slot(table, slot)
                    out[i] = -1
                    net -= 1
        start = end
    return net, True


@kernel(borrows=True)
def move_values(table, target):
    """Enter all that a table holds into an empty one of another size."""
    for slot in range(len(table)):
        ahead = min(slot + AHEAD, len(table) - 1)
        if table[ahead, COUNT]:
            fetch(target, table[ahead, GROUP], table[ahead, WORD_1], table[ahead, WORD_2])
        if table[slot, COUNT]:
            to = slot_of(target, table[slot, GROUP], table[slot, WORD_1], table[slot, WORD_2])
            for field in range(SLOT_FIELDS):
                target[to, field] = table[slot, field]


@kernel(borrows=True)
def fingerprints(data, offsets, words_1, words_2):
    """128 bits of hash for every slice data[offsets[i]:offsets[i + 1]]."""
    for i in range(len(words_1)):
        start, end = offsets[i], offsets[i + 1]
        one = combine(np.uint64(1), end - start)
        two = combine(np.uint64(2), end - start)
        word = np.int64(0)
        for p in range(start, end):
            word = (word << 8) | np.int64(data[p])
            if (p - start) & 7 == 7:
                one, two = finish(one ^ np.uint64(word)), combine(finish(two), word)
                word = np.int64(0)
        words_1[i] = np.int64(finish(one ^ np.uint64(word)))
        words_2[i] = np.int64(finish(combine(finish(two), word)))


@kernel(borrows=True)
def expand(ids, diffs, tops, numbers, below, free, free_count, next_number, out_index, out_diff, out_number):
    """One unit change per copy of an equal row that enters or leaves, each with the number it entered with; the last to
    enter is the first to leave. Returns the number of free places and the next number."""
    k = 0
    for i in range(len(ids)):
        row, diff = ids[i], diffs[i]
        while diff > 0:
            free_count -= 1
            place = free[free_count]
            numbers[place] = next_number
            below[place] = tops[row]
            tops[row] = place
            out_index[k], out_diff[k], out_number[k] = i, 1, next_number
            next_number += 1
            diff -= 1
            k += 1
        while diff < 0:
            place = tops[row]
            tops[row] = below[place]
            free[free_count] = place
            free_count += 1
            out_index[k], out_diff[k], out_number[k] = i, -1, numbers[place]
            diff += 1
            k += 1
    return free_count, next_number
