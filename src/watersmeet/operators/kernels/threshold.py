"""Rows of groups in the order of their codes, and which of them pass a threshold of their group as it moves.

Rows of one code are a list: the tree (kernels/ordered.py) has its first, and each row the next one and the one before.
"""

from __future__ import annotations

import numpy as np

from watersmeet.compiling import kernel
from watersmeet.operators.kernels.ordered import (
    DONE,
    INT64_MIN,
    KIDS,
    MAX_HEIGHT,
    NEEDS_ROOM,
    NOT_THERE,
    SIZE,
    WEIGHTS,
    entry_of,
    has_room,
    insert,
    remove,
    row_at,
    rows_before,
    weight_of,
)

# links[r]: its neighbours among the rows of one code, -1 if there is none; the number under which it is in the answer,
# -1 if it is not; and where it stands, in no group if it compares with nothing
NEXT, BEFORE, NUMBER, GROUP, CODE = range(5)
LINK_FIELDS = 5

# levels[g]: the threshold of a group, and whether there is one
LEVEL, KNOWN = range(2)
LEVEL_FIELDS = 2

# changes, in the order in which those of one instant are made: so each row changes once
LEAVES, MOVES, ENTERS = range(3)

# progress: the next change, how many rows of the output are filled, the next number
AT, COUNT, NEXT_NUMBER = range(3)

# out: which change, which row, whether it enters or leaves, and its number
OUT_FIELDS = 4

# besides how kernels of trees end
FULL = 3


@kernel
def link(nodes, state, group, code, row, links):
    """Behind the first row of its code, if it is not the first itself."""
    leaf, p = entry_of(nodes, state, group, code)
    first = nodes[leaf, KIDS + p]
    links[row, NEXT] = links[row, BEFORE] = links[row, NUMBER] = -1
    if first == row:
        return
    after = links[first, NEXT]
    links[row, NEXT], links[row, BEFORE] = after, first
    links[first, NEXT] = row
    if after >= 0:
        links[after, BEFORE] = row


@kernel
def unlink(nodes, state, group, code, row, links):
    after, before = links[row, NEXT], links[row, BEFORE]
    if after >= 0:
        links[after, BEFORE] = before
    if before >= 0:
        links[before, NEXT] = after
    elif after >= 0:
        leaf, p = entry_of(nodes, state, group, code)
        nodes[leaf, KIDS + p] = after


@kernel
def place_of_level(nodes, state, group, level, known, above, behind):
    """How many rows lie before the threshold of a group. Without one no row of the group passes."""
    if not known:
        return rows_before(nodes, state, group + np.int64(above), INT64_MIN)
    place = rows_before(nodes, state, group, level)
    return place + weight_of(nodes, state, group, level) if behind else place


@kernel
def passes(code, level, above, behind):
    if code == level:
        return above != behind
    return (code > level) == above


@kernel
def put_out(change, row, links, progress, out):
    """A row that enters the answer if it is not there, and leaves it if it is."""
    count = progress[COUNT]
    out[count, 0], out[count, 1] = change, row
    if links[row, NUMBER] < 0:
        links[row, NUMBER] = progress[NEXT_NUMBER]
        progress[NEXT_NUMBER] += 1
        out[count, 2], out[count, 3] = 1, links[row, NUMBER]
    else:
        out[count, 2], out[count, 3] = -1, links[row, NUMBER]
        links[row, NUMBER] = -1
    progress[COUNT] = count + 1


@kernel
def put_out_between(nodes, state, first, last, change, links, progress, out):
    """The rows at these places, which are all those of some codes."""
    place = first
    while place < last:
        leaf, p, _ = row_at(nodes, state, place)
        while place < last and p < nodes[leaf, SIZE]:
            row = nodes[leaf, KIDS + p]
            while row >= 0:
                put_out(change, row, links, progress, out)
                row = links[row, NEXT]
            place += nodes[leaf, WEIGHTS + p]
            p += 1


@kernel
def move(change, group, code, known, above, behind, links, levels, nodes, state, progress, out):
    """Put the threshold of a group elsewhere; whether there was room for all rows between."""
    level, was_known = levels[group, LEVEL], levels[group, KNOWN] != 0
    old = place_of_level(nodes, state, group, level, was_known, above, behind)
    new = place_of_level(nodes, state, group, code, known, above, behind)
    first, last = min(old, new), max(old, new)
    if progress[COUNT] + last - first > len(out):
        return False
    put_out_between(nodes, state, first, last, change, links, progress, out)
    levels[group, LEVEL], levels[group, KNOWN] = code, known
    return True


@kernel
def cross(kinds, groups, codes, rows, above, behind, links, levels, nodes, state, progress, out):
    """Enter the changes, from progress[AT] on, and fill `out` with the rows that come to pass, or do no more.

    above: whether rows pass whose codes are larger than the threshold, else those whose are smaller. behind: whether
    the threshold lies behind the rows that are equal to it. rows: of a threshold that moves, whether there is one then.
    """
    path = np.empty((MAX_HEIGHT, 2), np.int64)
    for i in range(progress[AT], len(kinds)):
        progress[AT] = i
        group, code, row = groups[i], codes[i], rows[i]
        if kinds[i] == MOVES:
            if not move(i, group, code, row != 0, above, behind, links, levels, nodes, state, progress, out):
                return FULL
            continue
        if progress[COUNT] == len(out):
            return FULL
        if kinds[i] == ENTERS:
            if not has_room(nodes, state):
                return NEEDS_ROOM
            insert(nodes, state, group, code, row, np.int64(1))
            link(nodes, state, group, code, row, links)
            if levels[group, KNOWN] != 0 and passes(code, levels[group, LEVEL], above, behind):
                put_out(i, row, links, progress, out)
        else:
            if links[row, NUMBER] >= 0:
                put_out(i, row, links, progress, out)
            unlink(nodes, state, group, code, row, links)
            if not remove(nodes, state, path, group, code):
                return NOT_THERE
    progress[AT] = len(kinds)
    return DONE
