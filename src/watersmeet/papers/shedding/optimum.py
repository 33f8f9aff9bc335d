"""DGR03's OPT-offline: the most results any strategy can find in a given memory, when all arrivals are known.

The paper's flow graph has a node per row and instant of its life (paper_graph.py). Rows of one stream and one key
are worth the same except that newer ones live longer, so it never hurts to hold the newest; what matters is only how
many of them are held. So this graph has

- a timeline: a node per instant; what flows along it is memory not in use;
- a chain for each stream and key: a node per instant at which partners arrive. What flows into it is the number of
  rows held then; each unit finds all those partners. Units enter from the timeline where a row arrives (capacity 1),
  stay from node to node (capacity: the older rows that still live), and leave to the timeline after the join.

With N rows in each stream that is at most 3N nodes. Successive shortest paths send one row's worth of memory after
another, each at the best price left, so one run gives the optimum for every memory up to the one asked for.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from watersmeet.dataclass import dataclass
from watersmeet.errors import DataError
from watersmeet.papers.shedding.arrivals import Arrivals, Numbers
from watersmeet.papers.shedding.kernels.chains import events_of, keep_newest
from watersmeet.papers.shedding.kernels.flow import cheapest

Allocation = Literal["fixed", "variable"]


@dataclass(frozen=True, eq=False)
class Optimum:
    """The most results, and for each row the last instant at which it must be in memory to find them."""

    results: int
    until: Numbers


def optimum(arrivals: Arrivals, memory: int | tuple[int, int], allocation: Allocation = "variable") -> Optimum:
    """The best that can be done with `memory` rows; fixed allocation halves it, or takes a size for each stream.

    >>> from watersmeet.papers.shedding.arrivals import one_per_tick
    >>> streams = one_per_tick([1, 1, 1, 3, 2], [2, 3, 1, 1, 3], window=3)
    >>> optimum(streams, 2, "fixed").results, optimum(streams, 2, "variable").results
    (5, 6)
    """
    sizes = sizes_of(memory, allocation)
    if len(sizes) == 1:
        _, until = _solve(arrivals, (0, 2), sizes[0])
    else:
        # each solution leaves the rows of the other stream at their own instant
        until = np.maximum(_solve(arrivals, (0, 1), sizes[0])[1], _solve(arrivals, (1, 2), sizes[1])[1])
    return Optimum(arrivals.results(until), until)


def optimum_curve(arrivals: Arrivals, memory: int, allocation: Allocation = "variable") -> Numbers:
    """The optimum for every memory from 0 to `memory` rows.

    >>> from watersmeet.papers.shedding.arrivals import one_per_tick
    >>> streams = one_per_tick([1, 1, 1, 3, 2], [2, 3, 1, 1, 3], window=3)
    >>> optimum_curve(streams, 4).tolist()
    [1, 4, 6, 7, 7]
    """
    sizes = np.arange(memory + 1)
    if len(sizes_of(memory, allocation)) == 1:
        return arrivals.free_results + _at(_solve(arrivals, (0, 2), memory)[0], sizes)
    # Streams with memories of their own do not compete, so each has its curve and the two add up.
    first, second = (_solve(arrivals, (x, x + 1), memory - memory // 2)[0] for x in (0, 1))
    return arrivals.free_results + _at(first, sizes // 2) + _at(second, sizes - sizes // 2)


def _at(curve: Numbers, sizes: Numbers) -> Numbers:
    """A curve at some sizes; beyond its end it is flat."""
    found: Numbers = curve[np.minimum(sizes, curve.size - 1)]
    return found


def sizes_of(memory: int | tuple[int, int], allocation: Allocation) -> tuple[int, ...]:
    """The size of the memory that is shared, or of each stream's. An odd row goes to the second stream."""
    if allocation not in ("fixed", "variable"):
        raise DataError(f"allocation is 'fixed' or 'variable', but {allocation!r} was given")
    if not isinstance(memory, tuple):
        sizes: tuple[int, ...] = (memory,) if allocation == "variable" else (memory // 2, memory - memory // 2)
    elif allocation == "variable":
        raise DataError("variable allocation shares one memory; give one number of rows, or allocation='fixed'")
    else:
        sizes = memory
    if min(sizes) < 0:
        raise DataError(f"memory is a number of rows, 0 or more, but {min(sizes)} was given")
    return sizes


class _Events(NamedTuple):
    """The nodes of the chains, as kernels/chains.py lists them; `rows` are sorted by chain."""

    rows: Numbers
    instant_of: Numbers
    gains: Numbers
    stayers: Numbers
    places: Numbers
    entering: Numbers
    entered: Numbers


class _Arcs(NamedTuple):
    tails: Numbers
    heads: Numbers
    costs: Numbers
    limits: Numbers


def _solve(arrivals: Arrivals, streams: tuple[int, int], memory: int) -> tuple[Numbers, Numbers]:
    """For the streams from the first up to the second: the results beyond the free ones for each memory, and `until`
    for the largest. Fewer memories have results than asked for if more would not help."""
    until = arrivals.instants.copy()
    events = _events(arrivals, streams)
    if not events.instant_of.size:
        return np.zeros(1, np.int64), until
    staying = np.flatnonzero(events.stayers)
    nodes = arrivals.instant_times.size + events.instant_of.size
    units = min(memory, len(arrivals))  # more rows than there are cannot be held
    flow, prices = cheapest(nodes, *_arcs(arrivals, events, staying, units), units)
    enter, stay = flow[: events.entered.size], flow[events.entered.size :][: staying.size]
    held = np.bincount(events.entered, enter, events.instant_of.size).astype(np.int64)
    held[staying] += stay
    keep_newest(events.rows, events.instant_of, events.places, held, until)
    return np.cumsum(np.append(0, -prices)), until


def _events(arrivals: Arrivals, streams: tuple[int, int]) -> _Events:
    rows = np.argsort(arrivals.chains, kind="stable")
    starts = np.searchsorted(arrivals.chains[rows], np.arange(2 * arrivals.key_count + 1))
    listed = events_of(
        rows, starts, arrivals.key_count, arrivals.instants, arrivals.last, arrivals.first_counted, *streams
    )
    return _Events(rows, *listed)


def _arcs(arrivals: Arrivals, events: _Events, staying: Numbers, units: int) -> _Arcs:
    """The arcs by which units enter chains, stay in them, leave them, and wait on the timeline, in this order."""
    at, on_chain = _numbering(arrivals.instant_times.size, events.instant_of)
    leave, wait = np.zeros_like(on_chain), np.zeros_like(at[1:])
    return _Arcs(
        # The events of a chain are listed one after the other, so the event before is the number before; where rows can
        # stay there is one.
        np.concatenate([at[arrivals.instants[events.entering]], on_chain[staying - 1], on_chain, at[:-1]]),
        np.concatenate([on_chain[events.entered], on_chain[staying], at[events.instant_of], at[1:]]),
        np.concatenate([-events.gains[events.entered], -events.gains[staying], leave, wait]),
        np.concatenate([np.ones_like(events.entered), events.stayers[staying], leave + units, wait + units]),
    )


def _numbering(instants: int, instant_of: Numbers) -> tuple[Numbers, Numbers]:
    """Node numbers of the timeline and of the events: in the order of time, at one instant the events first."""
    # A unit that leaves a chain is on the timeline at the same instant and may hold a row that came then: events first.
    order = np.argsort(np.concatenate([2 * np.arange(instants) + 1, 2 * instant_of]), kind="stable")
    numbers = np.empty_like(order)
    numbers[order] = np.arange(order.size)
    return numbers[:instants], numbers[instants:]
