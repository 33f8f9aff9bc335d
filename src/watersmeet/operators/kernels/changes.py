"""Changes grouped into cells: all changes of one row or group at one instant."""

from __future__ import annotations

import numpy as np
from numba import njit

SMALL = 32
UNION_ALL, UNION, EXCEPT_ALL, EXCEPT, INTERSECT_ALL, INTERSECT = range(6)


@njit(cache=True)
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
            order[start:stop] = start + np.argsort(ids[start:stop], kind="mergesort")
        for i in range(start + 1, stop):
            if ids[order[i]] != ids[order[i - 1]]:
                ends[cells] = i
                cells += 1
        ends[cells] = stop
        cells += 1
        start = stop
    return cells


@njit(cache=True)
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


@njit(cache=True)
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


@njit(cache=True)
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
    start = 0
    for cell in range(cells):
        last[ids[order[start]]] = -1
        start = ends[cell]


@njit(cache=True)
def carry_numbers(groups, own, previous, same, stored):
    """A cell that leaves its group's row as it was keeps that row's number: the previous cell's, or the stored."""
    for cell in range(len(groups)):
        if same[cell]:
            own[cell] = own[previous[cell]] if previous[cell] >= 0 else stored[groups[cell]]


@njit(cache=True)
def keep_numbers(groups, own, stored):
    """The numbers of the rows shown last, by group."""
    for cell in range(len(groups)):
        stored[groups[cell]] = own[cell]


@njit(cache=True)
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
