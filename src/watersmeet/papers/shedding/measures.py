"""How far an approximate answer X is from the exact answer Y (DGR03, section 2): all on bags.

Bags are given as any iterables of rows, as counts of rows, or as Arrow tables. For an equi-join that sheds rows X is
part of Y; then symmetric difference, matching, Dice, Jaccard and cosine are all best when X is largest, which is the
paper's MAX-subset measure.

>>> exact, found = ["a", "a", "b", "c"], ["a", "a", "c"]
>>> symmetric_difference(found, exact), matching(found, exact), jaccard(found, exact), overlap(found, exact)
(1, 3, 0.75, 1.0)
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.errors import DataError
from watersmeet.papers.shedding.arrivals import Arrivals, Numbers
from watersmeet.papers.shedding.kernels.assignment import assign

Bag: TypeAlias = Iterable[Hashable] | Mapping[Hashable, int] | pa.Table
Points = npt.NDArray[np.float64]
Distance = Callable[[Points, Points], Points]
Score = Callable[[Points, Numbers, Numbers], float]


@dataclass(frozen=True)
class Agreement:
    """How many rows two bags have, and how many they have in common: all that the first six measures look at."""

    common: int
    of_x: int
    of_y: int

    @property
    def symmetric_difference(self) -> int:
        return self.of_x + self.of_y - 2 * self.common

    @property
    def dice(self) -> float:
        return self._ratio(2 * self.common, self.of_x + self.of_y)

    @property
    def jaccard(self) -> float:
        return self._ratio(self.common, self.of_x + self.of_y - self.common)

    @property
    def cosine(self) -> float:
        return self._ratio(self.common, math.sqrt(self.of_x * self.of_y))

    @property
    def cosine_as_printed(self) -> float:
        return self._ratio(self.common, math.sqrt(self.of_x + self.of_y))

    @property
    def overlap(self) -> float:
        return self._ratio(self.common, min(self.of_x, self.of_y))

    def _ratio(self, part: float, whole: float) -> float:
        """Two empty bags are equal; one that is empty shares nothing with one that is not."""
        if whole:
            return part / whole
        return 1.0 if not self.of_x and not self.of_y else 0.0


def agreement(x: Bag, y: Bag) -> Agreement:
    """What two bags have in common.

    >>> agreement([1, 1, 2], [1, 2, 3])
    Agreement(common=2, of_x=3, of_y=3)
    """
    left, right = _counts(x), _counts(y)
    return Agreement((left & right).total(), left.total(), right.total())


def symmetric_difference(x: Bag, y: Bag) -> int:
    """|X − Y| + |Y − X|: the MAX-subset error, which is |Y| − |X| when X is part of Y.

    >>> symmetric_difference([1, 1, 2], [1, 2, 3])
    2
    """
    return agreement(x, y).symmetric_difference


def matching(x: Bag, y: Bag) -> int:
    """|X ∩ Y|, where a row is in both as often as in the one that has fewer of it.

    >>> matching([1, 1, 1], [1, 1, 2])
    2
    """
    return agreement(x, y).common


def dice(x: Bag, y: Bag) -> float:
    """2|X ∩ Y| / (|X| + |Y|).

    >>> dice([1], [1, 2, 3])
    0.5
    """
    return agreement(x, y).dice


def jaccard(x: Bag, y: Bag) -> float:
    """|X ∩ Y| / |X ∪ Y|, where a row is in the union as often as in the one that has more of it.

    >>> jaccard([1, 1], [1, 1, 1, 2])
    0.5
    """
    return agreement(x, y).jaccard


def cosine(x: Bag, y: Bag, *, as_printed: bool = False) -> float:
    """|X ∩ Y| / √(|X|·|Y|). The paper prints the root of |X| + |Y|, with which equal bags are not at 1.

    >>> cosine([1], [1, 2, 3, 4]), cosine([1, 2], [1, 2]), cosine([1, 2], [1, 2], as_printed=True)
    (0.5, 1.0, 1.0)
    >>> cosine(range(8), range(8), as_printed=True)
    2.0
    """
    both = agreement(x, y)
    return both.cosine_as_printed if as_printed else both.cosine


def overlap(x: Bag, y: Bag) -> float:
    """|X ∩ Y| / min(|X|, |Y|), which is 1 whenever X is part of Y.

    >>> overlap([1, 2], [2, 3, 4])
    0.5
    """
    return agreement(x, y).overlap


def euclidean(x: Points, y: Points) -> Points:
    """The distance of each row of `x` from each row of `y`."""
    apart: Points = np.sqrt(((x[:, None, :] - y[None, :, :]) ** 2).sum(axis=2))
    return apart


def earth_movers_distance(x: Bag, y: Bag, distance: Distance = euclidean) -> float:
    """The least work, mass times distance, that moves X into Y. Y is at least as heavy; what it has more is free.

    Rows are numbers or tuples of numbers. `distance` takes the rows of both bags as matrices.

    >>> earth_movers_distance([0, 10], [1, 7, 100]), earth_movers_distance([1, 1], [1, 1, 5])
    (4.0, 0.0)
    """
    left, right = _points(x), _points(y)
    if len(left) > len(right):
        raise DataError(f"the first bag is moved into the second, but has more rows: {len(left)}, not {len(right)}")
    if not len(left):
        return 0.0
    apart = distance(left, right)
    return float(apart[np.arange(len(left)), assign(np.ascontiguousarray(apart, np.float64))].sum())


def sum_of_weights(weights: Points, x_degrees: Numbers, y_degrees: Numbers) -> float:
    """The plainest score of a cover: how far apart matched rows are in all."""
    return float(weights.sum())


def match_and_compare(x: Bag, y: Bag, distance: Distance = euclidean, score: Score = sum_of_weights) -> float:
    """MAC: the cheapest set of pairs in which every row of both bags occurs, given a score.

    The paper leaves the score open; `score` gets the distance of each pair and how many pairs its two rows are in.

    >>> match_and_compare([0, 10], [1, 7, 11]), match_and_compare([2, 5], [2, 5])
    (5.0, 0.0)
    >>> match_and_compare([0, 10], [1, 7, 11], score=lambda weights, xs, ys: float((weights * xs * ys).sum()))
    9.0
    """
    left, right = _points(x), _points(y)
    if not len(left) or not len(right):
        return 0.0 if len(left) == len(right) else math.inf
    apart = distance(left, right)
    rows, columns = cheapest_cover(apart)
    degrees = np.bincount(rows)[rows], np.bincount(columns)[columns]
    return score(apart[rows, columns], *degrees)


def cheapest_cover(weights: Points) -> tuple[Numbers, Numbers]:
    """The pairs (row, column) of least weight in all in which every row and every column occurs.

    Each could take its nearest; a pair that serves both its ends saves what it costs less than their two nearest, and
    the pairs that save most are an assignment.

    >>> [ends.tolist() for ends in cheapest_cover(np.array([[1.0, 7.0, 11.0], [9.0, 3.0, 1.0]]))]
    [[0, 1, 1], [0, 1, 2]]
    """
    if weights.shape[0] > weights.shape[1]:
        columns, rows = cheapest_cover(np.ascontiguousarray(weights.T))
        return rows, columns
    # Not above 0: a pair that saves nothing stands for leaving both of its ends to their nearest.
    saved = np.minimum(weights - weights.min(axis=1)[:, None] - weights.min(axis=0)[None, :], 0.0)
    rows, columns = np.arange(weights.shape[0]), assign(saved)
    serves = saved[rows, columns] < 0
    alone_rows = rows[~serves]
    alone_columns = np.setdiff1d(np.arange(weights.shape[1]), columns[serves])
    firsts = np.concatenate([rows[serves], alone_rows, weights.argmin(axis=0)[alone_columns]])
    seconds = np.concatenate([columns[serves], weights.argmin(axis=1)[alone_rows], alone_columns])
    # Two that are each other's nearest name the same pair.
    pairs = np.unique(np.stack([firsts, seconds], axis=1), axis=0)
    return pairs[:, 0], pairs[:, 1]


def archive_metric(arrivals: Arrivals, until: Numbers) -> int:
    """ArM: the rows that did not meet all their partners, which completion must read again.

    `until` says how long each row was in memory. The paper's sum, with its indexes put right, counts the complete
    rows; this is the number of the others.

    >>> from watersmeet.papers.shedding.arrivals import one_per_tick
    >>> from watersmeet.papers.shedding.optimum import optimum
    >>> streams = one_per_tick([1, 1, 1, 3, 2], [2, 3, 1, 1, 3], window=3)
    >>> archive_metric(streams, optimum(streams, 2, "variable").until), archive_metric(streams, streams.last)
    (2, 0)
    """
    return int(np.count_nonzero(arrivals.results_by_row(until) < arrivals.results_by_row(arrivals.last)))


def _counts(bag: Bag) -> Counter[Hashable]:
    """How often each row occurs. Tables are counted by Arrow, so that only their distinct rows become objects."""
    if isinstance(bag, Counter):
        # The plus drops counts of 0 and below, which are not in the bag.
        return +bag
    if isinstance(bag, pa.Table):
        counted = bag.group_by(bag.column_names).aggregate([([], "count_all")])
        columns = [counted.column(name).to_pylist() for name in bag.column_names]
        return Counter(dict(zip(zip(*columns, strict=True), counted.column("count_all").to_pylist(), strict=True)))
    return +Counter(bag)


def _points(bag: Bag) -> Points:
    """One row of numbers per row of the bag, in a fixed order."""
    counts = _counts(bag)
    try:
        rows = np.array([row if isinstance(row, tuple) else (row,) for row in counts], np.float64)
    except (TypeError, ValueError):
        raise DataError("distances need rows of numbers, all of one length; compare other rows by jaccard") from None
    return np.repeat(rows, list(counts.values()), axis=0) if len(rows) else np.empty((0, 0))
