"""Joins of a few small streams: a shelf made of arrays, ways to feed an algorithm, and the answer by brute force."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise, product

import numpy as np

from watersmeet.errors import WindowError
from watersmeet.model.time import FOREVER_US
from watersmeet.model.windows import Bound, Choice, close
from watersmeet.operators.kernels.memory import address
from watersmeet.papers.joins.contract import FIRST_CODE, Algorithm, ArrivedRows, Int64s, Work
from watersmeet.papers.joins.description import JoinDescription, Predicate, TimeAlternative, TimeConstraint

NAMES = "abcdefgh"
CODES = 2
RUBBISH = -(10**15)
COMPARE: dict[str, Callable[[Int64s, Int64s], np.ndarray]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip

Answer = Counter[tuple[int, ...]]


@dataclass(frozen=True)
class Case:
    """A join, and for each stream its times, CODES rows of codes and, for a ROWS window, its deaths."""

    bounds: tuple[Bound, ...]
    choices: tuple[Choice, ...]
    predicates: tuple[Predicate, ...]
    times: tuple[Int64s, ...]
    codes: tuple[Int64s, ...]
    rows: tuple[int | None, ...] = ()  # the size of each ROWS window
    partitioned: bool = False  # whether these count for each value of the first code

    @property
    def inputs(self) -> int:
        return len(self.times)

    @property
    def description(self) -> JoinDescription:
        return describe_bounds(self.inputs, self.bounds, self.choices, self.predicates, self.counted)

    @property
    def counted(self) -> tuple[int, ...]:
        return tuple(i for i, size in enumerate(self.rows) if size)

    def deaths(self, i: int) -> Int64s:
        """The time of the n-th row after each, or of the n-th with the same first code."""
        deaths = np.full(self.times[i].size, FOREVER_US, np.int64)
        size = self.rows[i] if self.rows else None
        keys = self.codes[i][0] if self.partitioned else np.zeros(deaths.size)
        for key in set(keys.tolist()) if size else ():
            mine = np.flatnonzero(keys == key)
            deaths[mine[:-size]] = self.times[i][mine[size:]]
        return deaths

    def answer(self) -> Answer:
        """Every combination against every constraint as it was written."""
        serials = [grid.ravel() for grid in np.meshgrid(*(np.arange(t.size) for t in self.times), indexing="ij")]
        time = {NAMES[i]: self.times[i][serials[i]] for i in range(self.inputs)}

        def hold(bounds: Iterable[Bound]) -> np.ndarray:
            fine = np.ones(serials[0].size, bool)
            for b in bounds:
                fine &= time[b.later] - time[b.earlier] <= b.at_most_us
            return fine

        fine = hold(self.bounds)
        for choice in self.choices:
            fine &= np.any([hold(alternative) for alternative in choice.alternatives], axis=0)
        for p in self.predicates:
            left, right = self.codes[p.left][p.left_code], self.codes[p.right][p.right_code]
            fine &= COMPARE[p.operator](left[serials[p.left]], right[serials[p.right]])
        newest = np.max(list(time.values()), axis=0)
        for i in self.counted:
            fine &= newest < self.deaths(i)[serials[i]]
        return Counter(zip(*(column[fine].tolist() for column in serials), strict=True))


def describe_bounds(
    inputs: int,
    bounds: Sequence[Bound],
    choices: Sequence[Choice] = (),
    predicates: Sequence[Predicate] = (),
    counted: Sequence[int] = (),
) -> JoinDescription:
    names = NAMES[:inputs]
    alternatives: dict[object, TimeAlternative] = {}
    for chosen in product(*(choice.alternatives for choice in choices)):
        together = (*bounds, *chain(*chosen))
        try:
            (limits,) = close(names, together).alternatives
        except WindowError:
            continue
        written = (TimeConstraint(names.index(b.earlier), names.index(b.later), b.at_most_us) for b in together)
        alternatives.setdefault(limits, TimeAlternative(limits, tuple(written)))
    if not alternatives:
        raise WindowError("no alternative makes sense")
    return JoinDescription(inputs, tuple(alternatives.values()), tuple(predicates), tuple(counted))


def equal_keys(inputs: int, *, closed: bool = True) -> tuple[Predicate, ...]:
    """The first code equal everywhere; `closed` says so for all pairs, otherwise along a chain."""
    pairs = [(u, v) for v in range(inputs) for u in range(v) if closed or u == v - 1]
    return tuple(Predicate(u, 0, "eq", v, 0) for u, v in pairs)


def simple_case(
    bounds: Sequence[Bound],
    times: Sequence[Sequence[int]],
    keys: Sequence[Sequence[int]] | None = None,
    choices: Sequence[Choice] = (),
) -> Case:
    """Streams joined by one key, all equal unless given."""
    moments = tuple(np.array(t, np.int64) for t in times)
    codes = tuple(np.zeros((CODES, t.size), np.int64) for t in moments)
    for own, key in zip(codes, keys or (), strict=False):
        own[0] = key
    return Case(tuple(bounds), tuple(choices), equal_keys(len(times)), moments, codes)


# ---- orders of arrival ----------------------------------------------------------------------------------------------


def arrivals_of(case: Case, streams: Sequence[int]) -> ArrivedRows:
    """The rows in the order in which `streams` names their streams."""
    order = np.array(streams, np.int64)
    serials = np.zeros(order.size, np.int64)
    times = np.zeros(order.size, np.int64)
    for i in range(case.inputs):
        mine = order == i
        serials[mine] = np.arange(int(mine.sum()))
        times[mine] = case.times[i][: int(mine.sum())]
    return ArrivedRows(order, serials, times)


def merged(case: Case) -> ArrivedRows:
    """In time order over all streams, ties by place."""
    streams = np.concatenate([np.full(t.size, i) for i, t in enumerate(case.times)])
    times = np.concatenate(case.times)
    return arrivals_of(case, streams[np.lexsort((streams, times))])


def round_robin(case: Case) -> ArrivedRows:
    """One row of each stream in turn; a stream that has none is passed over."""
    longest = max(t.size for t in case.times)
    return arrivals_of(case, [i for n in range(longest) for i, t in enumerate(case.times) if n < t.size])


def shuffled(case: Case, rng: np.random.Generator) -> ArrivedRows:
    """Any interleaving of the streams."""
    streams = np.concatenate([np.full(t.size, i) for i, t in enumerate(case.times)])
    return arrivals_of(case, rng.permutation(streams))


def part(arrivals: ArrivedRows, start: int, stop: int) -> ArrivedRows:
    return ArrivedRows(arrivals.streams[start:stop], arrivals.serials[start:stop], arrivals.times[start:stop])


# ---- feeding --------------------------------------------------------------------------------------------------------


class Shelf:
    """The rows of a case as kernels read them. `forget` puts others that might match where rows were given up."""

    def __init__(self, case: Case) -> None:
        # one place more, as an empty stream has an address too
        self.times = [np.append(t, RUBBISH) for t in case.times]
        self.codes = [np.pad(c, ((0, 0), (0, 1)), constant_values=RUBBISH) for c in case.codes]
        self.deaths = [np.append(case.deaths(i), RUBBISH) if i in case.counted else None for i in range(case.inputs)]
        self.table = np.zeros((case.inputs, FIRST_CODE + CODES), np.int64)
        for i, row in enumerate(self.table):
            deaths = self.deaths[i]
            row[:FIRST_CODE] = address(self.times[i]), 0 if deaths is None else address(deaths)
            row[FIRST_CODE:] = [address(code) for code in self.codes[i]]

    def forget(self, algorithm: Algorithm, now: int) -> None:
        for i, deaths in enumerate(self.deaths):
            oldest = algorithm.oldest_needed(i)
            self.times[i][:oldest] = now
            self.codes[i][:, :oldest] = 0
            if deaths is not None:
                deaths[:oldest] = FOREVER_US


def feed(algorithm: Algorithm, shelf: Shelf, arrivals: ArrivedRows, cuts: Sequence[int] = ()) -> Answer:
    """What the arrivals, in pieces cut there, are answered with."""
    found: Answer = Counter()
    edges = [0, *sorted(cuts), len(arrivals)]
    for start, stop in pairwise(edges):
        for piece in algorithm.arrive(part(arrivals, start, stop), shelf.table):
            found.update(zip(*piece.tolist(), strict=True))
        if stop:
            shelf.forget(algorithm, int(arrivals.times[stop - 1]))
    return found


def finish(algorithm: Algorithm, shelf: Shelf) -> Answer:
    found: Answer = Counter()
    for piece in algorithm.finish(shelf.table):
        found.update(zip(*piece.tolist(), strict=True))
    return found


def work_of(algorithm: Algorithm, case: Case, now: int) -> Work:
    """The counts; for what is held, the rows as they were before any was forgotten."""
    shelf = Shelf(case)
    return algorithm.work(now, shelf.table)


def run(algorithm: Algorithm, case: Case, arrivals: ArrivedRows | None = None, cuts: Sequence[int] = ()) -> Answer:
    """The whole answer."""
    shelf = Shelf(case)
    found = feed(algorithm, shelf, merged(case) if arrivals is None else arrivals, cuts)
    return found + finish(algorithm, shelf)
