"""The online policies on arrivals known in advance, row by row."""

from __future__ import annotations

import numpy as np

from watersmeet.compiling import kernel

RAND, PROB, LIFE = 0, 1, 2


@kernel
def shed(policy, streams, instants, last, ends, times, chances, pools, sizes, seed, until):
    """Fill `until`. `pools[stream]` is the pool a stream's rows are kept in and `sizes` how many rows a pool takes;
    `chances` is how likely the next partner row has a row's key, `ends` the last time at which it can meet one."""
    rows = streams.size
    kept = np.empty((sizes.size, rows), np.int64)
    count = np.zeros(sizes.size, np.int64)
    random = np.uint64(seed)
    row = 0
    while row < rows:
        now, time = instants[row], times[row]
        for pool in range(sizes.size):
            count[pool] = expire(kept[pool], count[pool], last, now)
        while row < rows and instants[row] == now:
            # As if it stayed to its end; whoever makes it go says so later.
            until[row] = last[row]
            if last[row] > now:
                pool = pools[streams[row]]
                kept[pool, count[pool]] = row
                count[pool] += 1
            row += 1
        for pool in range(sizes.size):
            # New rows are in the pool by now, so they may be the victims as well (AMB-32).
            while count[pool] > sizes[pool]:
                if policy == RAND:
                    random = following(random)
                    victim = np.int64(mixed(random) % np.uint64(count[pool]))
                else:
                    victim = least(kept[pool], count[pool], chances, ends, time, policy == LIFE)
                until[kept[pool, victim]] = now
                count[pool] -= 1
                kept[pool, victim] = kept[pool, count[pool]]


@kernel
def expire(kept, count, last, now):
    """Forget the rows that can meet nothing after `now`."""
    left = 0
    for k in range(count):
        if last[kept[k]] > now:
            kept[left] = kept[k]
            left += 1
    return left


@kernel
def least(kept, count, chances, ends, time, by_life):
    """The row with the lowest priority, of equals the one that came first."""
    best, lowest = 0, np.inf
    for k in range(count):
        row = kept[k]
        # LIFE's priorities fall with time, each at its own pace, so no heap would stay in order.
        priority = chances[row] * (ends[row] - time) if by_life else chances[row]
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
