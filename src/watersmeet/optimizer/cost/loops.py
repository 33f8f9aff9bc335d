"""What nested loops over windows do: how many combinations reach each loop, and how many rows it compares.

GO03's model (comparisons only; insertion and expiry are counted elsewhere). Its running product

    carry_j = carry_{j-1} · |S_j| / max(V_{j-1}, v_j),   V_j = min(V_{j-1}, v_j)

comes to ∏|S| · min(v) / ∏v, the same for every order of the same streams: how many combinations of a *set* of
streams there are. So everything here is a function of the streams bound so far, a set, and of the next one. That
is what lets `join_order` search sets instead of orders. Sets are bits of an integer, by position in the graph.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence

from watersmeet.errors import WatersmeetError
from watersmeet.optimizer.cost.inputs import JoinGraph

Step = Callable[[int, int], float]  # (streams bound, next stream) -> cost of its loop


def along(order: Iterable[int], step: Step) -> float:
    """The cost of binding streams in an order, step by step."""
    bound, total = 0, 0.0
    for stream in order:
        total += step(bound, stream)
        bound |= 1 << stream
    return total


class Loops:
    """The loops that answer for new rows of `origin`: `new_rows` of them at once, `delay` after the first came.

    Eager evaluation has one new row and no delay. Every τ, there are λτ new rows, and the other windows must still
    hold what the oldest of them may meet, T + τ units of time. Without an origin, all are whole windows.

    drops_expired: what the new row, once bound, finds too old or too new goes no further, so that of a window T units
    are carried on, not the T + τ that were looked at. GO03's algorithms test that; its figures do not count it.
    """

    def __init__(
        self,
        graph: JoinGraph,
        origin: str | None,
        new_rows: float = 1.0,
        delay: float = 0.0,
        *,
        drops_expired: bool = False,
    ) -> None:
        self.graph = graph
        self.origin = None if origin is None else graph.position(origin)
        self.new = 0 if self.origin is None else 1 << self.origin
        self._new_rows = new_rows
        self._lengths = [one.window + delay for one in graph.streams]
        self._carried = [one.window for one in graph.streams] if drops_expired else self._lengths
        self._keys = [(key, _bits(graph, key.streams)) for key in graph.keys]
        self._measured = [_bits(graph, frozenset(key.frequencies)) for key in graph.keys]
        self._thetas = [(theta, _bits(graph, theta.streams)) for theta in graph.thetas]
        self._rows: dict[int, float] = {}
        self._matching: dict[int, float] = {}
        self._steps: dict[tuple[int, int], float] = {}

    def cost(self, order: Sequence[str]) -> float:
        """Comparisons of all loops, the first name outermost; its own loop compares nothing."""
        return along(self.graph.positions(order), self.step)

    def step(self, bound: int, stream: int) -> float:
        """Comparisons of the loop over `stream` inside those over `bound`."""
        # The outermost loop only reads.
        if not bound:
            return 0.0
        if (bound, stream) not in self._steps:
            compared = self.scanned(bound, stream) * self._tests_per_row(bound, stream)
            self._steps[bound, stream] = self.rows(bound) * compared
        return self._steps[bound, stream]

    def rows(self, bound: int) -> float:
        """The carry: combinations of the streams in `bound` that pass every predicate among them."""
        if bound not in self._rows:
            share = self.matching(bound) * math.prod(t.selectivity for t, bits in self._thetas if bits & bound == bits)
            self._rows[bound] = self._in_time(bound) * share
        return self._rows[bound]

    def scanned(self, bound: int, stream: int) -> float:
        """Rows of `stream` that one combination of `bound` is compared with: those in reach, in one bucket if
        an equality tells which."""
        return self._in_reach(bound, stream) * self._share_of_buckets(bound, stream)

    def matching(self, bound: int) -> float:
        """The share of combinations of `bound` that are equal on all keys."""
        if bound not in self._matching:
            names = [self.graph.names[stream] for stream in members(bound)]
            self._matching[bound] = math.prod(key.matching(names) for key, _ in self._keys)
        return self._matching[bound]

    def connected(self, bound: int, stream: int) -> bool:
        """Whether some predicate ties `stream` to streams in `bound`."""
        one = 1 << stream
        by_key = any(bits & bound and bits & one for _, bits in self._keys)
        return by_key or bool(self._complete(bound, stream))

    # ---- keys and predicates ----

    def _equal(self, bound: int, stream: int) -> float:
        """The share of rows of `stream` that equal a combination of `bound`."""
        before = self.matching(bound)
        return self.matching(bound | 1 << stream) / before if before else 0.0

    def _keyed(self, bound: int, stream: int) -> bool:
        return any(bits & bound and bits >> stream & 1 for _, bits in self._keys)

    def _share_of_buckets(self, bound: int, stream: int) -> float:
        """1/b; but a bucket holds at least what matches, so buckets beyond the number of values gain nothing.

        Uniform values fill buckets evenly, as the papers have it. Of skewed ones, those that do not match fall into
        the bucket by chance.
        """
        if not self._keyed(bound, stream):
            return 1.0
        evenly, equal = 1 / self.graph.streams[stream].buckets, self._equal(bound, stream)
        skewed = any(bits & (bound | 1 << stream) for bits in self._measured)
        return equal + (1 - equal) * evenly if skewed else max(evenly, equal)

    def _complete(self, bound: int, stream: int) -> list[tuple[float, float]]:
        """Cost and selectivity of the predicates that have all their streams once `stream` is bound."""
        one, now = 1 << stream, bound | 1 << stream
        return [(t.cost, t.selectivity) for t, bits in self._thetas if bits & one and bits & now == bits]

    def _tests_per_row(self, bound: int, stream: int) -> float:
        """Comparisons for one row scanned: its keys, then what rejects most for its cost. A row that nothing is
        tested on is looked at all the same."""
        tests = sorted(self._complete(bound, stream), key=_rank)
        if self._keyed(bound, stream):
            # Of the rows in the bucket, not of all.
            tests.insert(0, (1.0, self._equal(bound, stream) / self._share_of_buckets(bound, stream)))
        reached, total = 1.0, 0.0
        for cost, passing in tests:
            total += reached * cost
            reached *= passing
        return total if tests else 1.0

    # ---- time ----

    def _in_reach(self, bound: int, stream: int) -> float:
        """Rows of `stream` within the time that its window and the streams in `bound` leave it."""
        if stream == self.origin:
            return self._new_rows
        lengths = [self._distance(other, stream) for other in members(bound)]
        return self.graph.streams[stream].rate * min(self._lengths[stream], *lengths)

    def _in_time(self, bound: int) -> float:
        """Combinations of `bound` that fit in time, predicates aside.

        Rates times the volume of the times allowed. The distances along the shortest spanning tree multiply to no less
        than that, and to just that where the bounds in the tree imply all others, as windows of the streams and
        chains of DWINDOW do. The order in which streams were bound does not matter.
        """
        # Of the new rows the time is given; the others' lie somewhere before it.
        others = bound & ~self.new
        rates = math.prod(self.graph.streams[stream].rate for stream in members(others))
        # Only the new row's time tells which of the others have expired.
        lengths = self._carried if bound & self.new else self._lengths
        if not self.graph.bounds:
            # Without bounds between pairs each window is an interval of its own before the newest row.
            volume = math.prod(lengths[stream] for stream in members(others))
        else:
            volume = self._volume(bound, lengths)
        return (self._new_rows if bound & self.new else 1.0) * rates * volume

    def _volume(self, bound: int, lengths: Sequence[float]) -> float:
        # Prim's algorithm: each time the stream with the shortest distance to those in the tree.
        nearest = {stream: lengths[stream] for stream in members(bound & ~self.new)}
        if self.origin is not None and bound & self.new:
            nearest = self._nearer(nearest, self.origin)
        volume = 1.0
        while nearest:
            stream = min(nearest, key=nearest.__getitem__)
            volume *= nearest.pop(stream)
            nearest = self._nearer(nearest, stream)
        return volume

    def _nearer(self, nearest: dict[int, float], to: int) -> dict[int, float]:
        return {stream: min(length, self._distance(to, stream)) for stream, length in nearest.items()}

    def _distance(self, one: int, other: int) -> float:
        """The length of the interval in which `other` may lie, given `one`; nothing is later than the origin."""
        a, b = self.graph.names[one], self.graph.names[other]
        before, after = self.graph.bounds.get((b, a), math.inf), self.graph.bounds.get((a, b), math.inf)
        # The model takes rows to come in the order of time, so what a new one meets is not later.
        if one == self.origin:
            after = min(after, 0.0)
        elif other == self.origin:
            before = min(before, 0.0)
        return max(before + after, 0.0)


def lazy_loops(graph: JoinGraph, origin: str, interval: float, *, drops_expired: bool = False) -> Loops:
    """The loops for the new rows of `origin`, run once in `interval` (τ)."""
    if interval <= 0:
        raise WatersmeetError(f"the interval of lazy evaluation is {interval:g}; it must be above 0")
    rate = graph.streams[graph.position(origin)].rate
    return Loops(graph, origin, new_rows=rate * interval, delay=interval, drops_expired=drops_expired)


def _rank(test: tuple[float, float]) -> float:
    cost, passing = test
    # Sorted by this, the expected cost of the tests is least: what rejects most for its cost comes first.
    return (passing - 1) / cost if cost else -math.inf


def _bits(graph: JoinGraph, names: frozenset[str]) -> int:
    return sum(1 << graph.position(name) for name in names)


def members(bound: int) -> Iterator[int]:
    """The positions of the streams in a set."""
    stream = 0
    while bound >> stream:
        if bound >> stream & 1:
            yield stream
        stream += 1
