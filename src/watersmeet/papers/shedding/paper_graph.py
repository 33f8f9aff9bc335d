"""DGR03's own flow graph (section 3.2), with a node per row and instant of its life: a check on optimum.py.

It has about 2wN nodes, so it is for small inputs. Two differences from the figure: start-up nodes are not merged, and
memory that is not in use flows along an idle chain, from which any arrival may be admitted and to which any row may be
dropped. So every memory size is feasible and the optimum stays the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from watersmeet.errors import DataError
from watersmeet.papers.shedding.arrivals import Arrivals, Numbers
from watersmeet.papers.shedding.kernels.flow import cheapest
from watersmeet.papers.shedding.optimum import Allocation, sizes_of


def paper_optimum(arrivals: Arrivals, memory: int, allocation: Allocation = "variable") -> int:
    """OPT-offline for one row of each stream per tick.

    >>> from watersmeet.papers.shedding.arrivals import one_per_tick
    >>> streams = one_per_tick([1, 1, 1, 3, 2], [2, 3, 1, 1, 3], window=3)
    >>> paper_optimum(streams, 2, "fixed"), paper_optimum(streams, 2, "variable")
    (5, 6)
    """
    keys = keys_by_tick(arrivals)
    sizes = sizes_of(memory, allocation)
    sharing = ((0, 1),) if len(sizes) == 1 else ((0,), (1,))
    found = (_found(arrivals, keys, streams, size) for streams, size in zip(sharing, sizes, strict=True))
    return arrivals.free_results + sum(found)


def keys_by_tick(arrivals: Arrivals) -> Numbers:
    ticks = len(arrivals) // 2
    regular = np.array_equal(arrivals.times, np.repeat(np.arange(ticks), 2)) and not arrivals.one_by_one
    if not regular or not np.array_equal(arrivals.streams, np.tile([0, 1], ticks)):
        raise DataError("the paper's graph is for one row of each stream per tick, such as one_per_tick makes")
    return arrivals.keys.reshape(ticks, 2).T


class _Nodes(NamedTuple):
    """Row i of stream x in memory while tick j is joined, for all of these; and the numbers of the nodes."""

    x: Numbers
    i: Numbers
    j: Numbers
    held: Numbers  # [x, i, j − i]
    idle: Numbers  # [j]
    sink: int


def _found(arrivals: Arrivals, keys: Numbers, streams: tuple[int, ...], memory: int) -> int:
    """What the rows of these streams find while in a memory that they share."""
    if not memory or not keys.size:
        return 0
    nodes = _nodes(streams, np.asarray(arrivals.windows), keys.shape[1])
    tails, heads = zip(*_arcs(nodes, streams), strict=True)
    meets = _meets(nodes, keys, arrivals.first_counted)
    costs = np.concatenate([-1 * meets, np.zeros(sum(map(len, tails[1:])), np.int64)])
    limits = np.ones_like(costs)
    # The idle chain, whose arcs come last, takes any amount of memory; all other arcs take one row.
    limits[-len(tails[-1]) :] = memory
    _, prices = cheapest(nodes.sink + 1, np.concatenate(tails), np.concatenate(heads), costs, limits, memory)
    return int(-prices.sum())


def _nodes(streams: tuple[int, ...], windows: Numbers, ticks: int) -> _Nodes:
    """Nodes are numbered in the order of time; at one tick the rows held before, then idle memory, then new rows."""
    widest = int(windows.max())
    axes = np.meshgrid(streams, np.arange(ticks), np.arange(widest), indexing="ij")
    x, i, age = (axis.ravel() for axis in axes)
    lives = (age < windows[x]) & (i + age < ticks)
    x, i, j = x[lives], i[lives], (i + age)[lives]
    order = np.argsort(np.concatenate([3 * j + np.where(j > i, 0, 2), 3 * np.arange(ticks) + 1]), kind="stable")
    numbers = np.empty_like(order)
    numbers[order] = np.arange(order.size)
    # One tick wider than any life, so that looking up the next tick of a row finds -1 at its end.
    held = np.full((2, ticks, widest + 1), -1)
    held[x, i, j - i] = numbers[: x.size]
    return _Nodes(x, i, j, held, numbers[x.size :], order.size)


def _surviving(nodes: _Nodes) -> Numbers:
    """The nodes after which the row can be in memory for another tick."""
    return np.flatnonzero(nodes.held[nodes.x, nodes.i, nodes.j - nodes.i + 1] >= 0)


def _meets(nodes: _Nodes, keys: Numbers, first_counted: int) -> npt.NDArray[np.bool_]:
    """Whether a row that survives finds a result that counts at the next tick."""
    here = _surviving(nodes)
    x, i, then = nodes.x[here], nodes.i[here], nodes.j[here] + 1
    found: npt.NDArray[np.bool_] = (keys[1 - x, then] == keys[x, i]) & (then >= first_counted)
    return found


def _arcs(nodes: _Nodes, streams: tuple[int, ...]) -> Iterator[tuple[Numbers, Numbers]]:
    """Tails and heads: a row survives, is replaced by a new one of any of the streams, is dropped, is admitted, is
    there at the end; and idle memory waits."""
    x, i, j, held, idle, sink = nodes
    node = held[x, i, j - i]
    here = _surviving(nodes)
    old, new, end = np.flatnonzero(j > i), np.flatnonzero(j == i), np.flatnonzero(j == idle.size - 1)
    yield node[here], held[x, i, j - i + 1][here]
    for y in streams:
        yield node[old], held[y, j[old], 0]
    yield node[old], idle[j[old]]
    yield idle[i[new]], node[new]
    yield node[end], np.full(end.size, sink)
    yield idle, np.append(idle[1:], sink)
