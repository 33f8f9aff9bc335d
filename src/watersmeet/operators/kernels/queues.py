"""The row with the smallest key of every group, where rows leave in the order they came: monotonic queues.

A row that came before another with a smaller key can never be the smallest again and is dropped at once; so keys
ascend along a queue, and its front is the answer. Rows are numbered per group as they come, and a row has left when
as many rows have left its group. The queues of all groups are linked lists in one array of nodes.
"""

from __future__ import annotations

from watersmeet.compiling import kernel

# nodes[p]
KEY, PAYLOAD, SERIAL, BEFORE, AFTER = range(5)
NODE_FIELDS = 5

# queues[g]; FRONT and BACK hold the node + 1, so that zeros are an empty queue
FRONT, BACK, CAME, LEFT = range(4)
QUEUE_FIELDS = 4

# room: the first of the freed nodes + 1 (linked by AFTER), how many nodes were ever used, how many are free of those
FREED, USED, SPARE = range(3)
ROOM_FIELDS = 3


@kernel(inline="always")
def take_node(nodes, room):
    if room[FREED]:
        p = room[FREED] - 1
        room[FREED] = nodes[p, AFTER]
        room[SPARE] -= 1
        return p
    room[USED] += 1
    return room[USED] - 1


@kernel(inline="always")
def free_node(nodes, room, p):
    nodes[p, AFTER] = room[FREED]
    room[FREED] = p + 1
    room[SPARE] += 1


@kernel(borrows=True)
def first_in_queues(groups, live, ends, keys, payloads, queues, nodes, room, out, valid):
    """out[c] = the payload of the row with the smallest key. `nodes` must have room for all that comes."""
    start = 0
    for c in range(len(ends)):
        end = ends[c]
        g = groups[start]
        front, back = queues[g, FRONT], queues[g, BACK]
        came, left = queues[g, CAME], queues[g, LEFT]
        for i in range(start, end):
            if live[i] < 0:
                left += 1
            elif live[i] > 0:
                key = keys[i]
                # Those with an equal key go too, as the new row stays longer.
                while back and nodes[back - 1, KEY] >= key:
                    before = nodes[back - 1, BEFORE]
                    free_node(nodes, room, back - 1)
                    back = before
                p = take_node(nodes, room)
                nodes[p, KEY], nodes[p, PAYLOAD], nodes[p, SERIAL] = key, payloads[i], came
                nodes[p, BEFORE], nodes[p, AFTER] = back, 0
                if back:
                    nodes[back - 1, AFTER] = p + 1
                else:
                    front = p + 1
                back = p + 1
                came += 1
        while front and nodes[front - 1, SERIAL] < left:
            after = nodes[front - 1, AFTER]
            free_node(nodes, room, front - 1)
            front = after
            if front:
                nodes[front - 1, BEFORE] = 0
            else:
                back = 0
        queues[g, FRONT], queues[g, BACK] = front, back
        queues[g, CAME], queues[g, LEFT] = came, left
        valid[c] = front != 0
        if front:
            out[c] = nodes[front - 1, PAYLOAD]
        start = end
