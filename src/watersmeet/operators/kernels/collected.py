"""The rows of every group in the order of a key, to be read as a whole after each instant.

The rows of a group are a linked list in one array of nodes. Rows come mostly with the largest key and leave with the
smallest, so a new one looks for its place from the back and one that leaves is looked for from the front.
"""

from __future__ import annotations

from watersmeet.compiling import kernel

# nodes[p]; BEFORE and AFTER hold a node + 1, so that 0 is none
KEY, BEFORE, AFTER = range(3)
NODE_FIELDS = 3

# lists[g]; FRONT and BACK hold a node + 1
FRONT, BACK, SIZE = range(3)
LIST_FIELDS = 3

# room: the first of the freed nodes + 1 (linked by AFTER), how many nodes were ever used, how many are free of those
FREED, USED, SPARE = range(3)
ROOM_FIELDS = 3

NOT_THERE = -1
NOT_AS_LONG = -2


@kernel(inline="always")
def put_in(nodes, room, lists, g, key):
    """A node for a row behind all that have at most its key."""
    if room[FREED]:
        p = room[FREED] - 1
        room[FREED] = nodes[p, AFTER]
        room[SPARE] -= 1
    else:
        p = room[USED]
        room[USED] += 1
    before = lists[g, BACK]
    while before and nodes[before - 1, KEY] > key:
        before = nodes[before - 1, BEFORE]
    after = nodes[before - 1, AFTER] if before else lists[g, FRONT]
    nodes[p, KEY], nodes[p, BEFORE], nodes[p, AFTER] = key, before, after
    if before:
        nodes[before - 1, AFTER] = p + 1
    else:
        lists[g, FRONT] = p + 1
    if after:
        nodes[after - 1, BEFORE] = p + 1
    else:
        lists[g, BACK] = p + 1
    lists[g, SIZE] += 1
    return p


@kernel(inline="always")
def take_out(nodes, lists, g, key):
    """Unlink the first row with a key; its node, or NOT_THERE."""
    p = lists[g, FRONT]
    while p and nodes[p - 1, KEY] != key:
        p = nodes[p - 1, AFTER]
    if not p:
        return NOT_THERE
    before, after = nodes[p - 1, BEFORE], nodes[p - 1, AFTER]
    if before:
        nodes[before - 1, AFTER] = after
    else:
        lists[g, FRONT] = after
    if after:
        nodes[after - 1, BEFORE] = before
    else:
        lists[g, BACK] = before
    lists[g, SIZE] -= 1
    return p - 1


@kernel
def collect(groups, live, ends, first, last, keys, lists, nodes, room, entered, left, reads, out):
    """Enter the changes of cells first to last - 1, additions before removals, and write the nodes of each cell's group
    after it into `out`, one list behind the other, if that `reads`; how many rows left, whose nodes are in `left`, or
    NOT_THERE, or NOT_AS_LONG if the lists do not fill `out` exactly.

    entered[i] is the node of an added row. Nodes that rows leave are not used again here, as what they hold may still
    have to be read; `nodes` must have room for all that comes.
    """
    filled = 0
    gone = 0
    start = ends[first - 1] if first > 0 else 0
    for c in range(first, last):
        g = groups[start]
        for i in range(start, ends[c]):
            if live[i] > 0:
                entered[i] = put_in(nodes, room, lists, g, keys[i])
            elif live[i] < 0:
                p = take_out(nodes, lists, g, keys[i])
                if p == NOT_THERE:
                    return NOT_THERE
                left[gone] = p
                gone += 1
        if reads and filled + lists[g, SIZE] > len(out):
            return NOT_AS_LONG
        p = lists[g, FRONT] if reads else 0
        while p:
            out[filled] = p - 1
            filled += 1
            p = nodes[p - 1, AFTER]
        start = ends[c]
    return gone if filled == len(out) else NOT_AS_LONG


@kernel
def free_nodes(nodes, room, left):
    for i in range(len(left)):
        nodes[left[i], AFTER] = room[FREED]
        room[FREED] = left[i] + 1
        room[SPARE] += 1
