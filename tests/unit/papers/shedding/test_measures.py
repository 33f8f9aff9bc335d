"""The error measures on bags, against their definitions."""

from __future__ import annotations

import math
from collections import Counter
from itertools import combinations, permutations, product

import numpy as np
import pyarrow as pa
import pytest

from tests.unit.shedding_strategies import at_any_time, pairs
from watersmeet.errors import DataError
from watersmeet.papers.shedding.measures import (
    archive_metric,
    cheapest_cover,
    cosine,
    dice,
    earth_movers_distance,
    euclidean,
    jaccard,
    match_and_compare,
    matching,
    overlap,
    symmetric_difference,
)


def test_for_a_part_of_the_exact_answer_the_measures_depend_on_its_size_alone():
    exact = Counter({"a": 5, "b": 3, "c": 1})
    for found in (Counter({"a": 4}), Counter({"b": 3, "c": 1}), exact):
        x, y = found.total(), exact.total()
        assert symmetric_difference(found, exact) == y - x
        assert matching(found, exact) == x
        assert dice(found, exact) == pytest.approx(2 * x / (x + y))
        assert jaccard(found, exact) == pytest.approx(x / y)
        assert cosine(found, exact) == pytest.approx(math.sqrt(x / y))
        assert cosine(found, exact, as_printed=True) == pytest.approx(x / math.sqrt(x + y))
        assert overlap(found, exact) == 1


def test_bags_that_differ_both_ways():
    x, y = [1, 1, 2, 3], [1, 2, 2, 4, 4]
    assert symmetric_difference(x, y) == 5
    assert matching(x, y) == 2
    assert dice(x, y) == pytest.approx(4 / 9)
    assert jaccard(x, y) == pytest.approx(2 / 7)
    assert cosine(x, y) == pytest.approx(2 / math.sqrt(20))
    assert overlap(x, y) == pytest.approx(2 / 4)


def test_a_table_is_the_bag_of_its_rows():
    exact = pa.table({"id": [1, 1, 2, None], "page": ["x", "x", "y", None]})
    assert jaccard(exact.slice(1), exact) == 0.75
    assert matching(exact, [(1, "x"), (None, None), (2, "x")]) == 2


@pytest.mark.parametrize("measure", [dice, jaccard, cosine, overlap])
def test_empty_bags_are_equal_and_share_nothing_with_others(measure):
    assert measure([], []) == 1
    assert measure([], [1]) == 0


def test_moving_earth_costs_the_least_of_all_ways():
    rng = np.random.default_rng(1)
    for _ in range(30):
        x, y = rng.integers(0, 9, (3, 2)), rng.integers(0, 9, (5, 2))
        apart = euclidean(x, y)
        least = min(sum(apart[i, j] for i, j in enumerate(way)) for way in permutations(range(5), 3))
        assert earth_movers_distance(map(tuple, x), map(tuple, y)) == pytest.approx(least)
    assert earth_movers_distance([1, 1, 2], [1, 1, 2, 9]) == 0
    assert earth_movers_distance([], [1]) == 0


def test_distances_may_be_other_than_euclidean():
    unequal = lambda x, y: (x[:, None, 0] != y[None, :, 0]).astype(float)  # noqa: E731
    assert earth_movers_distance([1, 1, 5], [1, 2, 3], unequal) == 2


def test_a_cover_holds_every_row_and_costs_the_least():
    rng = np.random.default_rng(2)
    cells = list(product(range(3), range(3)))
    for shape in [(2, 3), (3, 3), (3, 2)] * 6:
        weights = rng.integers(0, 9, shape).astype(float)
        rows, columns = cheapest_cover(weights)
        assert set(rows) == set(range(shape[0]))
        assert set(columns) == set(range(shape[1]))
        inside = [(i, j) for i, j in cells if i < shape[0] and j < shape[1]]
        least = min(
            sum(weights[i, j] for i, j in some)
            for size in range(1, sum(shape))
            for some in combinations(inside, size)
            if {i for i, _ in some} == set(rows) and {j for _, j in some} == set(columns)
        )
        assert weights[rows, columns].sum() == least


def test_match_and_compare_gives_its_score_weights_and_degrees():
    seen = {}

    def score(weights, x_degrees, y_degrees):
        seen.update(weights=sorted(weights), x=sorted(x_degrees), y=sorted(y_degrees))
        return 1.5

    assert match_and_compare([0, 10], [1, 7, 11], score=score) == 1.5
    assert seen == {"weights": [1, 1, 3], "x": [1, 2, 2], "y": [1, 1, 1]}
    assert match_and_compare([], [1]) == math.inf
    assert match_and_compare([], []) == 0


def test_incomplete_rows_are_those_that_miss_a_partner():
    rng = np.random.default_rng(3)
    for _ in range(50):
        given = at_any_time(rng, 12, 3)
        until = rng.integers(given.instants, given.last + 1)
        missed = pairs(given, given.last) - pairs(given, until)
        assert archive_metric(given, until) == len({row for pair in missed for row in pair})


def test_what_cannot_be_measured_is_refused():
    with pytest.raises(DataError, match="has more rows: 2, not 1"):
        earth_movers_distance([1, 2], [1])
    with pytest.raises(DataError, match="rows of numbers"):
        earth_movers_distance(["a"], ["b"])
