"""Where along a route combinations are best tested on the conditions that indexes and kernels cannot test.

A condition may be tested as soon as all its columns are bound. Early, it keeps combinations from the loops inside;
late, it is tested on the few that the others have left. What is best follows from its price and from how many pass:
GO03 (section 5.4) has expensive predicates near the top, to minimize what the inner loops do.

The search is the one over sets of streams (`join_order`), in which a test is a step like binding a stream: what either
costs depends on which streams are bound and which conditions were tested, in whatever order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from watersmeet.dataclass import dataclass
from watersmeet.optimizer.cost.loops import members
from watersmeet.optimizer.cost.walk import Walk
from watersmeet.optimizer.join_order import cheapest, permitted
from watersmeet.physical.estimate import Known
from watersmeet.plan.expressions import Expression

# As measured: to have a combination wait for its test, and to go on with it afterwards.
WAITED_NS = 25.0
GONE_ON_NS = 45.0
# Of so many conditions all ways are tried; others are tested on whole combinations.
MOST_EARLY = 5

Following = Callable[[int], Sequence[int]]


@dataclass(frozen=True)
class Condition:
    """A condition on the streams in `bits`: the share of combinations that pass, and what the test of one takes."""

    expression: Expression
    bits: int
    passing: float
    ns: float
    passing_known: Known = "assumed"
    price_known: Known = "assumed"
    early: bool = True  # whether combinations may be tested on their way


@dataclass(frozen=True)
class Leg:
    """A stream that is bound next, and the conditions that are tested then, before the next one."""

    stream: int
    then: tuple[Condition, ...] = ()


class SiftedWalk:
    """The loops for a new row, with conditions between them and at the end."""

    def __init__(self, walk: Walk, conditions: Sequence[Condition]) -> None:
        self.walk = walk
        self.everything = (1 << len(walk.graph.streams)) - 1
        may = [one for one in conditions if one.early and one.bits != self.everything and one.passing < 1]
        # Those that leave least for their price, if there are too many.
        self.early = sorted(may, key=lambda one: (one.passing - 1) / max(one.ns, 1.0))[:MOST_EARLY]
        self.conditions = list(conditions)

    def may_follow(self, bound: int) -> list[int]:
        """The streams that may come next: those tied to the bound ones by a predicate, or by a condition that can be
        tested then, if there are any."""
        ready = [one.bits for one in self.early if one.bits & bound]
        unbound = [stream for stream in members(self.everything) if not bound >> stream & 1]
        by_test = {stream for bits in ready for stream in unbound if bits & (bound | 1 << stream) == bits}
        return [one for one in unbound if one in by_test or self.walk.connected(bound, one)] or unbound

    def best(self, following: Following) -> list[Leg]:
        """The cheapest way to bind all streams and test all conditions. following: the streams that may come next."""
        first = self.walk.new
        best: dict[tuple[int, int], tuple[float, tuple[int, ...]]] = {(first, 0): (0.0, ())}
        for bound in range(first, self.everything):  # a set comes after all its subsets
            for tested in range(1 << len(self.early)):
                if (bound, tested) not in best:
                    continue
                cost, path = best[bound, tested]
                ways = [(bound, tested | 1 << i, ~i, self._test_ns(bound, tested, i)) for i in self._due(bound, tested)]
                ways += [(bound | 1 << one, tested, one, self._step_ns(bound, tested, one)) for one in following(bound)]
                for *reached, taken, ns in ways:
                    state, total = (reached[0], reached[1]), cost + ns
                    if state not in best or total < best[state][0]:
                        best[state] = total, (*path, taken)
        ends = (
            (cost + self._end_ns(tested), path) for (bound, tested), (cost, path) in best.items() if self._all(bound)
        )
        return list(self._legs(min(ends)[1]))

    def along(self, order: Sequence[int]) -> list[Leg]:
        """The cheapest places of the conditions in an order of all streams, the new row's first."""
        bound, following = 1 << order[0], {}
        for stream in order[1:]:
            following[bound] = (stream,)
            bound |= 1 << stream
        return self.best(lambda bound: following.get(bound, ()))

    def as_asked(self, order: Sequence[int], then: Sequence[Sequence[Expression]]) -> list[Leg]:
        """The legs of a route that tests conditions where it does."""
        return [
            Leg(stream, tuple(one for one in self.conditions if one.expression in tests))
            for stream, tests in zip(order[1:], then, strict=True)
        ]

    def costs(self, legs: Sequence[Leg]) -> Iterator[tuple[Leg, float, float, float]]:
        """Of each leg in turn: the share of its combinations that earlier tests have left, what it takes with its
        tests, and the share that they leave. With the last one come the conditions on whole combinations."""
        bound, share = self.walk.new, 1.0
        tested: list[Condition] = []
        for leg in legs:
            before, ns = share, share * self.walk.step(bound, leg.stream)
            bound |= 1 << leg.stream
            for one in leg.then:
                ns += self._tested_ns(bound, share, one)
                share *= one.passing
            tested += leg.then
            if self._all(bound):
                ns += self._whole_ns(share, [one for one in self.conditions if one not in tested])
            yield leg, before, ns, share

    def _legs(self, path: Sequence[int]) -> Iterator[Leg]:
        places = [place for place, one in enumerate(path) if one >= 0]
        for place, end in zip(places, (*places[1:], len(path)), strict=True):
            then = {self.early[~one].expression for one in path[place + 1 : end]}
            # In the order in which they were written, as one may guard another.
            yield Leg(path[place], tuple(one for one in self.conditions if one.expression in then))

    def _all(self, bound: int) -> bool:
        return bound == self.everything

    def _due(self, bound: int, tested: int) -> list[int]:
        return [i for i, one in enumerate(self.early) if one.bits & bound == one.bits and not tested >> i & 1]

    def _share(self, tested: int) -> float:
        return math.prod(self.early[i].passing for i in members(tested))

    def _step_ns(self, bound: int, tested: int, stream: int) -> float:
        return self._share(tested) * self.walk.step(bound, stream)

    def _test_ns(self, bound: int, tested: int, i: int) -> float:
        return self._tested_ns(bound, self._share(tested), self.early[i])

    def _tested_ns(self, bound: int, share: float, one: Condition) -> float:
        return self.walk.rows(bound) * share * (one.ns + WAITED_NS + one.passing * GONE_ON_NS)

    def _end_ns(self, tested: int) -> float:
        early = [self.early[i] for i in members(tested)]
        return self._whole_ns(self._share(tested), [one for one in self.conditions if one not in early])

    def _whole_ns(self, share: float, left: Sequence[Condition]) -> float:
        total, rows = 0.0, self.walk.rows(self.everything) * share
        for one in left:
            total += rows * one.ns
            rows *= one.passing
        return total


def cheapest_legs(walk: Walk, conditions: Sequence[Condition]) -> list[Leg]:
    """The cheapest order of a new row's loops, and where conditions are tested along it."""
    tested = SiftedWalk(walk, conditions)
    if tested.early:
        return tested.best(tested.may_follow)
    order = cheapest(walk.graph, walk.step, walk.origin, lambda bound: permitted(walk, bound))
    return [Leg(walk.graph.position(name)) for name in order[1:]]


def legs_along(walk: Walk, conditions: Sequence[Condition], order: Sequence[str]) -> list[Leg]:
    """The cheapest places of conditions in an order."""
    tested, positions = SiftedWalk(walk, conditions), walk.graph.positions(order)
    return tested.along(positions) if tested.early else [Leg(stream) for stream in positions[1:]]
