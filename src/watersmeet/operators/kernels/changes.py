"""Changes grouped into cells: all changes of one row or group at one instant."""

from __future__ import annotations

import numpy as np

from watersmeet.compiling import kernel
from watersmeet.operators.kernels.memory import load64, prefetch, store64

SMALL = 32
LOCAL = 31  # bits of a word that tell a place among the changes of an instant; those above tell the group
LOCAL_MASK = np.int64((1 << LOCAL) - 1)
MOST_BITS = 11  # of a digit: so many counts stay in the nearest cache
# Of a double: all but the sign, and the bits of infinity, above which are NaNs.
MAGNITUDE = np.int64(0x7FFFFFFFFFFFFFFF)
INFINITE = np.int64(0x7FF0000000000000)
AHEAD = 8  # cells whose groups are fetched before they are looked at
UNION_ALL, UNION, EXCEPT_ALL, EXCEPT, INTERSECT_ALL, INTERSECT = range(6)


@kernel
def sorted_by_digits(groups, words, others):
    """Words of groups and places, by groups; either array may hold them in the end. A digit has about as many values as
    there are words: clearing and adding up their counts takes no longer than moving words."""
    count = len(groups)
    low = high = groups[0]
    for i in range(count):
        low, high = min(low, groups[i]), max(high, groups[i])
    width = 6
    while width < MOST_BITS and 1 << width < count:
        width += 1
    bits = 1
    while (high - low) >> bits:
        bits += 1
    passes = (bits + width - 1) // width
    width = (bits + passes - 1) // passes
    for i in range(count):
        words[i] = ((groups[i] - low) << LOCAL) | i
    at, mask = np.empty((1 << width) + 1, np.int64), (1 << width) - 1
    for digit in range(passes):
        shift = LOCAL + digit * width
        at[:] = 0
        for i in range(count):
            at[((words[i] >> shift) & mask) + 1] += 1
        for k in range(1, mask):
            at[k + 1] += at[k]
        for i in range(count):
            value = (words[i] >> shift) & mask
            others[at[value]] = words[i]
            at[value] += 1
        words, others = others, words
    return words


@kernel
def sort_many(ids, start, stop, order):
    """Positions from start to stop by their ids, keeping their order where they are equal."""
    low = high = ids[start]
    for i in range(start, stop):
        low, high = min(low, ids[i]), max(high, ids[i])
    # The difference of any two numbers, which may be hashes.
    if np.uint64(high) - np.uint64(low) <= np.uint64(LOCAL_MASK):
        words = sorted_by_digits(ids[start:stop], np.empty(stop - start, np.int64), np.empty(stop - start, np.int64))
        for i in range(start, stop):
            order[i] = start + (words[i - start] & LOCAL_MASK)
        return
    # The one stable kind that Numba has. One by one, as assigning a slice may raise what only Numba can tell.
    sorted_ids = np.argsort(ids[start:stop], kind="mergesort")
    for i in range(start, stop):
        order[i] = start + sorted_ids[i - start]


@kernel(borrows=True)
def sort_into_cells(instants, ids, order, ends):
    """Order the changes by (instant, id), keeping their order within; instants ascend already.

    Fills `order` with positions and `ends` with where each cell ends; returns the number of cells.
    """
    n = len(instants)
    cells = 0
    start = 0
    while start < n:
        stop = start + 1
        while stop < n and instants[stop] == instants[start]:
            stop += 1
        if stop - start <= SMALL:
            for i in range(start, stop):  # insertion sort: stable, and best for the few changes of an instant
                k = i
                while k > start and ids[order[k - 1]] > ids[i]:
                    order[k] = order[k - 1]
                    k -= 1
                order[k] = i
        else:
            sort_many(ids, start, stop, order)
        for i in range(start + 1, stop):
            if ids[order[i]] != ids[order[i - 1]]:
                ends[cells] = i
                cells += 1
        ends[cells] = stop
        cells += 1
        start = stop
    return cells


@kernel
def merge_runs(instants, enters, starts, order):
    """The order that makes one log of several that lie behind each other, each in order: by instant, what leaves before
    what enters, and of equal ones those of the first log first. `starts` of the logs, the end comes last."""
    at = starts[:-1].copy()
    first = np.int64(0)
    if len(at) == 2:
        first = merge_two(instants, enters, starts, at, order)
    for i in range(first, len(order)):
        best = -1
        for run in range(len(at)):
            p = at[run]
            if p == starts[run + 1]:
                continue
            if best < 0:
                best = run
                continue
            q = at[best]
            if instants[p] < instants[q] or (instants[p] == instants[q] and enters[p] < enters[q]):
                best = run
        order[i] = at[best]
        at[best] += 1


@kernel(borrows=True)
def merge_two(instants, enters, starts, at, order):
    """The same of two logs up to the end of one of them, as far as `at` then says; how many changes that are. Which log
    is next cannot be foretold, so nothing branches on it."""
    i, p, q = np.int64(0), starts[0], starts[1]
    while p < starts[1] and q < starts[2]:
        x, y = instants[p], instants[q]
        second = np.int64((y < x) | ((y == x) & (enters[q] < enters[p])))
        order[i] = p + second * (q - p)
        p, q, i = p + 1 - second, q + second, i + 1
    at[0], at[1] = p, q
    return i


@kernel(borrows=True)
def multiplicity(kind, left, right):
    """How often a row is in the answer of a set operation, from how often it is on either side."""
    if kind == UNION_ALL:
        return left + right
    if kind == UNION:
        return np.int64(left + right > 0)
    if kind == EXCEPT_ALL:
        return max(np.int64(0), left - right)
    if kind == EXCEPT:
        return np.int64(left > 0 and right == 0)
    if kind == INTERSECT_ALL:
        return min(left, right)
    return np.int64(left > 0 and right > 0)


@kernel(borrows=True)
def change_multiplicities(kind, order, ends, cells, ids, diffs, is_right, left, right, out_cell, out_diff):
    """Apply the changes of each cell to the counts of its row; which cells change the answer, and by how much."""
    found = 0
    start = 0
    for cell in range(cells):
        row = ids[order[start]]
        before = multiplicity(kind, left[row], right[row])
        for k in range(start, ends[cell]):
            change = order[k]
            if is_right[change]:
                right[row] += diffs[change]
            else:
                left[row] += diffs[change]
        change_by = multiplicity(kind, left[row], right[row]) - before
        if change_by != 0:
            out_cell[found] = cell
            out_diff[found] = change_by
            found += 1
        start = ends[cell]
    return found


@kernel(borrows=True)
def count_cells(order, ends, cells, ids, diffs, counts, present):
    """For each cell of a group: whether the group has rows after it."""
    start = 0
    for cell in range(cells):
        group = ids[order[start]]
        for k in range(start, ends[cell]):
            counts[group] += diffs[order[k]]
        present[cell] = counts[group] > 0
        start = ends[cell]


@kernel(borrows=True)
def sort_by_group(changes, start, stop):
    """Bring the changes of one instant, rows of (place, group, diff), into the order of their groups, and keep theirs
    within. Three more rows are overwritten from start to stop."""
    count = stop - start
    if count == 2:
        # One leaves as another enters, in any order: a branch would be a guess.
        swap = np.int64(changes[1, start] > changes[1, start + 1])
        for field in range(3):
            one, other = changes[field, start], changes[field, start + 1]
            changes[field, start + swap], changes[field, start + 1 - swap] = one, other
    elif count <= SMALL:
        words = changes[3, start:stop]
        for i in range(count):  # a word of both, so that one comparison tells and one move is enough
            word = (changes[1, start + i] << LOCAL) | i
            k = i
            while k > 0 and words[k - 1] > word:
                words[k] = words[k - 1]
                k -= 1
            words[k] = word
        bring_into_order(changes, start, stop, words)
    else:
        sort_many_by_group(changes, start, stop)


@kernel
def sort_many_by_group(changes, start, stop):
    words = sorted_by_digits(changes[1, start:stop], changes[3, start:stop], changes[4, start:stop])
    bring_into_order(changes, start, stop, words)


@kernel(borrows=True)
def bring_into_order(changes, start, stop, words):
    """The order is that of the words, which end with the place that a change had."""
    before = changes[5, start:stop]
    for field in range(3):
        values = changes[field, start:stop]
        for i in range(stop - start):
            before[i] = values[i]
        for i in range(stop - start):
            values[i] = before[words[i] & LOCAL_MASK]


@kernel(borrows=True)
def cells_in_turn(births, deaths, groups, tail, head, leaving, counts, out, present):
    """The changes of a window whose rows leave in the order they came, as cells of their groups.

    Rows lie from `tail` to `head`; the last of them enter, at their births, and the first `leaving` leave at their
    deaths, before others enter at that instant. Fills out[0..2] with the place, group and diff of every change, in the
    order of cells; out[3..5] with the end, group and instant of every cell; and `present`, whether the group has rows
    after it. Behind its cells out[3..5] is free meanwhile. Returns the number of cells.
    """
    born, first, gone = len(births), head - len(births), tail + leaving
    i, j, n, cells = tail, 0, 0, 0
    while i < gone or j < born:
        # What is born at the instant or later has not died before it.
        at = deaths[i] if i < gone and (j >= born or deaths[i] <= births[j]) else births[j]
        start = n
        while i < gone and deaths[i] == at:
            out[0, n], out[1, n], out[2, n] = i, groups[i], -1
            i += 1
            n += 1
        while j < born and births[j] == at:
            out[0, n], out[1, n], out[2, n] = first + j, groups[first + j], 1
            j += 1
            n += 1
        if n - start > 1:
            sort_by_group(out, start, n)
        k = start
        while k < n:
            group = out[1, k]
            count = counts[group]
            while k < n and out[1, k] == group:
                count += out[2, k]
                k += 1
            counts[group] = count
            present[cells] = count > 0
            out[3, cells], out[4, cells], out[5, cells] = k, group, at
            cells += 1
    return cells


@kernel(borrows=True)
def empty_groups(groups, counts, out):
    """Those that have no rows, each once; returns how many."""
    found = 0
    for group in groups:
        if counts[group] == 0:
            counts[group] = -1  # seen
            out[found] = group
            found += 1
    for place in range(found):
        counts[out[place]] = 0
    return found


@kernel
def where_signs_meet(instants, alike, diffs, out):
    """Positions of the changes at whose instant others of the same number in `alike` have the other sign: the only ones
    that can cancel. Returns how many there are."""
    n = len(instants)
    order, ends, meets = np.empty(n, np.int64), np.empty(n, np.int64), np.zeros(n, np.bool_)
    cells = sort_into_cells(instants, alike, order, ends)
    start = 0
    for cell in range(cells):
        end = ends[cell]
        # What leaves comes first.
        if diffs[order[start]] != diffs[order[end - 1]]:
            for k in range(start, end):
                meets[order[k]] = True
        start = end
    found = 0
    for i in range(n):
        if meets[i]:
            out[found] = i
            found += 1
    return found


@kernel(borrows=True)
def leaving_first(instants, diffs, order):
    """Positions by instant, what leaves before what enters, each as they were; whether instants ascend, else they are
    not all given."""
    n, start = len(instants), 0
    while start < n:
        stop, at = start, start
        while stop < n and instants[stop] == instants[start]:
            if diffs[stop] < 0:
                order[at] = stop
                at += 1
            stop += 1
        for i in range(start, stop):
            if diffs[i] >= 0:
                order[at] = i
                at += 1
        if stop < n and instants[stop] < instants[start]:
            return False
        start = stop
    return True


@kernel(borrows=True)
def net_of_cells(order, ends, cells, diffs, kept):
    """Let changes of equal rows at one instant cancel; `kept` marks those that remain."""
    start = 0
    for cell in range(cells):
        total = 0
        for k in range(start, ends[cell]):
            total += diffs[order[k]]
        sign = 1 if total > 0 else -1
        left = abs(total)
        for k in range(start, ends[cell]):
            change = order[k]
            kept[change] = left > 0 and diffs[change] == sign
            left -= kept[change]
        start = ends[cell]


@kernel(borrows=True)
def merge_order(left, entered, out):
    """Positions that merge two ascending lists of instants, the first before the second where they are equal."""
    i, j, n = 0, 0, len(left)
    for k in range(len(out)):
        if i < n and (j >= len(entered) or left[i] <= entered[j]):
            out[k] = i
            i += 1
        else:
            out[k] = n + j
            j += 1


@kernel(borrows=True)
def last_cells(groups, scratch, out):
    """The last cell of every group that has any, in order; returns how many. `scratch` is -1 before and after."""
    for cell in range(len(groups)):
        scratch[groups[cell]] = cell
    found = 0
    for cell in range(len(groups)):
        if scratch[groups[cell]] == cell:
            out[found] = cell
            found += 1
    for cell in range(found):
        scratch[groups[out[cell]]] = -1
    return found


@kernel(borrows=True)
def same_words(columns, cell, last, group, floats):
    """Whether the row of a cell is the one that its group shows: -0.0 is 0.0, NaN is NaN."""
    for place in range(len(columns)):
        new, old = load64(columns[place], cell), last[group, place]
        if new != old:
            if not floats[place]:
                return False
            # Without the sign a zero is 0, and NaNs are all above infinity.
            new, old = new & MAGNITUDE, old & MAGNITUDE
            if new | old and (new <= INFINITE or old <= INFINITE):
                return False
    return True


@kernel(borrows=True)
def replace_rows(
    instants, groups, shown, silent, columns, floats, last, is_shown, last_numbers, scratch, next_number, at, out, made
):
    """The changes of groups' rows: what each cell withdraws, then what it gives, instant by instant.

    `columns` are where the words of cells lie, column by column, and `made` where those of changes go, of as many of
    them; last[g] are those of the row that group g shows, if it `is_shown`, and last_numbers[g] its number. Rows get
    the next number as they enter; where a row is the same, nothing changes and the number stays. `silent` has no cells
    if none is. `at` are the instants of changes, out[0..2] their groups, diffs and numbers; if `out` has more rows,
    out[3] is the cell of a change, and out[4] the one that its row is from, or -1 - g for the one that group g had
    before. Then `scratch`, -1 for every group before, is left with the last cell of each whose row entered, for
    `last_entered`. Returns how many changes there are, and the next number.
    """
    n = 0
    start = 0
    told, traced, quiet = len(out) > 3, len(out) > 4, len(silent) > 0
    size, rows = 8 * last.shape[1], np.int64(last.ctypes.data)
    while start < len(instants):
        instant = instants[start]
        stop = start
        while stop < len(instants) and instants[stop] == instant:
            if stop + AHEAD < len(groups):
                prefetch(rows + size * groups[stop + AHEAD])
            group, shows = groups[stop], shown[stop]
            stays = False
            if is_shown[group]:
                if shows:
                    stays = same_words(columns, stop, last, group, floats)
                    shown[stop] = not stays
                else:
                    stays = quiet and silent[stop]
                if not stays:
                    at[n], out[0, n], out[1, n], out[2, n] = instant, group, -1, last_numbers[group, 0]
                    for place in range(len(made)):
                        store64(made[place], n, last[group, place])
                    if told:
                        out[3, n] = stop
                    if traced:
                        out[4, n] = scratch[group] if scratch[group] >= 0 else -1 - group
                    n += 1
            is_shown[group] = shows
            stop += 1
        for cell in range(start, stop):
            if shown[cell]:
                group = groups[cell]
                at[n], out[0, n], out[1, n], out[2, n] = instant, group, 1, next_number
                for place in range(len(columns)):
                    last[group, place] = load64(columns[place], cell)
                for place in range(len(made)):
                    store64(made[place], n, last[group, place])
                if told:
                    out[3, n] = cell
                if traced:
                    out[4, n] = scratch[group] = cell
                last_numbers[group, 0] = next_number
                next_number += 1
                n += 1
        start = stop
    return n, next_number


@kernel(borrows=True)
def last_entered(groups, is_shown, scratch, kept):
    """The cells of the rows that groups show in the end and that are not those from before, as `replace_rows` left
    `scratch`, which is -1 again for every group. Returns how many these are."""
    found = 0
    for cell in range(len(groups)):
        group = groups[cell]
        if scratch[group] == cell:
            scratch[group] = -1
            if is_shown[group]:
                kept[found] = cell
                found += 1
    return found
