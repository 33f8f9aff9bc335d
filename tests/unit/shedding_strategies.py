"""Random arrivals, and what every strategy could do with them, tried out one by one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from watersmeet.papers.shedding.arrivals import Arrivals, Numbers, one_per_tick

EXAMPLE = one_per_tick([1, 1, 1, 3, 2], [2, 3, 1, 1, 3], window=3)  # DGR03, section 3.2


def on_ticks(rng: np.random.Generator, ticks: int, keys: int, window: int, counted_from: int | None = None) -> Arrivals:
    return one_per_tick(
        rng.integers(0, keys, ticks), rng.integers(0, keys, ticks), window=window, counted_from=counted_from
    )


def at_any_time(rng: np.random.Generator, rows: int, keys: int) -> Arrivals:
    """Gaps, ties, different rates and windows, and results that do not count."""
    times = np.sort(rng.integers(0, rng.integers(2, 2 * rows), rows))
    return Arrivals(
        times,
        (rng.random(rows) < rng.uniform(0.2, 0.8)).astype(np.int64),
        rng.integers(0, keys, rows),
        (int(rng.integers(1, 2 * rows)), int(rng.integers(1, 2 * rows))),
        counted_from=None if rng.random() < 0.6 else int(rng.integers(0, rows)),
        one_by_one=bool(rng.random() < 0.3),
    )


def zipf(rng: np.random.Generator, rows: int, keys: int = 50, parameter: float = 1.0) -> Numbers:
    """Keys by Zipf's law, ranked at random: two streams made so are uncorrelated."""
    chances = np.arange(1, keys + 1) ** -parameter
    drawn: Numbers = rng.permutation(keys)[rng.choice(keys, rows, p=chances / chances.sum())]
    return drawn


def meet(given: Arrivals, older: int, newer: int) -> bool:
    """Whether two rows join and count; `older` comes first in the order of rows."""
    age = given.times[newer] - given.times[older]
    counts = given.counted_from is None or given.times[newer] >= given.counted_from
    same_instant = given.instants[newer] == given.instants[older]
    partners = given.streams[older] != given.streams[newer] and given.keys[older] == given.keys[newer]
    return bool(partners and counts and (same_instant or age < given.windows[given.streams[older]]))


def pairs(given: Arrivals, until: Numbers) -> set[tuple[int, int]]:
    """The results of a strategy, from the definition."""
    return {
        (older, newer)
        for older, newer in combinations(range(len(given)), 2)
        if meet(given, older, newer) and until[older] >= given.instants[newer]
    }


def best_by_trying(given: Arrivals, sizes: tuple[int, ...]) -> int:
    """The most results, over all choices at all instants. One size is shared, two are one for each stream."""
    best: dict[frozenset[int], int] = {frozenset(): 0}
    for instant in range(given.instant_times.size):
        new = np.flatnonzero(given.instants == instant).tolist()
        following: dict[frozenset[int], int] = {}
        for memory, found in best.items():
            here = sum(meet(given, older, newer) for older in memory for newer in new)
            for kept in _choices(given, sorted(memory | set(new)), sizes, instant):
                following[kept] = max(following.get(kept, 0), found + here)
        best = following
    at_once = sum(
        meet(given, older, newer)
        for older, newer in combinations(range(len(given)), 2)
        if given.instants[older] == given.instants[newer]
    )
    return max(best.values()) + at_once


def every_strategy(given: Arrivals, sizes: tuple[int, ...]) -> set[tuple[int, ...]]:
    """Every `until` that comes of keeping as many rows as there is room for."""
    found: set[tuple[frozenset[int], tuple[int, ...]]] = {(frozenset(), tuple(given.instants.tolist()))}
    for instant in range(given.instant_times.size):
        new = np.flatnonzero(given.instants == instant).tolist()
        following = set()
        for memory, until in found:
            then = tuple(instant if row in memory else end for row, end in enumerate(until))
            for kept in _choices(given, sorted(memory | set(new)), sizes, instant):
                following.add((kept, then))
        found = following
    return {until for _, until in found}


def _choices(given: Arrivals, rows: list[int], sizes: tuple[int, ...], instant: int) -> Iterator[frozenset[int]]:
    """What may be kept: rows with a future, and as many as fit, as keeping more never finds less."""
    alive = [row for row in rows if given.last[row] > instant]
    if len(sizes) == 1:
        yield from (frozenset(some) for some in combinations(alive, min(sizes[0], len(alive))))
        return
    first, second = ([row for row in alive if given.streams[row] == x] for x in (0, 1))
    for left in combinations(first, min(sizes[0], len(first))):
        for right in combinations(second, min(sizes[1], len(second))):
            yield frozenset(left + right)
