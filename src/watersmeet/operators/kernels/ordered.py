"""A counted B+ tree over (group, code): rows of all groups in one order, found by value or by place in O(log n).

Nodes lie in one int64 array. An entry of a leaf is a key with how many rows have it (its weight) and a payload; an
entry of an inner node is a child with the weight of all below it, and the key from which on its rows lie there (that
of entry 0 is not looked at). Full nodes are split on the way down; nodes that run low are merged on the way up.
"""

from __future__ import annotations

import numpy as np

from watersmeet.compiling import kernel
from watersmeet.operators.kernels.memory import load64, move64

FANOUT = 64
# Merged nodes have room left, so that the next rows do not split them again.
LOW, MERGED = FANOUT // 4, FANOUT * 3 // 4
MAX_HEIGHT = 16

# nodes[p]: how many entries, then their fields, one after the other
SIZE = 0
GROUPS = 8
CODES = GROUPS + FANOUT
WEIGHTS = CODES + FANOUT
KIDS = WEIGHTS + FANOUT  # payloads in leaves
NODE_FIELDS = KIDS + FANOUT

# state: freed nodes are linked through KIDS, FREED is the first of them + 1
ROOT, HEIGHT, FREED, USED, SPARE, TOTAL = range(6)
STATE_FIELDS = 6

# firsts[g]: the smallest key of a group, which is not known if it is stale
FIRST_KEY, FIRST_PAYLOAD, STALE = range(3)
FIRST_FIELDS = 3

# at: where a kernel stands that stopped for want of nodes
AT_CHANGE, AT_CELL = range(2)

# how a kernel ended
DONE, NEEDS_ROOM, NOT_THERE = range(3)

INT64_MIN = np.int64(-(2**63))


@kernel
def take_node(nodes, state):
    if state[FREED]:
        node = state[FREED] - 1
        state[FREED] = nodes[node, KIDS]
        state[SPARE] -= 1
    else:
        node = state[USED]
        state[USED] += 1
    nodes[node, SIZE] = 0
    return node


@kernel
def free_node(nodes, state, node):
    nodes[node, KIDS] = state[FREED]
    state[FREED] = node + 1
    state[SPARE] += 1


@kernel(inline="always")
def has_room(nodes, state):
    """Whether an insertion that splits a node of every level could be served."""
    # A split of the leaf, one on each of HEIGHT levels above it, and a new root.
    return len(nodes) - state[USED] + state[SPARE] > state[HEIGHT] + 2


@kernel(inline="always")
def fields_of(nodes, node):
    """The address of a node."""
    return np.int64(nodes.ctypes.data) + 8 * NODE_FIELDS * node


@kernel
def child_of(nodes, node, group, code):
    """The entry of an inner node under which a key lies.

    Counting all keys that are not above it is faster than halving: it needs no guesses, and loads are not waited for.
    """
    fields = fields_of(nodes, node)
    count = np.int64(0)
    for k in range(1, load64(fields, SIZE)):
        g, c = load64(fields, GROUPS + k), load64(fields, CODES + k)
        count += (g < group) | ((g == group) & (c <= code))
    return count


@kernel
def place_of(nodes, leaf, group, code):
    """The first entry of a leaf whose key is not below the given one."""
    fields = fields_of(nodes, leaf)
    count = np.int64(0)
    for k in range(load64(fields, SIZE)):
        g, c = load64(fields, GROUPS + k), load64(fields, CODES + k)
        count += (g < group) | ((g == group) & (c < code))
    return count


@kernel(inline="always")
def is_at(nodes, leaf, p, group, code):
    return p < nodes[leaf, SIZE] and nodes[leaf, GROUPS + p] == group and nodes[leaf, CODES + p] == code


@kernel
def copy_entries(nodes, source, first, last, target, at):
    """Entries first..last-1 of one node to another, from place `at` on."""
    to, since = fields_of(nodes, target), fields_of(nodes, source)
    for field in (GROUPS, CODES, WEIGHTS, KIDS):
        move64(to + 8 * (field + at), since + 8 * (field + first), last - first)


@kernel
def put_in(nodes, node, p, group, code, weight, kid):
    """A new entry before entry p; there must be room."""
    size = nodes[node, SIZE]
    fields = fields_of(nodes, node)
    for field in (GROUPS, CODES, WEIGHTS, KIDS):
        move64(fields + 8 * (field + p + 1), fields + 8 * (field + p), size - p)
    nodes[node, GROUPS + p] = group
    nodes[node, CODES + p] = code
    nodes[node, WEIGHTS + p] = weight
    nodes[node, KIDS + p] = kid
    nodes[node, SIZE] = size + 1


@kernel
def take_out(nodes, node, p):
    size = nodes[node, SIZE]
    fields = fields_of(nodes, node)
    for field in (GROUPS, CODES, WEIGHTS, KIDS):
        move64(fields + 8 * (field + p), fields + 8 * (field + p + 1), size - 1 - p)
    nodes[node, SIZE] = size - 1


@kernel
def split_child(nodes, state, parent, i):
    """Give the upper half of a full child to a new one beside it."""
    child = nodes[parent, KIDS + i]
    right = take_node(nodes, state)
    half = FANOUT // 2
    copy_entries(nodes, child, half, FANOUT, right, 0)
    nodes[child, SIZE] = half
    nodes[right, SIZE] = FANOUT - half
    weight = np.int64(0)
    for k in range(FANOUT - half):
        weight += nodes[right, WEIGHTS + k]
    nodes[parent, WEIGHTS + i] -= weight
    put_in(nodes, parent, i + 1, nodes[right, GROUPS], nodes[right, CODES], weight, right)


@kernel
def grow_root(nodes, state):
    root = take_node(nodes, state)
    put_in(nodes, root, 0, np.int64(0), np.int64(0), state[TOTAL], state[ROOT])
    state[ROOT] = root
    state[HEIGHT] += 1


@kernel
def insert(nodes, state, group, code, payload, weight):
    """Add rows of one key. There must be room for a node per level and one more."""
    if nodes[state[ROOT], SIZE] == FANOUT:
        grow_root(nodes, state)
        split_child(nodes, state, state[ROOT], 0)
    node = state[ROOT]
    for _ in range(state[HEIGHT]):
        i = child_of(nodes, node, group, code)
        # Split before going down: so there is room above for what a split below brings up.
        if nodes[nodes[node, KIDS + i], SIZE] == FANOUT:
            split_child(nodes, state, node, i)
            g = nodes[node, GROUPS + i + 1]
            if g < group or (g == group and nodes[node, CODES + i + 1] <= code):
                i += 1
        nodes[node, WEIGHTS + i] += weight
        node = nodes[node, KIDS + i]
    p = place_of(nodes, node, group, code)
    # Rows of one key share an entry, and with it the payload of the first.
    if is_at(nodes, node, p, group, code):
        nodes[node, WEIGHTS + p] += weight
    else:
        put_in(nodes, node, p, group, code, weight, payload)
    state[TOTAL] += weight


@kernel
def remove(nodes, state, path, group, code):
    """Take one row of a key away; whether there was one. `path` has room for two numbers per level."""
    node = state[ROOT]
    height = state[HEIGHT]
    for level in range(height):
        i = child_of(nodes, node, group, code)
        path[level, 0], path[level, 1] = node, i
        node = nodes[node, KIDS + i]
    p = place_of(nodes, node, group, code)
    if not is_at(nodes, node, p, group, code):
        return False
    # Only now that the row is found are the weights above it changed.
    for level in range(height):
        nodes[path[level, 0], WEIGHTS + path[level, 1]] -= 1
    state[TOTAL] -= 1
    nodes[node, WEIGHTS + p] -= 1
    if nodes[node, WEIGHTS + p] == 0:
        take_out(nodes, node, p)
        if nodes[node, SIZE] < LOW:
            shrink(nodes, state, path, node)
    return True


@kernel
def shrink(nodes, state, path, node):
    """Merge nodes that run low, from a leaf upwards."""
    height = state[HEIGHT]
    for level in range(height - 1, -1, -1):
        parent = path[level, 0]
        if nodes[node, SIZE] >= LOW or not merged_away(nodes, state, parent, path[level, 1], level == height - 1):
            break
        node = parent
    while state[HEIGHT] > 0 and nodes[state[ROOT], SIZE] == 1:
        root = state[ROOT]
        state[ROOT] = nodes[root, KIDS]
        state[HEIGHT] -= 1
        free_node(nodes, state, root)


@kernel
def merged_away(nodes, state, parent, i, leaves):
    """Free child i if it is empty, or merge it with a neighbour if both fit in one; whether either was done."""
    child = nodes[parent, KIDS + i]
    size = nodes[child, SIZE]
    if size == 0:
        free_node(nodes, state, child)
        take_out(nodes, parent, i)
        return True
    if i + 1 < nodes[parent, SIZE] and size + nodes[nodes[parent, KIDS + i + 1], SIZE] <= MERGED:
        merge(nodes, state, parent, i, leaves)
        return True
    if i > 0 and size + nodes[nodes[parent, KIDS + i - 1], SIZE] <= MERGED:
        merge(nodes, state, parent, i - 1, leaves)
        return True
    # Nothing is borrowed from neighbours: beside a large one a node may stay small.
    return False


@kernel
def merge(nodes, state, parent, i, leaves):
    """Move the entries of child i + 1 to the end of child i."""
    left, right = nodes[parent, KIDS + i], nodes[parent, KIDS + i + 1]
    # Entry 0 of an inner node has no key of its own. In the middle of another it needs one: the parent's for the node.
    if not leaves:
        nodes[right, GROUPS] = nodes[parent, GROUPS + i + 1]
        nodes[right, CODES] = nodes[parent, CODES + i + 1]
    copy_entries(nodes, right, 0, nodes[right, SIZE], left, nodes[left, SIZE])
    nodes[left, SIZE] += nodes[right, SIZE]
    nodes[parent, WEIGHTS + i] += nodes[parent, WEIGHTS + i + 1]
    free_node(nodes, state, right)
    take_out(nodes, parent, i + 1)


@kernel
def weight_of_first(nodes, node, count):
    """How many rows the first entries of a node stand for."""
    fields = fields_of(nodes, node)
    weight = np.int64(0)
    for k in range(count):
        weight += load64(fields, WEIGHTS + k)
    return weight


@kernel
def rows_before(nodes, state, group, code):
    """How many rows have a smaller key."""
    node = state[ROOT]
    count = np.int64(0)
    for _ in range(state[HEIGHT]):
        i = child_of(nodes, node, group, code)
        count += weight_of_first(nodes, node, i)
        node = nodes[node, KIDS + i]
    return count + weight_of_first(nodes, node, place_of(nodes, node, group, code))


@kernel
def row_at(nodes, state, position):
    """The leaf and entry of the row at a place in the order, and how many rows of the entry come after it."""
    node = state[ROOT]
    for level in range(state[HEIGHT] + 1):
        p = WEIGHTS
        while position >= nodes[node, p]:
            position -= nodes[node, p]
            p += 1
        p -= WEIGHTS
        if level < state[HEIGHT]:
            node = nodes[node, KIDS + p]
    return node, p, nodes[node, WEIGHTS + p] - 1 - position


@kernel
def first_of_group(nodes, state, group):
    """The leaf and entry of the smallest key of a group that has rows."""
    node = state[ROOT]
    for _ in range(state[HEIGHT]):
        node = nodes[node, KIDS + child_of(nodes, node, group, INT64_MIN)]
    p = place_of(nodes, node, group, INT64_MIN)
    # A group may begin with a leaf; then the search for what is below all its keys has ended in the leaf before.
    if p < nodes[node, SIZE]:
        return node, p
    leaf, entry, _ = row_at(nodes, state, rows_before(nodes, state, group, INT64_MIN))
    return leaf, entry


@kernel
def entries(nodes, state, out):
    """All entries of the leaves in order, as rows of (group, code, weight, payload)."""
    level = 0
    path = np.zeros((MAX_HEIGHT, 2), np.int64)
    path[0, 0] = state[ROOT]
    count = 0
    while level >= 0:
        node, i = path[level, 0], path[level, 1]
        if level == state[HEIGHT]:
            for k in range(nodes[node, SIZE]):
                out[count, 0], out[count, 1] = nodes[node, GROUPS + k], nodes[node, CODES + k]
                out[count, 2], out[count, 3] = nodes[node, WEIGHTS + k], nodes[node, KIDS + k]
                count += 1
            level -= 1
        elif i == nodes[node, SIZE]:
            level -= 1
        else:
            path[level, 1] += 1
            level += 1
            path[level, 0], path[level, 1] = nodes[node, KIDS + i], 0
    return count


@kernel
def insert_all(rows, at, nodes, state):
    """Insert rows of (group, code, weight, payload), from `at` on."""
    for i in range(at[AT_CHANGE], len(rows)):
        if not has_room(nodes, state):
            at[AT_CHANGE] = i
            return NEEDS_ROOM
        insert(nodes, state, rows[i, 0], rows[i, 1], rows[i, 3], rows[i, 2])
    at[AT_CHANGE] = len(rows)
    return DONE


@kernel
def enter_cell(groups, live, end, keys, payloads, counts, nodes, state, path, at):
    """Enter the changes of a cell, from at[AT_CHANGE] on; additions stand before removals."""
    for i in range(at[AT_CHANGE], end):
        if live[i] > 0:
            if not has_room(nodes, state):
                at[AT_CHANGE] = i
                return NEEDS_ROOM
            insert(nodes, state, groups[i], keys[i], payloads[i], np.int64(1))
        elif live[i] < 0 and not remove(nodes, state, path, groups[i], keys[i]):
            return NOT_THERE
        counts[groups[i]] += live[i]
    at[AT_CHANGE] = end
    return DONE


@kernel
def follow_first(live, start, end, keys, payloads, firsts, g):
    """Keep up the smallest key of a group through changes; when it leaves it must be looked up again."""
    for i in range(start, end):
        if firsts[g, STALE]:
            return
        if live[i] > 0 and keys[i] < firsts[g, FIRST_KEY]:
            firsts[g, FIRST_KEY], firsts[g, FIRST_PAYLOAD] = keys[i], payloads[i]
        # Another row may have the same key, but that only the tree knows.
        elif live[i] < 0 and keys[i] == firsts[g, FIRST_KEY]:
            firsts[g, STALE] = 1


@kernel
def first_in_order(groups, live, ends, keys, payloads, counts, firsts, nodes, state, at, out, valid):
    """out[c] = the payload of the row with the smallest key of the cell's group."""
    path = np.empty((MAX_HEIGHT, 2), np.int64)
    for c in range(at[AT_CELL], len(ends)):
        at[AT_CELL] = c
        ended = enter_cell(groups, live, ends[c], keys, payloads, counts, nodes, state, path, at)
        if ended != DONE:
            return ended
        start = ends[c - 1] if c > 0 else np.int64(0)
        g = groups[start]
        follow_first(live, start, ends[c], keys, payloads, firsts, g)
        valid[c] = counts[g] > 0
        if not valid[c]:
            firsts[g, STALE] = 1
            continue
        if firsts[g, STALE]:
            leaf, p = first_of_group(nodes, state, g)
            firsts[g, FIRST_KEY], firsts[g, FIRST_PAYLOAD] = nodes[leaf, CODES + p], nodes[leaf, KIDS + p]
            firsts[g, STALE] = 0
        out[c] = firsts[g, FIRST_PAYLOAD]
    return DONE


@kernel
def entry_of(nodes, state, group, code):
    """The leaf and entry at which a key is, or would be."""
    node = state[ROOT]
    for _ in range(state[HEIGHT]):
        node = nodes[node, KIDS + child_of(nodes, node, group, code)]
    return node, place_of(nodes, node, group, code)


@kernel
def weight_of(nodes, state, group, code):
    """How many rows have a key."""
    node, p = entry_of(nodes, state, group, code)
    return nodes[node, WEIGHTS + p] if is_at(nodes, node, p, group, code) else np.int64(0)


@kernel
def id_at(nodes, state, position):
    leaf, p, _ = row_at(nodes, state, position)
    return nodes[leaf, KIDS + p]


@kernel
def rows_between(ids, ranks, diffs, ends, start, stop, nodes, state, at, found, out):
    """What comes to and leaves the places from `start` up to `stop`, as (instant, id, diff) in out[found[0]:], not yet
    netted.

    A row that comes pushes all behind it on by a place: one leaves at the end, and where it came before them all
    another enters at the beginning. One that leaves lets them back. `out` must have room for two entries per change.
    """
    path = np.empty((MAX_HEIGHT, 2), np.int64)
    count = found[0]
    group = np.int64(0)
    for c in range(at[AT_CELL], len(ends)):
        at[AT_CELL] = c
        for i in range(at[AT_CHANGE], ends[c]):
            at[AT_CHANGE] = i
            found[0] = count
            rank = ranks[i]
            # Behind all rows of its rank, which are copies of one row.
            place = rows_before(nodes, state, group, rank) + weight_of(nodes, state, group, rank)
            if diffs[i] > 0:
                if not has_room(nodes, state):
                    return NEEDS_ROOM
                insert(nodes, state, group, rank, ids[i], np.int64(1))
                other, first, last = np.int64(-1), start, stop
            elif diffs[i] < 0:
                place -= 1
                if not remove(nodes, state, path, group, rank):
                    return NOT_THERE
                other, first, last = np.int64(1), start - 1, stop - 1
            else:
                continue
            if place >= stop:
                continue
            if place >= start:
                out[count, 0], out[count, 1], out[count, 2] = c, ids[i], -other
                count += 1
            elif state[TOTAL] > first:
                out[count, 0], out[count, 1], out[count, 2] = c, id_at(nodes, state, first), -other
                count += 1
            if state[TOTAL] > last:
                out[count, 0], out[count, 1], out[count, 2] = c, id_at(nodes, state, last), other
                count += 1
        at[AT_CHANGE] = ends[c]
    found[0] = count
    return DONE
