"""Changes grouped into cells: all changes of one row or group at one instant."""

from __future__ import annotations

import numpy as np

from watersmeet.compiling import kernel

SMALL = 32
UNION_ALL, UNION, EXCEPT_ALL, EXCEPT, INTERSECT_ALL, INTERSECT = range(6)


@kernel
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
            # The one stable kind that Numba has.
            order[start:stop] = start + np.argsort(ids[start:stop], kind="mergesort")
        for i in range(start + 1, stop):
            if ids[order[i]] != ids[order[i - 1]]:
                ends[cells] = i
                cells += 1
        ends[cells] = stop
        cells += 1
        start = stop
    return cells


@kernel
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


@kernel
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


@kernel
def count_cells(order, ends, cells, ids, diffs, counts, last, present, previous):
    """For each cell of a group: whether the group has rows after it, and which earlier cell it had.

    `previous` is the group's last cell among these, or -1 if its last output is from an earlier batch. `last` is
    scratch, a number per group, all -1 before and after.
    """
    start = 0
    for cell in range(cells):
        group = ids[order[start]]
        for k in range(start, ends[cell]):
            counts[group] += diffs[order[k]]
        present[cell] = counts[group] > 0
        previous[cell] = last[group]
        last[group] = cell
        start = ends[cell]
    # Only what was touched is put back, as there may be far more groups.
    start = 0
    for cell in range(cells):
        last[ids[order[start]]] = -1
        start = ends[cell]


@kernel
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


@kernel
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


@kernel
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


@kernel
def replace_rows(instants, groups, shown, previous, was_stored, stored_at, same, last_number, next_number, own, out):
    """The changes of groups' rows: what each cell withdraws, then what it gives, instant by instant.

    A cell's row stands at its own number in the new rows; the row that it replaces at `previous`, or at `stored_at`
    if that is from an earlier batch. Rows get numbers when they enter and leave with them; where `same`, nothing
    changes and the number stays. Fills out[0..3] with row positions, cells, diffs and numbers; returns how many
    changes there are, and the next number.
    """
    n = 0
    start = 0
    while start < len(instants):
        stop = start + 1
        while stop < len(instants) and instants[stop] == instants[start]:
            stop += 1
        for cell in range(start, stop):
            before = previous[cell]
            number = own[before] if before >= 0 else last_number[groups[cell]]
            there = shown[before] if before >= 0 else was_stored[cell]
            if same[cell]:
                own[cell] = number
            elif there:
                out[0, n] = before if before >= 0 else stored_at[cell]
                out[1, n], out[2, n], out[3, n] = cell, -1, number
                n += 1
        for cell in range(start, stop):
            if shown[cell] and not same[cell]:
                own[cell] = next_number
                out[0, n], out[1, n], out[2, n], out[3, n] = cell, cell, 1, next_number
                next_number += 1
                n += 1
        start = stop
    # In order, so that each group is left with the number of its last cell. What `own` says of a cell that is not shown
    # is never read.
    for cell in range(len(instants)):
        last_number[groups[cell]] = own[cell]
    return n, next_number
