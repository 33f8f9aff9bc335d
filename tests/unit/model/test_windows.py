"""Windows as difference bounds: closure, retention, contradictions and what they admit."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.effort import random_cases
from watersmeet.errors import WindowError
from watersmeet.model.time import FOREVER_US
from watersmeet.model.windows import (
    Bound,
    Choice,
    ClosedWindows,
    Range,
    RowsWindow,
    Unbounded,
    check_retention,
    close,
    directed_window,
    pair_window,
    path_window,
    range_bounds,
    single_window,
)

SECOND = 1_000_000


def limit(closed: ClosedWindows, earlier: str, later: str) -> int:
    return closed.limits[closed.streams.index(earlier)][closed.streams.index(later)]


def admits(closed: ClosedWindows, times: Sequence[int]) -> bool:
    """Whether one combination, a time per stream in order, satisfies the windows."""
    n = len(closed.streams)
    return any(
        all(times[v] - times[u] <= m[u][v] for u in range(n) for v in range(n) if m[u][v] < FOREVER_US)
        for m in closed.alternatives
    )


# ---- closure --------------------------------------------------------------------------------------------------------


def figure_11() -> ClosedWindows:
    """H02, Figure 11: AB 5, BC 2, CD 4, BD 3."""
    edges = [("A", "B", 5), ("B", "C", 2), ("C", "D", 4), ("B", "D", 3)]
    return close("ABCD", [bound for u, v, w in edges for bound in pair_window(u, v, w, "closed")])


@pytest.mark.parametrize(("pair", "size"), [("AB", 5), ("BC", 2), ("AC", 7), ("AD", 8), ("BD", 3), ("CD", 4)])
def test_missing_pairs_get_the_shortest_path_as_in_figure_11(pair, size):
    u, v = pair
    assert limit(figure_11(), u, v) == limit(figure_11(), v, u) == size


def test_a_written_bound_is_tightened_when_a_detour_is_shorter():
    closed = close("ABC", [*pair_window("A", "B", 1, "closed"), *pair_window("B", "C", 1, "closed"),
                           *pair_window("A", "C", 9, "closed")])  # fmt: skip
    assert limit(closed, "A", "C") == 2


def test_the_tighter_of_two_bounds_on_one_pair_counts():
    closed = close("AB", [*pair_window("A", "B", 9, "closed"), *pair_window("B", "A", 4, "closed")])
    assert limit(closed, "A", "B") == limit(closed, "B", "A") == 4


def test_a_single_window_bounds_every_ordered_pair():
    closed = close("ABC", single_window("ABC", 7, "closed"))
    assert all(limit(closed, u, v) == 7 for u, v in permutations("ABC", 2))


def test_a_range_window_bounds_how_much_newer_every_other_stream_may_be():
    closed = close("ABC", range_bounds("A", Range(3), "ABC", "closed"))
    assert (limit(closed, "A", "B"), limit(closed, "A", "C")) == (3, 3)
    assert limit(closed, "B", "A") == limit(closed, "B", "C") == FOREVER_US


def test_a_directed_window_lets_the_second_stream_follow_but_not_lead():
    closed = close("AB", directed_window("A", "B", 5, "closed"))
    assert [admits(closed, (0, t)) for t in (-1, 0, 5, 6)] == [False, True, True, False]


def test_without_bounds_every_pair_is_infinitely_far():
    assert close("AB", []).limits == ((0, FOREVER_US), (FOREVER_US, 0))


# ---- boundary -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("boundary", "last"), [("closed", 5), ("half_open", 4)])
def test_half_open_windows_exclude_exactly_their_last_microsecond(boundary, last):
    forms = [
        range_bounds("A", Range(5), "AB", boundary) + range_bounds("B", Range(5), "AB", boundary),
        single_window("AB", 5, boundary),
        pair_window("A", "B", 5, boundary),
        directed_window("A", "B", 5, boundary),
        path_window("AB", [5], boundary).alternatives[0],
    ]
    assert [limit(close("AB", bounds), "A", "B") for bounds in forms] == [last] * len(forms)


def test_half_open_directed_windows_still_allow_equal_times():
    assert admits(close("AB", directed_window("A", "B", 5, "half_open")), (3, 3))


@pytest.mark.parametrize(
    "make",
    [
        lambda size, boundary: range_bounds("A", Range(size), "AB", boundary),
        lambda size, boundary: single_window("AB", size, boundary),
        lambda size, boundary: pair_window("A", "B", size, boundary),
        lambda size, boundary: directed_window("A", "B", size, boundary),
        lambda size, boundary: path_window("AB", [size], boundary).alternatives[0],
    ],
    ids=["range", "single", "pair", "directed", "path"],
)
class TestLength:
    def test_negative_lengths_are_refused_for_every_form(self, make):
        with pytest.raises(WindowError, match="negative"):
            make(-SECOND, "closed")

    def test_zero_length_means_equal_times_when_closed(self, make):
        closed = close("AB", [*make(0, "closed"), Bound("B", "A", 0, "")])
        assert [admits(closed, (5, t)) for t in (4, 5, 6)] == [False, True, False]

    def test_zero_length_is_refused_when_half_open_because_it_holds_nothing(self, make):
        with pytest.raises(WindowError, match="holds nothing"):
            make(0, "half_open")

    def test_one_microsecond_half_open_means_equal_times(self, make):
        closed = close("AB", [*make(1, "half_open"), Bound("B", "A", 0, "")])
        assert [admits(closed, (5, t)) for t in (4, 5, 6)] == [False, True, False]


# ---- contradictions -------------------------------------------------------------------------------------------------


def test_a_contradiction_names_exactly_the_constraints_on_the_cycle():
    bounds = [Bound("A", "B", -3, "B.ts <= A.ts - 3"), Bound("B", "C", 1, "C.ts <= B.ts + 1"),
              Bound("C", "A", 1, "A.ts <= C.ts + 1"), Bound("C", "D", 50, "D.ts <= C.ts + 50")]  # fmt: skip
    with pytest.raises(WindowError) as caught:
        close("ABCD", bounds)
    text = str(caught.value)
    assert all(bound.written in text for bound in bounds[:3])
    assert bounds[3].written not in text


def test_a_cycle_of_length_zero_is_no_contradiction():
    closed = close("AB", [Bound("A", "B", -3, "x"), Bound("B", "A", 3, "y")])
    assert [admits(closed, (3, t)) for t in (-1, 0, 1)] == [False, True, False]


def test_two_directed_windows_against_each_other_leave_only_equal_times():
    closed = close("AB", [*directed_window("A", "B", 5, "closed"), *directed_window("B", "A", 5, "closed")])
    assert admits(closed, (4, 4))
    assert not admits(closed, (4, 5))


def test_a_bound_of_a_stream_with_itself_below_zero_is_a_contradiction():
    with pytest.raises(WindowError, match="contradict"):
        close("AB", [Bound("A", "A", -1, "A.ts < A.ts"), *single_window("AB", 5, "closed")])


# ---- path -----------------------------------------------------------------------------------------------------------


def test_a_path_admits_both_directions_and_nothing_else():
    closed = close("ABC", [], [path_window("ABC", [5, 3], "closed")])
    assert len(closed.alternatives) == 2
    admitted = {"forward": (0, 5, 8), "backward": (8, 3, 0), "equal": (4, 4, 4)}
    refused = {"zigzag": (0, 5, 4), "too long": (0, 6, 6), "backward too long": (5, 4, 0)}
    assert {name: admits(closed, times) for name, times in admitted.items()} == dict.fromkeys(admitted, True)
    assert {name: admits(closed, times) for name, times in refused.items()} == dict.fromkeys(refused, False)


def test_an_alternative_that_contradicts_the_rest_is_dropped():
    closed = close("AB", [Bound("A", "B", -1, "B.ts < A.ts")], [path_window("AB", [5], "closed")])
    assert len(closed.alternatives) == 1
    assert [admits(closed, (5, t)) for t in (0, 4, 5, 6)] == [True, True, False, False]


def test_a_contradiction_of_every_alternative_is_an_error():
    with pytest.raises(WindowError, match="contradict"):
        close("AB", [Bound("A", "B", -9, "B.ts <= A.ts - 9")], [path_window("AB", [5], "closed")])


def test_limits_are_the_loosest_over_the_alternatives():
    closed = close("AB", [], [path_window("AB", [5], "closed")])
    assert limit(closed, "A", "B") == limit(closed, "B", "A") == 5


# ---- retention ------------------------------------------------------------------------------------------------------


def test_retention_is_the_largest_bound_to_any_other_stream():
    closed = figure_11()
    assert [closed.retention_us(s) for s in "ABCD"] == [8, 5, 7, 8]


def test_retention_may_be_negative_when_every_partner_must_be_older():
    closed = close("AB", [Bound("A", "B", -1, "B before A"), Bound("B", "A", 5, "A within 5 of B")])
    assert (closed.retention_us("A"), closed.retention_us("B")) == (-1, 5)


def test_a_single_stream_needs_no_retention():
    closed = close("A", [])
    check_retention(closed, {"A": None}, [])
    assert closed.retention_us("A") == 0


def test_an_unbounded_stream_is_refused_with_the_pair_that_lacks_a_bound():
    bounds = pair_window("A", "B", 5, "closed")
    with pytest.raises(WindowError) as caught:
        check_retention(close("ABC", bounds), {}, bounds)
    assert "rows of A could never be forgotten" in str(caught.value)
    assert "a row of C may be" in str(caught.value)
    assert "WINDOW (A, C)" in str(caught.value)


def test_only_the_streams_that_need_it_have_to_be_declared_unbounded():
    bounds = range_bounds("A", Range(5), "AB", "closed")
    closed = close("AB", bounds)
    with pytest.raises(WindowError, match="rows of B could never be forgotten"):
        check_retention(closed, {"A": Range(5)}, bounds)
    check_retention(closed, {"A": Range(5), "B": Unbounded()}, bounds)
    check_retention(closed, {"A": Range(5), "B": RowsWindow(3)}, bounds)


# ---- closed windows and the original constraints admit the same times -----------------------------------------------

STREAMS = "ABC"
TIMES = list(product(range(-4, 5), repeat=2))


@st.composite
def constraints(draw: st.DrawFn) -> tuple[list[Bound], list[Choice]]:
    pairs = st.sampled_from(list(permutations(STREAMS, 2)))
    boundary = draw(st.sampled_from(["closed", "half_open"]))
    sizes = st.integers(1, 4)
    bounds: list[Bound] = []
    for _ in range(draw(st.integers(0, 3))):
        (u, v), size = draw(pairs), draw(sizes)
        bounds += draw(
            st.sampled_from([
                range_bounds(u, Range(size), STREAMS, boundary), single_window(STREAMS, size, boundary),
                pair_window(u, v, size, boundary), directed_window(u, v, size, boundary),
                (Bound(u, v, draw(st.integers(-4, 4)), "plain"),),
            ])
        )  # fmt: skip
    paths = draw(st.lists(st.tuples(st.permutations(STREAMS), st.lists(sizes, min_size=2, max_size=2)), max_size=2))
    return bounds, [path_window(streams, steps, boundary) for streams, steps in paths]


def admitted_as_written(times: dict[str, int], bounds: list[Bound], choices: list[Choice]) -> bool:
    def holds(bound: Bound) -> bool:
        return times[bound.later] - times[bound.earlier] <= bound.at_most_us

    return all(map(holds, bounds)) and all(any(all(map(holds, alt)) for alt in c.alternatives) for c in choices)


@given(constraints())
@random_cases(150)
def test_closed_windows_admit_exactly_the_times_the_written_constraints_admit(written):
    bounds, choices = written
    expected = {(0, b, c) for b, c in TIMES if admitted_as_written({"A": 0, "B": b, "C": c}, bounds, choices)}
    try:
        closed = close(STREAMS, bounds, choices)
    except WindowError:
        assert not expected
        return
    assert {(0, b, c) for b, c in TIMES if admits(closed, (0, b, c))} == expected


@given(constraints())
@random_cases(150)
def test_closed_bounds_are_tight_so_every_finite_limit_is_reached(written):
    bounds, choices = written
    try:
        closed = close(STREAMS, bounds, choices)
    except WindowError:
        return
    for matrix in closed.alternatives:
        for u, v in permutations(range(3), 2):
            if matrix[u][v] < FOREVER_US:
                assert _reachable(matrix, u, v)


def _reachable(matrix: tuple[tuple[int, ...], ...], u: int, v: int) -> bool:
    """Whether some times satisfy the matrix with t_v - t_u at its limit; the third time is free."""
    third = 3 - u - v
    times = [0, 0, 0]
    times[v] = matrix[u][v]
    for times[third] in range(-20, 21):
        if all(times[b] - times[a] <= matrix[a][b] for a, b in permutations(range(3), 2)):
            return True
    return False


def test_alternatives_inside_another_are_dropped_so_many_paths_over_the_same_streams_stay_few():
    paths = [path_window(["a", "b", "c"], [size, 5], "closed") for size in range(1, 65)]
    closed = close(["a", "b", "c"], [], paths)
    assert len(closed.alternatives) == 2
    assert admits(closed, [0, 1, 6])
    assert admits(closed, [6, 5, 0])
    assert not admits(closed, [0, 2, 6])


def test_more_alternatives_than_a_kernel_can_tell_apart_are_refused():
    streams = "abcdefgh"
    paths = [path_window([u, v], [5], "closed") for u, v in pairwise(streams)]
    assert len(close(streams, [], paths[:5]).alternatives) == 32
    with pytest.raises(WindowError, match="more than 62 ways"):
        close(streams, [], paths)
