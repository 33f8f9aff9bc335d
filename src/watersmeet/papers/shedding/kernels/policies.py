"""The online policies on arrivals known in advance, row by row."""

from __future__ import annotations

import numpy as np

from watersmeet.compiling import kernel
from watersmeet.papers.shedding.kernels.flow import pop, put

RAND, PROB, LIFE = 0, 1, 2


@kernel
def shed(policy, streams, instants, last, leaving, ends, times, chances, ranks, pools, sizes, seed, until):
    """Fill `until`. `pools[stream]` is the pool a stream's rows are kept in and `sizes` how many rows a pool takes;
    `chances` is how likely the next partner row has a row's key, `ranks` the order in which PROB lets rows go, `ends`
    the last time at which a row can meet one, and `leaving` the rows in the order in which they do for the last time.
    """
    rows = streams.size
    kept, count = np.empty((sizes.size, rows), np.int64), np.zeros(sizes.size, np.int64)
    place = np.full(rows, -1)  # in `kept`, of rows that are there
    # What expires stays in the heap and is passed over when it comes up: nothing in a heap can be found.
    heap_size = rows if policy == PROB else 0
    heap_ranks, heap_rows = np.empty((sizes.size, heap_size), np.int64), np.empty((sizes.size, heap_size), np.int64)
    heaped = np.zeros(sizes.size, np.int64)
    random = np.uint64(seed)
    row = left = 0
    while row < rows:
        now, time = instants[row], times[row]
        while left < rows and last[leaving[left]] <= now:
            gone = leaving[left]
            pool = pools[streams[gone]]
            count[pool] = forget(kept[pool], count[pool], place, gone)
            left += 1
        while row < rows and instants[row] == now:
            # As if it stayed to its end; whoever makes it go says so later.
            until[row] = last[row]
            if last[row] > now:
                pool = pools[streams[row]]
                kept[pool, count[pool]], place[row] = row, count[pool]
                count[pool] += 1
                if policy == PROB:
                    heaped[pool] = put(heap_ranks[pool], heap_rows[pool], heaped[pool], ranks[row], row)
            row += 1
        for pool in range(sizes.size):
            # New rows are in the pool by now, so they may be the victims as well (AMB-32).
            while count[pool] > sizes[pool]:
                if policy == RAND:
                    random = following(random)
                    victim = kept[pool, np.int64(mixed(random) % np.uint64(count[pool]))]
                elif policy == LIFE:
                    victim = kept[pool, least(kept[pool], count[pool], chances, ends, time)]
                else:
                    victim = heap_rows[pool, 0]
                    heaped[pool] = pop(heap_ranks[pool], heap_rows[pool], heaped[pool])
                    if place[victim] < 0:
                        continue
                until[victim] = now
                count[pool] = forget(kept[pool], count[pool], place, victim)


@kernel
def forget(kept, count, place, row):
    """Take a row out if it is there; the last one moves into its place."""
    at = place[row]
    if at < 0:
        return count
    kept[at] = kept[count - 1]
    place[kept[at]] = at
    place[row] = -1
    return count - 1


@kernel
def least(kept, count, chances, ends, time):
    """The place of the row with the lowest priority by LIFE, of equals that of the one that came first."""
    best, lowest = 0, np.inf
    for k in range(count):
        row = kept[k]
        # LIFE's priorities fall with time, each at its own pace, so no heap would stay in order.
        priority = chances[row] * (ends[row] - time)
        if priority < lowest or (priority == lowest and row < kept[best]):
            best, lowest = k, priority
    return best


@kernel
def following(state):
    return state + np.uint64(0x9E3779B97F4A7C15)


@kernel
def mixed(state):
    """SplitMix64: a well spread number for each state of a counter."""
    z = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
