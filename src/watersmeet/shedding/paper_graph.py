"""DGR03's own flow graph (section 3.2), with a node per row and instant of its life: a check on optimum.py.

It has about 2wN nodes, so it is for small inputs. Two differences from the figure: start-up nodes are not merged, and
memory that is not in use flows along an idle chain, from which any arrival may be admitted and to which any row may be
dropped. So every memory size is feasible and the optimum stays the same.
"""

from __future__ import annotations

import numpy as np

from watersmeet.errors import DataError
from watersmeet.shedding.arrivals import Arrivals, Numbers
from watersmeet.shedding.kernels.flow import cheapest
from watersmeet.shedding.optimum import Allocation, sizes_of


def paper_optimum(arrivals: Arrivals, memory: int, allocation: Allocation = "variable") -> int:
    """OPT-offline for one row of each stream per tick.

    >>> from watersmeet.shedding.arrivals import one_per_tick
    >>> streams = one_per_tick([1, 1, 1, 3, 2], [2, 3, 1, 1, 3], window=3)
    >>> paper_optimum(streams, 2, "fixed"), paper_optimum(streams, 2, "variable")
    (5, 6)
    """
    keys = _keys_by_tick(arrivals)
    sizes = sizes_of(memory, allocation)
    sharing = ((0, 1),) if len(sizes) == 1 else ((0,), (1,))
    found = (_found(arrivals, keys, streams, size) for streams, size in zip(sharing, sizes, strict=True))
    return arrivals.free_results + sum(found)


def _keys_by_tick(arrivals: Arrivals) -> Numbers:
    ticks = len(arrivals) // 2
    regular = np.array_equal(arrivals.times, np.repeat(np.arange(ticks), 2)) and not arrivals.one_by_one
    if not regular or not np.array_equal(arrivals.streams, np.tile([0, 1], ticks)):
        raise DataError("the paper's graph is for one row of each stream per tick, such as one_per_tick makes")
    return arrivals.keys.reshape(ticks, 2).T


def _found(arrivals: Arrivals, keys: Numbers, streams: tuple[int, ...], memory: int) -> int:
    """What the rows of these streams find while in a memory that they share."""
    if not memory or not keys.size:
        return 0
    ticks, widest = keys.shape[1], max(arrivals.windows)
    x, i, age = (axis.ravel() for axis in np.meshgrid(streams, np.arange(ticks), np.arange(widest), indexing="ij"))
    j = i + age
    lives = (age < np.asarray(arrivals.windows)[x]) & (j < ticks)
    x, i, j, age = x[lives], i[lives], j[lives], age[lives]
    held, idle, sink = _numbering(x, i, j, ticks, widest)

    node = held[x, i, age]
    survives = np.flatnonzero((j + 1 < ticks) & (age + 1 < np.asarray(arrivals.windows)[x]))
    meets = keys[1 - x[survives], j[survives] + 1] == keys[x[survives], i[survives]]
    counts = j[survives] + 1 >= arrivals.first_counted
    old, new, ending = np.flatnonzero(j > i), np.flatnonzero(j == i), np.flatnonzero(j == ticks - 1)

    arcs = [
        (node[survives], held[x[survives], i[survives], age[survives] + 1], -1 * (meets & counts)),
        *((node[old], held[y, j[old], 0], 0) for y in streams),  # replaced by a new row of any of them
        (node[old], idle[j[old]], 0),
        (idle[i[new]], node[new], 0),
        (node[ending], np.full(ending.size, sink), 0),
    ]
    waiting = np.append(idle[1:], sink)
    tails = np.concatenate([*(tail for tail, _, _ in arcs), idle])
    heads = np.concatenate([*(head for _, head, _ in arcs), waiting])
    costs = np.concatenate([*(np.broadcast_to(cost, tail.shape) for tail, _, cost in arcs), np.zeros_like(idle)])
    limits = np.where(np.arange(tails.size) < tails.size - ticks, 1, memory)
    _, prices = cheapest(sink + 1, tails, heads, costs, limits, memory)
    return int(-prices.sum())


def _numbering(x: Numbers, i: Numbers, j: Numbers, ticks: int, widest: int) -> tuple[Numbers, Numbers, int]:
    """Node numbers in the order of time; at one tick the rows held before, then idle memory, then the new rows."""
    order = np.argsort(np.concatenate([3 * j + np.where(j > i, 0, 2), 3 * np.arange(ticks) + 1]), kind="stable")
    numbers = np.empty_like(order)
    numbers[order] = np.arange(order.size)
    held = np.full((2, ticks, widest), -1)
    held[x, i, j - i] = numbers[: x.size]
    return held, numbers[x.size :], order.size
