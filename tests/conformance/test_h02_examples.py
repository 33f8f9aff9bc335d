"""The worked examples of H02, its counterexamples, and what the printed variants lose."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from tests.conformance.h02_cases import random_case
from tests.conformance.h02_harness import (
    Shelf,
    arrivals_of,
    describe_bounds,
    equal_keys,
    feed,
    finish,
    merged,
    part,
    round_robin,
    run,
    simple_case,
    work_of,
)
from watersmeet.model.windows import directed_window, pair_window, path_window, single_window
from watersmeet.papers.joins.contract import Algorithm
from watersmeet.papers.joins.h02 import RippleJoin, XJoin
from watersmeet.papers.joins.hash_pipeline import HashPipelineJoin
from watersmeet.papers.joins.merge_join import MergeJoin, SweepError
from watersmeet.papers.joins.periods import merge_windows
from watersmeet.papers.joins.pipeline_join import PipelineJoin
from watersmeet.papers.joins.w_join import WJoin

A, B, C, D, E = range(5)
NOT_BLOCKING = [WJoin, RippleJoin, PipelineJoin, HashPipelineJoin, XJoin]

BLACK, WHITE = 1, 2
FIGURE_2 = simple_case(
    single_window("abcde", 10, "closed"),
    times=[[20], [13, 16, 19, 22, 35], [15, 18, 23], [3, 21], [8, 24]],
    keys=[[BLACK], [WHITE, BLACK, BLACK, BLACK, BLACK], [BLACK, WHITE, BLACK], [BLACK, BLACK], [BLACK, BLACK]],
)
FIGURE_3 = simple_case(single_window("abcde", 10, "closed"), times=[[12], [11, 20], [14], [13], [8]])
FIGURE_6 = simple_case(
    single_window("abcde", 10, "closed"),
    times=[[10, 23, 30], [11, 21, 25, 30], [16, 31], [2, 22, 30], [9, 20, 29]],
)


@pytest.mark.parametrize("join", NOT_BLOCKING)
def test_figure_2_two_iterations_of_the_w_join(join: type[WJoin]) -> None:
    arrivals = arrivals_of(FIGURE_2, [D, E, B, C, B, C, B, D, B, C, E, A, B])
    algorithm, shelf = join(FIGURE_2.description), Shelf(FIGURE_2)
    assert feed(algorithm, shelf, part(arrivals, 0, 11)) == Counter()
    on_a2 = feed(algorithm, shelf, part(arrivals, 11, 12))
    assert on_a2 == Counter((0, b, c, 1, 1) for b in (1, 2, 3) for c in (0, 2))
    assert feed(algorithm, shelf, part(arrivals, 12, 13)) == Counter()


def test_figure_2_removes_the_row_that_all_others_have_left_behind() -> None:
    arrivals = arrivals_of(FIGURE_2, [D, E, B, C, B, C, B, D, B, C, E, A])
    algorithm, shelf = WJoin(FIGURE_2.description), Shelf(FIGURE_2)
    feed(algorithm, shelf, part(arrivals, 0, 11))
    assert algorithm.oldest_needed(D) == 0  # a has brought nothing yet
    feed(algorithm, shelf, part(arrivals, 11, 12))
    assert algorithm.oldest_needed(D) == 1


@pytest.mark.parametrize("join", NOT_BLOCKING)
def test_figure_3_being_out_of_reach_of_one_stream_is_not_enough(join: type[WJoin]) -> None:
    arrivals = arrivals_of(FIGURE_3, [E, B, A, D, B, C])
    algorithm, shelf = join(FIGURE_3.description), Shelf(FIGURE_3)
    assert feed(algorithm, shelf, part(arrivals, 0, 5)) == Counter()  # b4 is 12 after e1
    assert algorithm.oldest_needed(E) == 0
    assert feed(algorithm, shelf, part(arrivals, 5, 6)) == Counter([(0, 0, 0, 0, 0)])


def test_figure_6_both_modes_of_the_merge() -> None:
    algorithm, shelf = MergeJoin(FIGURE_6.description, clocked=False, trace_rows=100), Shelf(FIGURE_6)
    found = feed(algorithm, shelf, round_robin(FIGURE_6))
    a1, a2, b1, b2, b3, c1, d1, d2, e1, e2 = (
        (A, 0),
        (A, 1),
        (B, 0),
        (B, 1),
        (B, 2),
        (C, 0),
        (D, 0),
        (D, 1),
        (E, 0),
        (E, 1),
    )
    trace = [(event, (place, serial), (low, high)) for event, place, serial, low, high in algorithm.trace]
    assert trace[:12] == [
        ("begins", a1, (0, 20)),
        ("fits", b1, (1, 20)),
        ("fits", c1, (6, 20)),
        ("dropped", d1, (6, 20)),
        ("begins", d2, (12, 32)),
        ("dropped", e1, (12, 32)),
        ("fits", e2, (12, 30)),
        ("dropped", a1, (12, 30)),
        ("fits", a2, (13, 30)),
        ("dropped", b1, (13, 30)),
        ("fits", b2, (13, 30)),
        ("fits", c1, (13, 26)),
    ]
    assert trace[12][0] == "starts"
    assert trace[12][2] == (13, 26)
    heads = [row for event, row, _ in trace[13:18]]
    assert heads == [a2, b2, c1, d2, e2]
    assert trace[18] == ("admitted", b3, (13, 26))
    assert trace[19][:2] == ("dropped", c1)
    expected = Counter([(1, 1, 0, 1, 1), (1, 2, 0, 1, 1)])
    assert {combination: found[combination] for combination in expected} == expected
    assert found + finish(algorithm, shelf) == FIGURE_6.answer()


# ---- counterexamples ------------------------------------------------------------------------------------------------

START = simple_case(single_window("ab", 5, "closed"), times=[[0, 4, 5], [0, 6]])
BEHIND = simple_case(single_window("ab", 5, "closed"), times=[[100], [10, 98]])


def test_mode_2_joins_new_heads_with_full_buffers() -> None:
    description = START.description
    for clocked in (True, False):
        assert run(MergeJoin(description, clocked=clocked), START) == START.answer()
        printed = run(MergeJoin(description, clocked=clocked, printed_start=True), START)
        assert START.answer() - printed == Counter([(2, 1)])
        assert not printed - START.answer()


@pytest.mark.parametrize("join", [WJoin, PipelineJoin])
def test_removal_must_be_signed(join: type[WJoin]) -> None:
    order = arrivals_of(BEHIND, [A, B, B])
    assert run(join(BEHIND.description), BEHIND, order) == Counter([(0, 1)])
    assert run(join(BEHIND.description, unsigned=True), BEHIND, order) == Counter()


@pytest.mark.parametrize("join", [WJoin, PipelineJoin])
def test_unsigned_removal_loses_rows_of_many_random_inputs_and_invents_none(join: type[WJoin]) -> None:
    wrong = 0
    for seed in range(200):
        case = random_case(seed, "single", keyed=True).case
        found = run(join(case.description, unsigned=True), case, round_robin(case))
        assert not found - case.answer()
        wrong += found != case.answer()
    assert wrong >= 15


def test_the_printed_start_loses_rows_of_many_random_inputs_and_invents_none() -> None:
    wrong = 0
    for seed in range(200):
        case = random_case(seed, "single", keyed=True).case
        found = run(MergeJoin(case.description, printed_start=True), case)
        assert not found - case.answer()
        wrong += found != case.answer()
    assert wrong >= 15


WIDE = {("a", "b"): 1, ("a", "c"): 10, ("a", "d"): 1, ("b", "c"): 1, ("b", "d"): 1, ("c", "d"): 1}
CIRCLE = simple_case(
    [bound for (u, v), w in WIDE.items() for bound in pair_window(u, v, w, "closed")],
    times=[[5], [2, 5], [5], [2, 5]],
)


def test_the_plain_restart_rule_of_lca_can_go_in_circles() -> None:
    """a and c are right of what b and d leave, but b and d are within the reach of a and c: nothing is dropped."""
    assert merge_windows(CIRCLE.description, "lca") == (10, 1, 10, 1)
    plain = MergeJoin(CIRCLE.description, windows="lca", clocked=False, plain_restart=True)
    with pytest.raises(SweepError, match="circles"):
        run(plain, CIRCLE)
    corrected = MergeJoin(CIRCLE.description, windows="lca", clocked=False)
    assert run(corrected, CIRCLE) == CIRCLE.answer() == Counter([(0, 1, 0, 1)])


def test_the_plain_restart_rule_is_right_where_it_comes_to_an_end() -> None:
    circles = 0
    for seed in range(200):
        case = random_case(seed, "one_wide_pair", keyed=True).case
        try:
            plain = MergeJoin(case.description, windows="lca", clocked=False, plain_restart=True, patience=200)
            assert run(plain, case) == case.answer()
        except SweepError:
            circles += 1
    assert 0 < circles < 100


# ---- window forms ---------------------------------------------------------------------------------------------------


def test_figure_11_missing_windows_are_shortest_paths() -> None:
    bounds = [b for (u, v), w in {("a", "b"): 5, ("b", "c"): 2, ("c", "d"): 4, ("b", "d"): 3}.items()
              for b in pair_window(u, v, w, "closed")]  # fmt: skip
    description = describe_bounds(4, bounds)
    limits = description.limits
    assert (limits[A][C], limits[A][D], limits[B][D], limits[C][D]) == (7, 8, 3, 4)
    assert merge_windows(description, "gca") == (8, 8, 8, 8)
    assert merge_windows(description, "lca") == (8, 5, 7, 8)


def test_gca_and_lca_filter_by_windows_as_written_and_closure_by_what_they_imply() -> None:
    written = {("a", "b"): 2, ("b", "c"): 3, ("a", "c"): 50}
    bounds = [bound for (u, v), w in written.items() for bound in pair_window(u, v, w, "closed")]
    description = describe_bounds(3, bounds)
    assert merge_windows(description, "gca") == (50, 50, 50)
    assert merge_windows(description, "lca") == (50, 3, 50)
    assert merge_windows(description, "closure") == (5, 3, 5)


@pytest.mark.parametrize("make", [PipelineJoin, HashPipelineJoin, MergeJoin, WJoin])
def test_a_path_with_all_times_equal_goes_both_ways_but_counts_once(make: type[WJoin]) -> None:
    choice = path_window("abc", [5, 5], "closed")
    case = simple_case((), times=[[1, 7], [3, 7], [4, 7]], choices=[choice])
    assert case.answer()[(1, 1, 1)] == 1
    assert run(make(case.description), case) == case.answer()


def test_a_directed_pipeline_takes_its_period_from_the_last_member() -> None:
    """For A then B then C, the period for C is [b, b + w] (H02 section 5.2.1), which the closed limits imply."""
    bounds = (*directed_window("a", "b", 5, "closed"), *directed_window("b", "c", 2, "closed"))
    case = simple_case(bounds, times=[[0], [4], [3, 4, 6, 7]])
    assert run(PipelineJoin(case.description), case) == Counter([(0, 0, 1), (0, 0, 2)])


# ---- waiting and forgetting -----------------------------------------------------------------------------------------

SILENT = simple_case(single_window("abc", 10, "closed"), times=[list(range(100)), list(range(100)), [95]])


@pytest.mark.parametrize("join", NOT_BLOCKING)
def test_a_silent_stream_blocks_nobody(join: type[WJoin]) -> None:
    assert run(join(SILENT.description), SILENT) == SILENT.answer()


def test_a_merge_waits_for_a_silent_stream_and_forgets_meanwhile_if_it_knows_the_time() -> None:
    arrivals = merged(SILENT)
    until_c = int(np.flatnonzero(arrivals.streams == C)[0])
    for clocked in (False, True):
        algorithm, shelf = MergeJoin(SILENT.description, clocked=clocked), Shelf(SILENT)
        assert feed(algorithm, shelf, part(arrivals, 0, until_c)) == Counter()
        held = algorithm.work(95, shelf.table)
        if clocked:
            assert held.live_held + held.stale_held <= 24
        else:
            assert held.live_held + held.stale_held == until_c
        rest = feed(algorithm, shelf, part(arrivals, until_c, len(arrivals)))
        assert rest + finish(algorithm, shelf) == SILENT.answer()


@pytest.mark.parametrize("clocked", [True, False])
def test_a_merge_answers_at_once_only_if_it_knows_the_time(clocked: bool) -> None:
    arrivals = merged(START)
    algorithm, shelf = MergeJoin(START.description, clocked=clocked), Shelf(START)
    found, behind = Counter[tuple[int, ...]](), 0
    for n in range(len(arrivals)):
        found += feed(algorithm, shelf, part(arrivals, n, n + 1))
        seen = set(zip(arrivals.streams[: n + 1].tolist(), arrivals.serials[: n + 1].tolist(), strict=True))
        possible = [(a, b) for a, b in START.answer() if {(A, a), (B, b)} <= seen]
        behind += len(possible) - found.total()
    assert (behind == 0) is clocked


@pytest.mark.parametrize("join", [WJoin, PipelineJoin, HashPipelineJoin, MergeJoin])
def test_state_stays_small_on_long_streams(join: type[WJoin]) -> None:
    rng = np.random.default_rng(7)
    times = [np.sort(rng.integers(0, 20_000, 20_000)) for _ in range(3)]
    case = simple_case(single_window("abc", 4, "closed"), [t.tolist() for t in times],
                       [rng.integers(0, 50, 20_000).tolist() for _ in times])  # fmt: skip
    algorithm, shelf = join(case.description), Shelf(case)
    arrivals = merged(case)
    total = feed(algorithm, shelf, arrivals, list(range(0, len(arrivals), 1_000))).total()
    work = work_of(algorithm, case, 20_000)
    assert work.results == total > 300
    assert work.live_held + work.stale_held < 4_000
    assert all(algorithm.oldest_needed(i) > 19_900 for i in range(3))


def test_xjoin_and_ripple_keep_old_rows_until_the_purge() -> None:
    times = list(range(5_000))
    case = simple_case(single_window("ab", 3, "closed"), [times, times], [[t % 7 for t in times]] * 2)
    for join, baseline in ((WJoin, RippleJoin), (HashPipelineJoin, XJoin)):
        held = []
        for make in (join, baseline):
            algorithm: Algorithm = make(case.description)
            shelf = Shelf(case)
            feed(algorithm, shelf, part(merged(case), 0, 9_999))
            held.append(work_of(algorithm, case, 5_000))
        assert held[0].results == held[1].results
        assert held[0].live_held + held[0].stale_held < 1_100
        assert held[1].live_held + held[1].stale_held == 9_999
        assert held[1].scanned > 10 * held[0].scanned


# ---- refusals -------------------------------------------------------------------------------------------------------


def test_refusals_say_why() -> None:
    windows = single_window("ab", 5, "closed")
    assert MergeJoin.refusal(describe_bounds(2, windows)) is None
    assert "ROWS" in (MergeJoin.refusal(describe_bounds(2, windows, counted=[0])) or "")
    assert "window of time" in (MergeJoin.refusal(describe_bounds(2, ())) or "")
    assert "equalities" in (HashPipelineJoin.refusal(describe_bounds(2, windows)) or "")
    assert HashPipelineJoin.refusal(describe_bounds(2, windows, (), equal_keys(2))) is None
    assert WJoin.refusal(describe_bounds(2, ())) is None
    with pytest.raises(ValueError, match="ROWS"):
        PipelineJoin(describe_bounds(2, windows, counted=[0]), turns="alternate")
