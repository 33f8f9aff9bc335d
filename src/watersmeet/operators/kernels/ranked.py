"""The codes of groups in order, and which of them is at a place of its group.

The codes of a group lie in sorted blocks, and before those goes a directory: where each block is, and a code that none
in it is below and none in the blocks before it is above. A place is looked for from the block on that had the last one,
as a quantile moves by a row or two when one comes or goes. All pieces lie in one array, in powers of two.

Here `words`, `room` and `group` are addresses: functions that take arrays count references to them at every call.
"""

from __future__ import annotations

import numpy as np

from watersmeet.compiling import kernel
from watersmeet.operators.kernels.memory import load64, move64, store64

# groups[g]: where its directory lies and the power of two that this has room for, in words; how many blocks and rows it
# has; the block in which a place was found last, and how many rows lie before that
DIRECTORY, POWER, BLOCKS, ROWS, AT, BEFORE = range(6)
GROUP_FIELDS = 6

# an entry of a directory: where the block lies, the power of two that it has room for, its rows, and its bound
START, BLOCK_POWER, SIZE, BOUND = range(4)
ENTRY = 4
ENTRY_POWER = 2

# room[p]: the first of the freed pieces of 2**p words + 1, which are linked by their first words; room[USED]: how many
# words were ever used
USED = 48
ROOM_FIELDS = 49

FIRST_POWER, LAST_POWER = 2, 8  # of blocks
FULL = 1 << LAST_POWER
# Merged blocks have room left, so that the next rows do not split them again.
LOW, MERGED = FULL // 4, FULL * 3 // 4

# at: where a kernel stands that stopped for want of room
AT_CHANGE, AT_CELL = range(2)

# how a kernel ended
DONE, NEEDS_ROOM, NOT_THERE = range(3)


@kernel(inline="always")
def take_piece(words, room, power):
    if load64(room, power):
        start = load64(room, power) - 1
        store64(room, power, load64(words, start))
        return start
    store64(room, USED, load64(room, USED) + (np.int64(1) << power))
    return load64(room, USED) - (np.int64(1) << power)


@kernel(inline="always")
def free_piece(words, room, power, start):
    store64(words, start, load64(room, power))
    store64(room, power, start + 1)


@kernel(inline="always")
def has_room(length, room, group):
    """Whether an insertion could be served that makes a block, and a larger directory."""
    return length - load64(room, USED) >= 2 * FULL + (np.int64(2) << load64(group, POWER))


@kernel(inline="always")
def shift(words, start, size, by):
    """Move words by so many places."""
    move64(words + 8 * (start + by), words + 8 * start, size)


@kernel(inline="always")
def block_of(words, group, code):
    """The last block whose bound is not above a code, or the first."""
    block, count = np.int64(0), load64(group, BLOCKS)
    while count > 1:  # both halves are computed with: a branch would be a guess
        half = count >> 1
        block += half * np.int64(load64(words, load64(group, DIRECTORY) + ENTRY * (block + half) + BOUND) <= code)
        count -= half
    return block


@kernel(inline="always")
def place_behind(words, start, size, code):
    """How many codes of a block, which has some, are not above a code."""
    place, count = np.int64(0), size
    while count > 1:
        half = count >> 1
        place += half * np.int64(load64(words, start + place + half - 1) <= code)
        count -= half
    return place + np.int64(load64(words, start + place) <= code)


@kernel(borrows=True)
def put_entry(words, room, group, block, start, power, size, bound):
    """A block more, before another, in a directory that grows."""
    if load64(group, POWER) == 0:
        store64(group, POWER, ENTRY_POWER)
        store64(group, DIRECTORY, take_piece(words, room, load64(group, POWER)))
    elif ENTRY * load64(group, BLOCKS) == np.int64(1) << load64(group, POWER):
        old = load64(group, DIRECTORY)
        store64(group, DIRECTORY, take_piece(words, room, load64(group, POWER) + 1))
        for k in range(ENTRY * load64(group, BLOCKS)):
            store64(words, load64(group, DIRECTORY) + k, load64(words, old + k))
        free_piece(words, room, load64(group, POWER), old)
        store64(group, POWER, load64(group, POWER) + 1)
    entry = load64(group, DIRECTORY) + ENTRY * block
    shift(words, entry, ENTRY * (load64(group, BLOCKS) - block), ENTRY)
    store64(words, entry + START, start)
    store64(words, entry + BLOCK_POWER, power)
    store64(words, entry + SIZE, size)
    store64(words, entry + BOUND, bound)
    store64(group, BLOCKS, load64(group, BLOCKS) + 1)


@kernel(borrows=True)
def take_entry(words, room, group, block):
    """A block less. The place that was found last may then be said to be in the block behind it."""
    entry = load64(group, DIRECTORY) + ENTRY * block
    free_piece(words, room, load64(words, entry + BLOCK_POWER), load64(words, entry + START))
    shift(words, entry + ENTRY, ENTRY * (load64(group, BLOCKS) - block - 1), -ENTRY)
    store64(group, BLOCKS, load64(group, BLOCKS) - 1)
    if load64(group, AT) > block:
        store64(group, AT, load64(group, AT) - 1)


@kernel(borrows=True)
def make_larger(words, room, entry):
    """Twice the room for a block."""
    power, old = load64(words, entry + BLOCK_POWER), load64(words, entry + START)
    start = take_piece(words, room, power + 1)
    for k in range(load64(words, entry + SIZE)):
        store64(words, start + k, load64(words, old + k))
    free_piece(words, room, power, old)
    store64(words, entry + START, start)
    store64(words, entry + BLOCK_POWER, power + 1)


@kernel(borrows=True)
def split(words, room, group, block):
    """Give the upper half of a full block to a new one behind it."""
    entry = load64(group, DIRECTORY) + ENTRY * block
    half = FULL // 2
    upper, start = load64(words, entry + START) + half, take_piece(words, room, LAST_POWER)
    for k in range(half):
        store64(words, start + k, load64(words, upper + k))
    store64(words, entry + SIZE, half)
    put_entry(words, room, group, block + 1, start, LAST_POWER, half, load64(words, upper))
    if load64(group, AT) > block:
        store64(group, AT, load64(group, AT) + 1)


@kernel
def merge(words, room, group, block):
    """Move the codes of the block behind one to its end, if they fit well."""
    entry = load64(group, DIRECTORY) + ENTRY * block
    size, more = load64(words, entry + SIZE), load64(words, entry + ENTRY + SIZE)
    if size + more > MERGED:
        return
    start, behind = load64(words, entry + START), load64(words, entry + ENTRY + START)
    for k in range(more):
        store64(words, start + size + k, load64(words, behind + k))
    store64(words, entry + SIZE, size + more)
    if load64(group, AT) == block + 1:
        store64(group, AT, block)
        store64(group, BEFORE, load64(group, BEFORE) - size)
    take_entry(words, room, group, block + 1)


@kernel
def insert(words, room, group, code):
    """Add a row. There must be room."""
    if load64(group, BLOCKS) == 0:
        put_entry(words, room, group, 0, take_piece(words, room, FIRST_POWER), FIRST_POWER, 0, code)
    block = block_of(words, group, code)
    entry = load64(group, DIRECTORY) + ENTRY * block
    size, power = load64(words, entry + SIZE), load64(words, entry + BLOCK_POWER)
    if size == np.int64(1) << power and power < LAST_POWER:
        make_larger(words, room, entry)
    elif size == np.int64(1) << power:
        split(words, room, group, block)
        block += np.int64(load64(words, load64(group, DIRECTORY) + ENTRY * (block + 1) + BOUND) <= code)
        entry = load64(group, DIRECTORY) + ENTRY * block
        size = load64(words, entry + SIZE)
    start = load64(words, entry + START)
    place = place_behind(words, start, size, code) if size else np.int64(0)
    shift(words, start + place, size - place, 1)
    store64(words, start + place, code)
    store64(words, entry + SIZE, size + 1)
    store64(group, ROWS, load64(group, ROWS) + 1)
    store64(group, BEFORE, load64(group, BEFORE) + np.int64(block < load64(group, AT)))


@kernel
def remove(words, room, group, code):
    """Take a row away; whether there was one."""
    block = block_of(words, group, code)
    place = np.int64(0)
    # Equal codes may lie in several blocks, and those of the last one may have gone.
    while load64(group, BLOCKS):
        entry = load64(group, DIRECTORY) + ENTRY * block
        start, size = load64(words, entry + START), load64(words, entry + SIZE)
        place = place_behind(words, start, size, code)
        if place or block == 0:
            break
        block -= 1
    if place == 0 or load64(words, start + place - 1) != code:
        return False
    shift(words, start + place, size - place, -1)
    store64(words, entry + SIZE, size - 1)
    store64(group, ROWS, load64(group, ROWS) - 1)
    store64(group, BEFORE, load64(group, BEFORE) - np.int64(block < load64(group, AT)))
    if size == 1:
        take_entry(words, room, group, block)
        tidy(words, room, group)
    elif size <= LOW and load64(group, BLOCKS) > 1:
        merge(words, room, group, block - np.int64(block == load64(group, BLOCKS) - 1))
    return True


@kernel(inline="always")
def tidy(words, room, group):
    """After a block has gone: the last place is in one that there is, and a group without rows has nothing."""
    if load64(group, BLOCKS) == 0:
        free_piece(words, room, load64(group, POWER), load64(group, DIRECTORY))
        store64(group, BEFORE, 0)
        store64(group, AT, 0)
        store64(group, POWER, 0)
    elif load64(group, AT) == load64(group, BLOCKS):
        store64(group, AT, load64(group, AT) - 1)
        last = load64(group, DIRECTORY) + ENTRY * load64(group, AT)
        store64(group, BEFORE, load64(group, BEFORE) - load64(words, last + SIZE))


@kernel(inline="always")
def code_at(words, group, place):
    """The code at a place, of which there must be one."""
    block, before = load64(group, AT), load64(group, BEFORE)
    entry = load64(group, DIRECTORY) + ENTRY * block
    while place < before:
        block, entry = block - 1, entry - ENTRY
        before -= load64(words, entry + SIZE)
    while place >= before + load64(words, entry + SIZE):
        before += load64(words, entry + SIZE)
        block, entry = block + 1, entry + ENTRY
    store64(group, AT, block)
    store64(group, BEFORE, before)
    return load64(words, load64(words, entry + START) + place - before)


@kernel(borrows=True)
def quantiles(changed, live, ends, codes, share, whole, parts, groups, words, room, at, low, high, sizes):
    """The codes of the two rows around a quantile of the cell's group (the same if it falls on one), and its size.

    With `parts` it falls on one: on the first that has whole / parts of all rows up to it, from the end if `parts` is
    below zero.
    """
    length, all_groups = len(words), np.int64(groups.ctypes.data)
    lie, free = np.int64(words.ctypes.data), np.int64(room.ctypes.data)
    for c in range(at[AT_CELL], len(ends)):
        at[AT_CELL] = c
        group = all_groups + 8 * GROUP_FIELDS * changed[ends[c] - 1]
        # Additions stand before removals.
        for i in range(at[AT_CHANGE], ends[c]):
            at[AT_CHANGE] = i
            if live[i] > 0:
                if not has_room(length, free, group):
                    return NEEDS_ROOM
                insert(lie, free, group, codes[i])
            elif live[i] < 0 and not remove(lie, free, group, codes[i]):
                return NOT_THERE
        at[AT_CHANGE] = ends[c]
        n = load64(group, ROWS)
        sizes[c] = n
        if n == 0:
            continue
        # Worked out again in aggregates/percentiles.py, by the same steps, so that both round alike.
        place = (n - 1) * share
        floor = np.int64(np.floor(place))
        if parts:
            size = abs(parts)
            rows = max((n * whole + size - 1) // size, 1)
            floor = rows - 1 if parts > 0 else n - rows
            place = np.float64(floor)
        low[c] = high[c] = code_at(lie, group, floor)
        # There is a next row, as `place` is at most n - 1.
        if place > floor:
            high[c] = code_at(lie, group, floor + 1)
    return DONE


@kernel(borrows=True)
def where_codes_lie(groups, words, places):
    """The places in `words` of the codes of all groups, one group after the other, in order."""
    found = 0
    for g in range(len(groups)):
        for block in range(groups[g, BLOCKS]):
            entry = groups[g, DIRECTORY] + ENTRY * block
            for k in range(words[entry + SIZE]):
                places[found] = words[entry + START] + k
                found += 1


@kernel(borrows=True)
def bound_anew(groups, words):
    """Make the first code of every block its bound."""
    for g in range(len(groups)):
        for block in range(groups[g, BLOCKS]):
            entry = groups[g, DIRECTORY] + ENTRY * block
            words[entry + BOUND] = words[words[entry + START]]
