"""A hash table from rows to small numbers: rows are known by 128 bits, numbers are used again when freed."""

from __future__ import annotations

import numpy as np

from watersmeet.compiling import kernel
from watersmeet.operators.kernels.hashing import MIX_1, MIX_2, finish
from watersmeet.operators.kernels.memory import prefetch

NOWHERE = np.int64(-1)
# So many rows before its turn the head of a row is asked for, and half as many before it what hangs there: tables of
# many rows lie out of cache.
AHEAD = 16
NULL_MARK = np.uint64(0xD6E8FEB86659FD93)


@kernel(inline="always")
def folded(first, second, first_code, second_code):
    """Two hashes with the codes of one more value."""
    # `finish` is one to one: the words of a single column of numbers tell its codes apart for certain.
    first = finish(first * np.uint64(31) + np.uint64(first_code))
    second = finish((second * np.uint64(37) ^ np.uint64(second_code)) * MIX_2)
    return first, second


@kernel(borrows=True)
def fold(first, second, first_codes, second_codes, valid, all_valid):
    """Fold one column into two independent 64-bit hashes per row; NULL is a value like any other."""
    for i in range(len(first)):
        if all_valid or valid[i]:
            first[i], second[i] = folded(first[i], second[i], first_codes[i], second_codes[i])
        else:
            first[i] = finish(first[i] * np.uint64(31) ^ NULL_MARK)
            second[i] = finish(second[i] * np.uint64(37) + NULL_MARK)


@kernel(borrows=True)
def second_hash(data, offsets, out):
    """A hash of every slice of bytes, unrelated to hashing.hash_bytes."""
    for i in range(len(out)):
        h = np.uint64(offsets[i + 1] - offsets[i]) ^ MIX_1
        for p in range(offsets[i], offsets[i + 1]):
            # FNV-1a, byte by byte.
            h = (h ^ np.uint64(data[p])) * np.uint64(0x100000001B3)
        out[i] = np.int64(finish(h))


@kernel(borrows=True)
def fold_entries(first_codes, second_codes, ends, first, second):
    """Two hashes of every list from those of its entries, in their order; ends[i] is one past the last of list i."""
    start = 0
    for i in range(len(ends)):
        one, other = np.uint64(ends[i] - start) ^ MIX_1, np.uint64(ends[i] - start) ^ MIX_2
        for p in range(start, ends[i]):
            one = finish(one * np.uint64(31) + first_codes[p])
            other = finish((other * np.uint64(37) ^ second_codes[p]) * MIX_2)
        first[i], second[i] = one, other
        start = ends[i]


@kernel(borrows=True)
def number_rows(first, second, start, heads, following, known_first, known_second, free, free_count, ids, new, found):
    """ids[i] = the number of row i, from row `start` on; new rows take a free number, and are listed in `new`, where
    `found` are already. Stops at a new row for which none is free. Returns where it stopped, how many free numbers are
    left, and how many rows are new.

    A number that was just given is found again by an equal row.
    """
    mask = np.uint64(len(heads) - 1)
    head_at, known_at = np.int64(heads.ctypes.data), np.int64(known_first.ctypes.data)
    for i in range(start, len(ids)):
        if i + AHEAD < len(ids):
            prefetch(head_at + 8 * np.int64(first[i + AHEAD] & mask))
            hangs = heads[first[i + AHEAD // 2] & mask]
            if hangs != NOWHERE:
                prefetch(known_at + 8 * hangs)
        bucket = first[i] & mask
        at = heads[bucket]
        while at != NOWHERE:
            if known_first[at] == first[i] and known_second[at] == second[i]:
                break
            at = following[at]
        if at == NOWHERE:
            if free_count == 0:
                return i, free_count, found
            free_count -= 1
            at = free[free_count]
            known_first[at] = first[i]
            known_second[at] = second[i]
            following[at] = heads[bucket]
            heads[bucket] = at
            new[found] = i
            found += 1
        ids[i] = at
    return len(ids), free_count, found


@kernel(borrows=True)
def forget_numbers(ids, heads, following, known_first, free, free_count):
    """Take numbers out of the table and put them among the free ones."""
    mask = np.uint64(len(heads) - 1)
    head_at, known_at = np.int64(heads.ctypes.data), np.int64(known_first.ctypes.data)
    for i in range(len(ids)):
        if i + 2 * AHEAD < len(ids):
            prefetch(known_at + 8 * ids[i + 2 * AHEAD])
            prefetch(head_at + 8 * np.int64(known_first[ids[i + AHEAD]] & mask))
        gone = ids[i]
        bucket = known_first[gone] & mask
        at = heads[bucket]
        before = NOWHERE
        while at != gone:
            before = at
            at = following[at]
        if before == NOWHERE:
            heads[bucket] = following[gone]
        else:
            following[before] = following[gone]
        free[free_count] = gone
        free_count += 1
    return free_count


@kernel(borrows=True)
def rehash(heads, following, known_first, live):
    """Hang every live number into new heads."""
    mask = np.uint64(len(heads) - 1)
    heads[:] = NOWHERE
    for at in range(len(live)):
        if live[at]:
            bucket = known_first[at] & mask
            following[at] = heads[bucket]
            heads[bucket] = at
