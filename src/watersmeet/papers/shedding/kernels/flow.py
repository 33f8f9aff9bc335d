"""Cheapest flows by successive shortest paths, one unit of supply at a time.

A graph is written down by its arcs in the order of their tails: `first[v]` to `first[v + 1]` are those of node v, and
beside each arc lies one back (`mates`), whose capacity is what flows. Costs are integers. Nodes are numbered so that
arcs run from lower to higher numbers; so negative costs cannot make cycles and one pass gives the first potentials.
"""

from __future__ import annotations

import numpy as np

from watersmeet.compiling import kernel

FAR = np.int64(1) << 60  # beyond any distance, and its sum with one does not overflow


@kernel
def adjacency(nodes, tails, heads):
    """`first` and, for each arc, the place of it and of the arc back in the order of tails."""
    first = np.zeros(nodes + 1, np.int64)
    for a in range(tails.size):
        first[tails[a] + 1] += 1
        first[heads[a] + 1] += 1
    for v in range(nodes):
        first[v + 1] += first[v]
    free = first[:-1].copy()
    forth, back = np.empty(tails.size, np.int64), np.empty(tails.size, np.int64)
    for a in range(tails.size):
        forth[a] = free[tails[a]]
        free[tails[a]] += 1
        back[a] = free[heads[a]]
        free[heads[a]] += 1
    return first, forth, back


@kernel
def cheapest(nodes, tails, heads, costs, capacities, units):
    """Send up to `units` from node 0 to the last node. Gives the flow on each arc and the cost of each unit, which
    never falls; fewer units than asked for have a cost if the graph cannot take more, or if one more would not be
    below 0."""
    first, forth, back = adjacency(nodes, tails, heads)
    arcs = 2 * tails.size
    head, cost = np.empty(arcs, np.int32), np.empty(arcs, np.int32)
    room, mate = np.empty(arcs, np.int32), np.empty(arcs, np.int32)
    for a in range(tails.size):
        i, j = forth[a], back[a]
        head[i], cost[i], room[i], mate[i] = heads[a], costs[a], capacities[a], j
        head[j], cost[j], room[j], mate[j] = tails[a], -costs[a], 0, i
    potential = first_potentials(nodes, first, head, cost, room)
    prices = np.empty(units, np.int64)
    distance, through = np.full(nodes, FAR), np.empty(nodes, np.int32)
    touched, stack = np.empty(nodes, np.int32), np.empty(arcs + 1, np.int32)
    heap_keys, heap_nodes = np.empty(arcs + 1, np.int64), np.empty(arcs + 1, np.int32)
    sent = 0
    while sent < units:
        if not next_path(
            nodes, first, head, cost, room, potential, distance, through, touched, stack, heap_keys, heap_nodes
        ):
            break
        # Reduced costs add up to the difference of potentials, so the path need not be walked for its cost.
        price = potential[nodes - 1] - potential[0]
        if price >= 0:
            break
        # All units that the path has room for cost the same.
        push = narrowest(nodes, head, room, mate, through, units - sent)
        v = nodes - 1
        while v != 0:
            a = through[v]
            room[a] -= push
            room[mate[a]] += push
            v = head[mate[a]]
        for u in range(push):
            prices[sent + u] = price
        sent += push
    flow = np.empty(tails.size, np.int64)
    for a in range(tails.size):
        flow[a] = room[back[a]]
    return flow, prices[:sent]


@kernel
def first_potentials(nodes, first, head, cost, room):
    """Distances from node 0 in the order of the nodes. Nodes out of reach stay far, and are never reached later."""
    potential = np.full(nodes, FAR)
    potential[0] = 0
    for v in range(nodes):
        if potential[v] == FAR:
            continue
        for a in range(first[v], first[v + 1]):
            if room[a] > 0 and potential[v] + cost[a] < potential[head[a]]:
                potential[head[a]] = potential[v] + cost[a]
    return potential


@kernel
def next_path(nodes, first, head, cost, room, potential, distance, through, touched, stack, heap_keys, heap_nodes):
    """Dijkstra over reduced costs, ended when the last node is reached. Most reduced costs are 0, so nodes at the
    present distance wait on a stack and only the others in a heap. `through` then holds the path, and the potentials
    are those for the next one."""
    target = nodes - 1
    seen, waiting, heaped = 0, 0, 0
    distance[0] = 0
    touched[0], seen = 0, 1
    stack[0], waiting = 0, 1
    now, found = np.int64(0), False
    while not found:
        if waiting:
            waiting -= 1
            v = stack[waiting]
        elif heaped:
            key = heap_keys[0]
            v = heap_nodes[0]
            heaped = pop(heap_keys, heap_nodes, heaped)
            # A shorter way was found after this entry was put; entries are not looked for to be lowered.
            if key > distance[v]:
                continue
            now = key
            if v == target:
                found = True
                break
        else:
            break
        for a in range(first[v], first[v + 1]):
            if room[a] == 0:
                continue
            u = head[a]
            d = now + cost[a] + potential[v] - potential[u]
            if d >= distance[u]:
                continue
            if distance[u] == FAR:
                touched[seen] = u
                seen += 1
            distance[u] = d
            through[u] = a
            if d > now:
                heaped = put(heap_keys, heap_nodes, heaped, d, u)
            elif u == target:
                found = True
                break
            else:
                stack[waiting] = u
                waiting += 1
    for i in range(seen):
        v = touched[i]
        # Textbooks add min(distance, now) to every potential. Less `now` throughout, differences are the same and only
        # nodes nearer than the target change.
        if found and distance[v] < now:
            potential[v] += distance[v] - now
        distance[v] = FAR
    return found


@kernel
def narrowest(nodes, head, room, mate, through, limit):
    v = nodes - 1
    while v != 0:
        a = through[v]
        limit = min(limit, room[a])
        v = head[mate[a]]
    return limit


@kernel
def put(keys, nodes, size, key, node):
    i = size
    while i and keys[(i - 1) >> 1] > key:
        keys[i], nodes[i] = keys[(i - 1) >> 1], nodes[(i - 1) >> 1]
        i = (i - 1) >> 1
    keys[i], nodes[i] = key, node
    return size + 1


@kernel
def pop(keys, nodes, size):
    size -= 1
    key, node = keys[size], nodes[size]
    i = 0
    while 2 * i + 1 < size:
        child = 2 * i + 1
        if child + 1 < size and keys[child + 1] < keys[child]:
            child += 1
        if keys[child] >= key:
            break
        keys[i], nodes[i] = keys[child], nodes[child]
        i = child
    keys[i], nodes[i] = key, node
    return size
