"""The first rows of every group in an order, where rows come and none ever leaves.

Rows are known by small numbers. Those of each group stand in order in a block of one array, as many as are asked for
at most: what is pushed out behind them, or comes behind them, will never be seen and is gone. That a new row does not
matter its last one tells, which a group has beside its other fields.
"""

from __future__ import annotations

import numpy as np

from watersmeet.compiling import kernel
from watersmeet.operators.kernels.memory import move64, prefetch

# The first fields of groups, and of `at`, are those of `first_rows`, which moves blocks of both.
# groups[g]: where its block lies, how many rows it has room for and has, and the last of these
START, ROOM, SIZE, LAST = range(4)
GROUP_FIELDS = 4

# known[row]: whether it came in the cell that is being entered, and is among the first; its place among those whose
# codes are equal; then the codes
NEW, TIE, CODES = range(3)

# at: where a kernel stands that stopped: the cell, and the change in it; how much of the blocks is used; of the cell
# that it is in, how many rows were there before, or -1, and the first place that has changed since
AT_CELL, AT_CHANGE, USED, SEEN, LOW = range(5)
AT_FIELDS = 5

# how a kernel ended
DONE, NEEDS_ROOM, FULL, TIED = range(4)

FEW = 4  # rows that a block begins with
AHEAD = 8  # changes
EQUAL = 2


@kernel(inline="always")
def compared(known, one, other, ties_known):
    """Whether a row comes before another; EQUAL if neither does, or, where ties are not known, as far as codes tell."""
    result = EQUAL
    for k in range(CODES, known.shape[1]):
        if known[one, k] != known[other, k]:
            result = np.int64(known[one, k] < known[other, k])
            break
    if result == EQUAL and ties_known and known[one, TIE] != known[other, TIE]:
        result = np.int64(known[one, TIE] < known[other, TIE])
    return result


@kernel(borrows=True)
def place_to_enter(known, group, heads, stop, row, ties_known):
    """Where a row goes; `stop`: behind all that are asked for, -1: that is not known, as ties are not told apart."""
    size = group[SIZE]
    if size == 0:
        return np.int64(0)
    before = compared(known, row, group[LAST], ties_known)
    if before == EQUAL and not ties_known:
        return np.int64(-1)
    # Of equal rows those stay that were there.
    if before != 1:
        return size
    low, high = np.int64(0), size - 1
    while low < high:
        middle = (low + high) // 2
        before = compared(known, row, heads[group[START] + middle], ties_known)
        if before == EQUAL and not ties_known:
            return np.int64(-1)
        if before == 1:
            high = middle
        else:
            low = middle + 1
    return low


@kernel(borrows=True)
def has_room(groups, heads, at, g, stop):
    """Make room for one more in the block of a group; whether there was enough for a larger one."""
    size, room = groups[g, SIZE], groups[g, ROOM]
    if size < room or size == stop:
        return True
    room = min(max(2 * room, FEW), stop)
    if at[USED] + room > len(heads):
        return False
    start, old = at[USED], groups[g, START]
    for k in range(size):
        heads[start + k] = heads[old + k]
    groups[g, START], groups[g, ROOM] = start, room
    at[USED] += room
    return True


@kernel(inline="always")
def look_ahead(rows, numbers, order, i, known, groups):
    """Fetch the groups of changes to come, and of those that come sooner the last rows."""
    n, row_bytes = len(order), 8 * known.shape[1]
    if i + 2 * AHEAD < n:
        prefetch(np.int64(groups.ctypes.data) + 8 * GROUP_FIELDS * numbers[order[i + 2 * AHEAD]])
    if i + AHEAD < n:
        start = np.int64(known.ctypes.data)
        prefetch(start + row_bytes * groups[numbers[order[i + AHEAD]], LAST])


@kernel(inline="always")
def remember(group, heads, seen, at, place):
    """What a cell found before it changed anything, and the first place that it changes."""
    if at[SEEN] < 0:
        at[SEEN], at[LOW] = group[SIZE], place
        for k in range(at[SEEN]):
            seen[k] = heads[group[START] + k]
    at[LOW] = min(at[LOW], place)


@kernel(inline="always")
def put(groups, heads, g, place, row):
    address = np.int64(heads.ctypes.data) + 8 * (groups[g, START] + place)
    move64(address + 8, address, groups[g, SIZE] - place)
    heads[groups[g, START] + place] = row
    groups[g, SIZE] += 1
    groups[g, LAST] = heads[groups[g, START] + groups[g, SIZE] - 1]


@kernel(borrows=True)
def write_codes(rows, places, codes, known):
    """The codes of rows that come, each column of them at its place; 0 at all others."""
    for i in range(len(rows)):
        row = rows[i]
        for k in range(known.shape[1]):
            known[row, k] = 0
        for k in range(len(places)):
            known[row, CODES + places[k]] = codes[k, i]


@kernel(borrows=True)
def rows_of_groups(numbers, groups, heads, out):
    """The rows that groups have, one group after the other."""
    found = 0
    for g in numbers:
        for k in range(groups[g, START], groups[g, START] + groups[g, SIZE]):
            out[found] = heads[k]
            found += 1


@kernel(borrows=True)
def first_kept(
    rows, numbers, order, ends, known, ties_known, stop, by_place, groups, heads, seen, at, has_come,
    out_cells, out_rows, out_places, out_diffs, out, gone,
):  # fmt: skip
    """Enter rows in an order, cell by cell, and say what each cell changes among the first of its group: what was there
    leaves, then what is there enters. With `by_place` a row that is at another place than before leaves and enters,
    else it stays. out[0]: how many entries there are; out[1]: how many of the rows are `gone` that were among the first
    before; `has_come` marks those of the new that were among them.

    Where codes do not tell two rows apart, nor numbers for ties that were given, it stops and wants these numbers.
    """
    for c in range(at[AT_CELL], len(ends)):
        at[AT_CELL] = c
        start = ends[c - 1] if c else 0
        needed = 2 * stop if by_place else 2 * (ends[c] - start)
        if len(out_rows) - out[0] < needed:
            return FULL
        g = numbers[order[start]]
        for i in range(max(start, at[AT_CHANGE]), ends[c]):
            at[AT_CHANGE] = i
            look_ahead(rows, numbers, order, i, known, groups)
            row = rows[order[i]]
            place = place_to_enter(known, groups[g], heads, stop, row, ties_known)
            if place < 0:
                return TIED
            if place == stop:
                continue
            if not has_room(groups, heads, at, g, stop):
                return NEEDS_ROOM
            if by_place:
                remember(groups[g], heads, seen, at, place)
            if groups[g, SIZE] == stop:
                groups[g, SIZE] -= 1
                last = groups[g, LAST]
                gone[out[1]] = last
                out[1] += 1
                if not by_place and not known[last, NEW]:
                    n = out[0]
                    out_cells[n], out_rows[n], out_places[n], out_diffs[n] = c, last, 0, -1
                    out[0] += 1
                known[last, NEW] = 0
            put(groups, heads, g, place, row)
            known[row, NEW] = 1
            has_come[order[i]] = True
        at[AT_CHANGE] = ends[c]
        if by_place:
            tell_places(groups[g], heads, seen, at, c, out_cells, out_rows, out_places, out_diffs, out)
        for i in range(start, ends[c]):
            row = rows[order[i]]
            if known[row, NEW]:
                known[row, NEW] = 0
                if not by_place:
                    n = out[0]
                    out_cells[n], out_rows[n], out_places[n], out_diffs[n] = c, row, 0, 1
                    out[0] += 1
    at[AT_CELL] = len(ends)
    return DONE


@kernel(borrows=True)
def tell_places(group, heads, seen, at, cell, out_cells, out_rows, out_places, out_diffs, out):
    """What was at the places that have changed leaves, then what is there enters."""
    start, before, after = group[START], at[SEEN], group[SIZE]
    n = out[0]
    for sign in (-1, 1):
        for k in range(at[LOW], (before if sign < 0 else after) if before >= 0 else 0):
            if k >= before or k >= after or seen[k] != heads[start + k]:
                row = seen[k] if sign < 0 else heads[start + k]
                out_cells[n], out_rows[n], out_places[n], out_diffs[n] = cell, row, k, sign
                n += 1
    out[0] = n
    at[SEEN] = -1
