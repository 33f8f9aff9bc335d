"""The offline optimum equals what trying everything finds, and the paper's own graph."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.shedding_strategies import EXAMPLE, at_any_time, best_by_trying, every_strategy, on_ticks, pairs, zipf
from watersmeet.errors import DataError
from watersmeet.papers.shedding.arrivals import Arrivals, arrivals, one_per_tick
from watersmeet.papers.shedding.measures import archive_metric
from watersmeet.papers.shedding.optimum import Allocation, Optimum, optimum, optimum_curve, sizes_of
from watersmeet.papers.shedding.paper_graph import paper_optimum

ALLOCATIONS: tuple[Allocation, ...] = ("fixed", "variable")


def is_possible(given: Arrivals, best: Optimum, sizes: tuple[int, ...]) -> bool:
    """Whether the rows named fit into memory, live that long, and find what is claimed."""
    stored = given.stored(best.until)
    fits = stored.sum(axis=0).max() <= sizes[0] if len(sizes) == 1 else np.all(stored.max(axis=1) <= sizes)
    lives = np.all((given.instants <= best.until) & (best.until <= given.last))
    return bool(fits and lives and given.results(best.until) == best.results == len(pairs(given, best.until)))


def test_the_papers_example_finds_5_and_6_of_7_results():
    assert EXAMPLE.exact_results == 7
    assert optimum(EXAMPLE, 2, "fixed").results == 5
    best = optimum(EXAMPLE, 2, "variable")
    assert best.results == 6
    assert pairs(EXAMPLE, EXAMPLE.last) - pairs(EXAMPLE, best.until) == {(2 * 1 + 1, 2 * 3)}  # s(1), r(3)


def test_the_papers_example_has_three_best_outputs_with_fixed_memory_and_one_with_variable():
    for sizes, most, outputs in (((1, 1), 5, 3), ((2,), 6, 1)):
        strategies = [np.array(until) for until in every_strategy(EXAMPLE, sizes)]
        best = {frozenset(pairs(EXAMPLE, until)) for until in strategies if EXAMPLE.results(until) == most}
        assert max(EXAMPLE.results(until) for until in strategies) == most
        assert len(best) == outputs


def test_the_papers_example_leaves_at_least_3_and_2_rows_incomplete():
    for sizes, fewest in (((1, 1), 3), ((2,), 2)):
        assert min(archive_metric(EXAMPLE, np.array(until)) for until in every_strategy(EXAMPLE, sizes)) == fewest
    # the paper's strategy: r(0) until 2, r(2) until 3, r(3) to the end; s(1) until 3, then s(3)
    until = EXAMPLE.instants.copy()
    until[[0, 4, 6, 3, 7]] = [2, 3, 4, 3, 4]
    assert EXAMPLE.results(until) == 5
    assert archive_metric(EXAMPLE, until) == 3


def is_tight(given: Arrivals, best: Optimum) -> bool:
    """Whether memory is scarce enough for the choice to matter."""
    return given.free_results < best.results < given.exact_results


@pytest.mark.parametrize("allocation", ALLOCATIONS)
@pytest.mark.parametrize("seed", range(6))
def test_the_optimum_equals_trying_everything_with_one_row_per_tick(seed: int, allocation: Allocation):
    rng = np.random.default_rng(seed)
    tight = 0
    for _ in range(50):
        counted_from = None if rng.random() < 0.7 else int(rng.integers(0, 5))
        given = on_ticks(rng, int(rng.integers(3, 10)), int(rng.integers(1, 4)), int(rng.integers(2, 6)), counted_from)
        memory = int(rng.integers(0, 5))
        best = optimum(given, memory, allocation)
        assert best.results == best_by_trying(given, sizes_of(memory, allocation))
        assert best.results == paper_optimum(given, memory, allocation)
        assert is_possible(given, best, sizes_of(memory, allocation))
        tight += is_tight(given, best)
    assert tight > 15


@pytest.mark.slow
@pytest.mark.parametrize("allocation", ALLOCATIONS)
@pytest.mark.parametrize("seed", range(6))
def test_the_optimum_equals_trying_everything_whenever_rows_arrive(seed: int, allocation: Allocation):
    rng = np.random.default_rng(100 + seed)
    tight = 0
    for _ in range(60):
        given = at_any_time(rng, int(rng.integers(8, 19)), int(rng.integers(1, 4)))
        memory = int(rng.integers(0, 4))
        best = optimum(given, memory, allocation)
        assert best.results == best_by_trying(given, sizes_of(memory, allocation))
        assert is_possible(given, best, sizes_of(memory, allocation))
        tight += is_tight(given, best)
    assert tight > 15


@pytest.mark.parametrize("allocation", ALLOCATIONS)
def test_the_small_graph_equals_the_papers_graph(allocation: Allocation):
    rng = np.random.default_rng(7)
    for window in (2, 9, 25):
        given = on_ticks(rng, 150, int(rng.integers(2, 12)), window, counted_from=2 * window)
        curve = optimum_curve(given, 2 * window, allocation)
        for memory in (0, 1, 2, window // 2, window, 2 * window - 2, 2 * window):
            assert curve[memory] == paper_optimum(given, memory, allocation)


@pytest.mark.parametrize("allocation", ALLOCATIONS)
def test_one_run_gives_the_optimum_for_every_memory(allocation: Allocation):
    given = at_any_time(np.random.default_rng(3), 120, 6)
    curve = optimum_curve(given, 130, allocation)
    assert curve.tolist() == [optimum(given, memory, allocation).results for memory in range(131)]
    assert curve[0] == given.free_results
    assert curve[-1] == given.exact_results


def test_each_further_row_of_shared_memory_is_worth_no_more_than_the_one_before():
    given = on_ticks(np.random.default_rng(5), 400, 8, 40)
    gains = np.diff(optimum_curve(given, 80))
    assert np.all(np.diff(gains) <= 0)
    assert gains[0] > 0 == gains[-1]


def test_variable_allocation_is_as_good_as_the_best_split_or_better():
    given = on_ticks(np.random.default_rng(6), 200, 5, 20)
    shared = optimum(given, 12).results
    splits = [optimum(given, (first, 12 - first), "fixed").results for first in range(13)]
    assert max(splits) <= shared
    assert splits[6] == optimum(given, 12, "fixed").results


def test_results_of_rows_and_memory_in_use_follow_their_definitions():
    rng = np.random.default_rng(11)
    for _ in range(60):
        given = at_any_time(rng, 14, 3)
        until = rng.integers(given.instants, given.last + 1)
        found = pairs(given, until)
        assert given.results(until) == len(found)
        ends = np.array(sorted(found), np.int64).reshape(-1)
        assert given.results_by_row(until).tolist() == np.bincount(ends, minlength=14).tolist()
        for instant, stored in enumerate(given.stored(until).sum(axis=0)):
            assert stored == np.count_nonzero((given.instants <= instant) & (until > instant))


def test_exact_needs_two_windows_less_two_rows():
    given = one_per_tick([1] * 30, [1] * 30, window=6)
    assert optimum(given, 10).results == given.exact_results > optimum(given, 9).results


def test_memory_that_is_never_full_costs_nothing():
    assert optimum(EXAMPLE, 10**12).results == optimum(EXAMPLE, 10**12, "fixed").results == 7


def test_null_keys_meet_nothing():
    given = arrivals([0, 1, 2, 3], [0, 1, 1, 0], [None, None, "a", "a"], window=10)
    assert given.exact_results == optimum(given, 3).results == 1


def test_no_rows_have_no_results():
    given = one_per_tick(np.empty(0, np.int64), np.empty(0, np.int64), window=3)
    assert optimum(given, 4).results == optimum(given, 4, "fixed").results == paper_optimum(given, 4) == 0
    assert optimum_curve(given, 2).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: arrivals([1, 0], [0, 1], [1, 1], 3), "in the order of their times"),
        (lambda: arrivals([0, 1], [0, 2], [1, 1], 3), "streams are 0 and 1, but 2"),
        (lambda: arrivals([0, 1], [0, 1], [1], 3), "2 times, 2 streams and 1 keys"),
        (lambda: arrivals([0], [0], [1], 0), "a window lasts at least 1, but 0"),
        (lambda: one_per_tick([1], [1, 2], 3), "there are 1 and 2 rows"),
        (lambda: optimum(EXAMPLE, -1), "0 or more, but -1"),
        (lambda: optimum(EXAMPLE, (1, 1)), "one number of rows"),
        (lambda: optimum(EXAMPLE, 2, "both"), "'fixed' or 'variable'"),
        (lambda: paper_optimum(arrivals([0, 4], [0, 1], [1, 1], 9), 1), "one row of each stream per tick"),
    ],
)
def test_what_makes_no_sense_is_refused(make, message):
    with pytest.raises(DataError, match=message):
        make()


@pytest.mark.slow
@pytest.mark.parametrize("window", [400, 800])
def test_the_papers_sizes_are_solved_on_a_small_graph(window: int):
    """N = 5600, domain 50, Zipf(1): the paper solved millions of nodes. The curve is exact where it
    can be known, and the rows named fit into memory."""
    rng = np.random.default_rng(window)
    given = one_per_tick(zipf(rng, 5600), zipf(rng, 5600), window=window, counted_from=2 * window)
    curve = optimum_curve(given, 2 * window)
    best = optimum(given, window)
    assert best.results == curve[window]
    assert given.stored(best.until).sum(axis=0).max() <= window
    assert curve[2 * window - 2] == given.exact_results
