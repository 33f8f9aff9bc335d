"""The first rows of every group in an order, as rows come and go.

Rows are known by small numbers. Of each group the first stand in order, in a block of one array: its head. The others
are linked to each other in no order: its tail; none of them comes before a row of the head. So a row that does not come
before the last of the head costs nothing but its links, whatever their number, and only when rows of the head have left
is the tail looked through for those that follow.

Where rows leave in turn their numbers are in the order in which they came. A row of the tail is gone for good once as
many as are asked for have come after it that it is not before: they will be there for as long as it is. So a tail is
looked through for such rows whenever it has four times as many as were left the last time, and few are ever kept. There
the rows of the head are linked, too, so that all are in the order in which they came.
"""

from __future__ import annotations

import numpy as np

from watersmeet.compiling import kernel
from watersmeet.operators.kernels.changes import sort_by_group
from watersmeet.operators.kernels.hashing import combine, finish
from watersmeet.operators.kernels.memory import move64, prefetch

# groups[g]: where its head lies, how many rows it has room for and has; the first of its tail + 1, and how many it has;
# with how many rows the tail is looked through for those that will never be seen
START, ROOM, SIZE, TAIL, REST, LOOKED_THROUGH = range(6)
GROUP_FIELDS = 6

# known[row]: the rows of its tail before and after it, + 1; how many copies of it are in the tail, or, where rows leave
# in turn, that it is gone; its place among those whose codes are equal; then the codes. All in one place, as it is far
# from that of the row before.
BEFORE, AFTER, COPIES, TIE, CODES = range(5)
GONE = -1

# at: where a kernel stands that stopped: the cell and the change in it; how much of the blocks is used; of the cell
# that it is in, how many rows were seen before, or -1, and the first place that has changed since; how many are noted
AT_CELL, AT_CHANGE, USED, SEEN, LOW, NOTED = range(6)
AT_FIELDS = 6

# how a kernel ended
DONE, NEEDS_ROOM, FULL, NOT_THERE = range(4)

FEW = 4  # rows that a block begins with
AHEAD = 8  # changes
# A tail is looked through after so many of its rows at least have become part of the head and left it.
SHARE = 16


@kernel
def hash_codes(groups, codes, out):
    """One number for all codes of a row and its group; others may have it, too."""
    for i in range(len(out)):
        h = finish(np.uint64(groups[i]))
        for k in range(codes.shape[1]):
            h = combine(h, codes[i, k])
        out[i] = np.int64(finish(h))


@kernel(inline="always")
def comes_before(known, one, other):
    for k in range(CODES, known.shape[1]):
        if known[one, k] != known[other, k]:
            return known[one, k] < known[other, k]
    if known[one, TIE] != known[other, TIE]:
        return known[one, TIE] < known[other, TIE]
    # Of equal rows the later one: where rows leave in turn, it stays for longer.
    return one > other


@kernel(borrows=True)
def place_behind(known, heads, start, size, row):
    """How many rows of a head do not come after a row."""
    low, high = 0, size
    while low < high:
        middle = (low + high) // 2
        if comes_before(known, row, heads[start + middle]):
            high = middle
        else:
            low = middle + 1
    return low


@kernel(borrows=True)
def place_of(known, heads, start, size, row):
    """Where a row is in a head, or -1."""
    place = place_behind(known, heads, start, size, row) - 1
    return place if place >= 0 and heads[start + place] == row else -1


@kernel(inline="always")
def put_in_tail(groups, known, g, row, in_turn):
    groups[g, REST] += 1
    known[row, COPIES] += 1
    if known[row, COPIES] == 1 and not in_turn:
        link(groups, known, g, row)


@kernel(inline="always")
def link(groups, known, g, row):
    after = groups[g, TAIL]
    known[row, BEFORE], known[row, AFTER] = 0, after
    if after:
        known[after - 1, BEFORE] = row + 1
    groups[g, TAIL] = row + 1


@kernel(inline="always")
def take_from_tail(groups, known, g, row, in_turn):
    groups[g, REST] -= 1
    known[row, COPIES] -= 1
    if known[row, COPIES] == 0 and not in_turn:
        unlink(groups, known, g, row)


@kernel(inline="always")
def unlink(groups, known, g, row):
    before, after = known[row, BEFORE], known[row, AFTER]
    if before:
        known[before - 1, AFTER] = after
    else:
        groups[g, TAIL] = after
    if after:
        known[after - 1, BEFORE] = before


@kernel(borrows=True)
def has_room(groups, heads, at, g, more):
    """Make room in the block of a group; whether there was enough for a larger one."""
    size, room = groups[g, SIZE], groups[g, ROOM]
    if size + more <= room:
        return True
    while room < size + more:
        room = max(2 * room, FEW)
    if at[USED] + room > len(heads):
        return False
    start, old = at[USED], groups[g, START]
    for k in range(size):
        heads[start + k] = heads[old + k]
    groups[g, START], groups[g, ROOM] = start, room
    at[USED] += room
    return True


@kernel
def move_blocks(groups, heads, larger, at):
    """All blocks to another array, one behind the other."""
    used = 0
    for g in range(len(groups)):
        start = groups[g, START]
        for k in range(groups[g, SIZE]):
            larger[used + k] = heads[start + k]
        groups[g, START] = used
        used += groups[g, ROOM]
    at[USED] = used


@kernel(borrows=True)
def place_to_enter(known, groups, heads, g, row):
    """Where a row that comes goes in the head; -1: into the tail."""
    start, size = groups[g, START], groups[g, SIZE]
    if groups[g, REST] and (size == 0 or not comes_before(known, row, heads[start + size - 1])):
        return -1
    return place_behind(known, heads, start, size, row)


@kernel(borrows=True)
def place_to_leave(known, groups, heads, g, row):
    """Where a row that goes is in the head; -1: in the tail, -2: nowhere."""
    # Of copies of one row those that nobody sees go first.
    if known[row, COPIES]:
        return -1
    place = place_of(known, heads, groups[g, START], groups[g, SIZE], row)
    return place if place >= 0 else -2


@kernel(inline="always")
def put_at(heads, start, place, size, row):
    """Put a row at a place among so many, of which those from there on move up."""
    address = np.int64(heads.ctypes.data) + 8 * (start + place)
    move64(address + 8, address, size - place)
    heads[start + place] = row


@kernel(inline="always")
def put_in_head(groups, heads, g, place, row):
    put_at(heads, groups[g, START], place, groups[g, SIZE], row)
    groups[g, SIZE] += 1


@kernel(inline="always")
def take_from_head(groups, heads, g, place):
    size = groups[g, SIZE] - 1
    address = np.int64(heads.ctypes.data) + 8 * (groups[g, START] + place)
    move64(address, address + 8, size - place)
    groups[g, SIZE] = size


@kernel(borrows=True)
def fill_up(known, groups, heads, g, wanted, in_turn):
    """Move the first so many rows of a tail to the end of the head, which has room for them."""
    start, size = groups[g, START], groups[g, SIZE]
    found = np.int64(0)
    row = groups[g, TAIL] - 1
    while row >= 0:
        is_there = known[row, COPIES] > 0
        if is_there and (found < wanted or comes_before(known, row, heads[start + size + found - 1])):
            place = place_behind(known, heads, start + size, found, row)
            found = min(found + 1, wanted)
            put_at(heads, start + size, place, found - 1, row)
        row = known[row, AFTER] - 1
    # Copies of one row are linked once, and are so many of those that are wanted: from the last on, so that each row is
    # read before its place is taken.
    rows = taken = np.int64(0)
    while rows < found and taken < wanted:
        taken += known[heads[start + size + rows], COPIES]
        rows += 1
    left_over, end = max(taken - wanted, 0), size + min(taken, wanted)
    groups[g, SIZE] = end
    while rows:
        rows -= 1
        row = heads[start + size + rows]
        for _ in range(known[row, COPIES] - left_over):
            end -= 1
            heads[start + end] = row
            take_from_tail(groups, known, g, row, in_turn)
        left_over = np.int64(0)


@kernel(borrows=True)
def let_go_of_hidden(known, groups, g, stop, best, gone, out):
    """Let go of the rows of a tail that are not before `stop` that came later; they are added to `gone`. `best` has
    room for one more than these."""
    found = np.int64(0)
    row = groups[g, TAIL] - 1
    while row >= 0:
        older = known[row, AFTER] - 1
        if found < stop or (stop and comes_before(known, row, best[stop - 1])):
            put_at(best, 0, place_behind(known, best, 0, found, row), found, row)
            found = min(found + 1, stop)
        elif known[row, COPIES]:
            groups[g, REST] -= 1
            let_go(groups, known, g, row, gone, out)
        row = older


@kernel(inline="always")
def let_go(groups, known, g, row, gone, out):
    unlink(groups, known, g, row)
    known[row, COPIES] = GONE
    gone[out[1]] = row
    out[1] += 1


@kernel(inline="always")
def remember(group, heads, seen, at, place, stop):
    """What is at the first places before a cell changes them, and the first place that it changes."""
    if at[SEEN] < 0:
        at[SEEN], at[LOW] = min(group[SIZE], stop), place
        for k in range(at[SEEN]):
            seen[k] = heads[group[START] + k]
    at[LOW] = min(at[LOW], place)


@kernel(inline="always")
def noted(notes, marks, count, row, diff):
    notes[count] = row
    marks[row] += diff
    return count + 1


@kernel(inline="always")
def note(group, heads, notes, marks, at, place, first, stop, row, diff):
    """Who comes to the places from `first` on before `stop`, and who leaves them, when a row enters or leaves at a
    place before `stop`: that one, or the one which this moves across the first of them, and the one at their end."""
    start, size, count = group[START], group[SIZE], at[NOTED]
    if place >= first:
        count = noted(notes, marks, count, row, diff)
    elif diff > 0 and size >= first:
        count = noted(notes, marks, count, heads[start + first - 1], 1)
    elif diff < 0 and size > first:
        count = noted(notes, marks, count, heads[start + first], -1)
    if diff > 0 and size >= stop:
        count = noted(notes, marks, count, heads[start + stop - 1], -1)
    elif diff < 0 and size > stop:
        count = noted(notes, marks, count, heads[start + stop], 1)
    at[NOTED] = count


@kernel(inline="always")
def look_ahead(rows, numbers, i, known, groups, heads, in_turn):
    """Fetch rows and groups of changes to come, and of those that come sooner the last row of a head and the neighbours
    in a tail, which are not asked for where rows leave in turn."""
    n = len(numbers)
    start, size = np.int64(known.ctypes.data), 8 * known.shape[1]
    if i + 2 * AHEAD < n:
        prefetch(np.int64(groups.ctypes.data) + 8 * GROUP_FIELDS * numbers[i + 2 * AHEAD])
        if not in_turn:
            prefetch(start + size * rows[i + 2 * AHEAD])
    if i + AHEAD < n:
        g, row = numbers[i + AHEAD], rows[i + AHEAD]
        if groups[g, SIZE]:
            prefetch(start + size * heads[groups[g, START] + groups[g, SIZE] - 1])
        if not in_turn:
            prefetch(start + size * (known[row, BEFORE] - 1))
            prefetch(start + size * (known[row, AFTER] - 1))


@kernel(borrows=True)
def first_rows(
    rows, numbers, diffs, ends, known, first, stop, in_turn, by_place, groups, heads, seen, best, notes, marks, at,
    out_cells, out_rows, out_places, out_diffs, out, gone,
):  # fmt: skip
    """Enter changes, cell by cell, and say what each changes at the places from `first` up to `stop`: what was there
    leaves, then what is there enters. With `by_place` a row that is at another place than before leaves and enters,
    else it stays. out[0]: how many entries there are; out[1]: how many rows are `gone`: where rows leave `in_turn`,
    those that have left or will never be seen.

    seen: the rows at these places before a cell; best: room for one more than `stop`; notes: those that have come or
    left, in room for two a change and all places; marks: a zero for every row.
    """
    most = 2 * stop + FEW
    for c in range(at[AT_CELL], len(ends)):
        at[AT_CELL] = c
        if len(out_rows) - out[0] < 2 * stop:
            return FULL
        g = numbers[ends[c] - 1]
        for i in range(at[AT_CHANGE], ends[c]):
            at[AT_CHANGE] = i
            look_ahead(rows, numbers, i, known, groups, heads, in_turn)
            if diffs[i] == 0 or (in_turn and known[rows[i], COPIES] == GONE):
                continue
            if diffs[i] > 0 and not has_room(groups, heads, at, g, 1):
                return NEEDS_ROOM
            if diffs[i] > 0:
                place = place_to_enter(known, groups, heads, g, rows[i])
            else:
                place = place_to_leave(known, groups, heads, g, rows[i])
            if place == -2:
                return NOT_THERE
            if in_turn and diffs[i] > 0:
                link(groups, known, g, rows[i])
            if 0 <= place < stop and by_place:
                remember(groups[g], heads, seen, at, place, stop)
            elif 0 <= place < stop:
                note(groups[g], heads, notes, marks, at, place, first, stop, rows[i], diffs[i])
            if diffs[i] < 0:
                if place < 0:
                    take_from_tail(groups, known, g, rows[i], in_turn)
                else:
                    take_from_head(groups, heads, g, place)
                if in_turn:
                    let_go(groups, known, g, rows[i], gone, out)
            elif place < 0:
                put_in_tail(groups, known, g, rows[i], in_turn)
            else:
                put_in_head(groups, heads, g, place, rows[i])
                if groups[g, SIZE] > most:
                    groups[g, SIZE] -= 1
                    last = heads[groups[g, START] + groups[g, SIZE]]
                    put_in_tail(groups, known, g, last, in_turn)
        at[AT_CHANGE] = ends[c]
        if in_turn and groups[g, REST] > groups[g, LOOKED_THROUGH]:
            let_go_of_hidden(known, groups, g, stop, best, gone, out)
            groups[g, LOOKED_THROUGH] = 4 * groups[g, REST] + stop + FEW
        size, rest = groups[g, SIZE], groups[g, REST]
        if size < stop and rest:
            wanted = min(stop + max(stop, rest // SHARE) - size, rest)
            if not has_room(groups, heads, at, g, wanted):
                return NEEDS_ROOM
            fill_up(known, groups, heads, g, wanted, in_turn)
            for k in range(max(first, size), stop if not by_place else 0):
                if k < groups[g, SIZE]:
                    at[NOTED] = noted(notes, marks, at[NOTED], heads[groups[g, START] + k], 1)
        if by_place:
            tell_places(groups[g], heads, seen, at, c, first, stop, out_cells, out_rows, out_places, out_diffs, out)
        else:
            tell_rows(notes, marks, at, c, out_cells, out_rows, out_places, out_diffs, out)
    at[AT_CELL] = len(ends)
    return DONE


@kernel(borrows=True)
def changes_in_turn(births, deaths, left, orders, groups, known, tail, first, out, ends, instants):
    """The changes of rows that leave in turn, as cells of their groups. Rows from `first` on enter, at their births;
    from `tail` on those that `left`, by their numbers in `orders`, leave at their deaths, but for those that are gone.

    Fills out[0..2] with the row, group and diff of every change, and `ends` and `instants` of the cells; out[3..5] are
    for sorting. Returns how many changes and cells there are, and the first row that is still there or has yet to be
    looked at.
    """
    i, j, n, cells = 0, 0, 0, 0
    while i < len(deaths) or j < len(births):
        # What is born at the instant or later has not died before it.
        at = deaths[i] if i < len(deaths) and (j >= len(births) or deaths[i] <= births[j]) else births[j]
        start = n
        while i < len(deaths) and deaths[i] == at:
            while tail < first + j and known[tail, COPIES] == GONE:
                tail += 1
            if tail < first + j and orders[tail] == left[i]:
                out[0, n], out[1, n], out[2, n] = tail, groups[tail], -1
                tail += 1
                n += 1
            i += 1
        while j < len(births) and births[j] == at:
            out[0, n], out[1, n], out[2, n] = first + j, groups[first + j], 1
            j += 1
            n += 1
        if n - start > 1:
            sort_by_group(out, start, n)
        for k in range(start + 1, n + 1):
            if k == n or out[1, k] != out[1, k - 1]:
                ends[cells], instants[cells] = k, at
                cells += 1
    return n, cells, tail


@kernel(borrows=True)
def renumber(groups, heads, known, kept, new, moved):
    """Rows that are `kept` get the numbers of their places there; new[row]: the number, of those that are not any."""
    for g in range(len(groups)):
        for k in range(groups[g, START], groups[g, START] + groups[g, SIZE]):
            heads[k] = new[heads[k]]
        if groups[g, TAIL]:
            groups[g, TAIL] = new[groups[g, TAIL] - 1] + 1
    for k in range(len(kept)):
        row = kept[k]
        for field in range(COPIES, known.shape[1]):
            moved[k, field] = known[row, field]
        moved[k, BEFORE] = new[known[row, BEFORE] - 1] + 1 if known[row, BEFORE] else 0
        moved[k, AFTER] = new[known[row, AFTER] - 1] + 1 if known[row, AFTER] else 0


@kernel(borrows=True)
def number_changes(rows, diffs, kept, shown, next_number, numbers):
    """The number that each row enters with, if it is kept, and leaves with; -1: it is not seen. `shown`: of each row
    the number that it has, or -1. Returns the next number."""
    for i in range(len(rows)):
        row = rows[i]
        numbers[i] = shown[row]
        shown[row] = -1
        if diffs[i] > 0 and kept[i]:
            numbers[i] = shown[row] = next_number
            next_number += 1
    return next_number


@kernel(borrows=True)
def tell_places(group, heads, seen, at, cell, first, stop, out_cells, out_rows, out_places, out_diffs, out):
    """What was at the places that have changed leaves, then what is there enters."""
    start, before, after = group[START], at[SEEN], min(group[SIZE], stop)
    n = out[0]
    for sign in (-1, 1):
        for k in range(max(at[LOW], first), (before if sign < 0 else after) if before >= 0 else 0):
            if k >= before or k >= after or seen[k] != heads[start + k]:
                row = seen[k] if sign < 0 else heads[start + k]
                out_cells[n], out_rows[n], out_places[n], out_diffs[n] = cell, row, k, sign
                n += 1
    out[0] = n
    at[SEEN] = -1


@kernel(borrows=True)
def tell_rows(notes, marks, at, cell, out_cells, out_rows, out_places, out_diffs, out):
    """What of the rows that are noted has left in the end, then what has entered."""
    n = out[0]
    for sign in (-1, 1):
        for k in range(at[NOTED]):
            row = notes[k]
            while sign * marks[row] > 0:
                out_cells[n], out_rows[n], out_places[n], out_diffs[n] = cell, row, 0, sign
                marks[row] -= sign
                n += 1
    out[0] = n
    at[NOTED] = 0
