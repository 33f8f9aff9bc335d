"""Each algorithm of H02 gives the brute-force answer, once each, for any windows, streams and cuts into batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.conformance.h02_cases import FORMS, WITHOUT_END, Random, Rng, cuts_of, random_case
from tests.conformance.h02_harness import (
    Answer,
    Case,
    Shelf,
    feed,
    finish,
    merged,
    part,
    round_robin,
    run,
    shuffled,
    work_of,
)
from watersmeet.papers.joins.contract import Algorithm, ArrivedRows
from watersmeet.papers.joins.description import JoinDescription
from watersmeet.papers.joins.h02 import RippleJoin, XJoin
from watersmeet.papers.joins.hash_pipeline import HashPipelineJoin
from watersmeet.papers.joins.merge_join import MergeJoin
from watersmeet.papers.joins.pipeline_join import PipelineJoin
from watersmeet.papers.joins.w_join import WJoin

Make = Callable[[JoinDescription, Rng], Algorithm]


def room(rng: Rng) -> int:
    """How many results a piece may hold: often so few that kernels must stop and resume."""
    return int(rng.choice([1, 2, 7, 64, 4096]))


def some_order(description: JoinDescription, rng: Rng) -> Any:
    return [int(place) for place in rng.permutation(description.inputs)]


ALGORITHMS: dict[str, Make] = {
    "w_join": lambda d, rng: WJoin(d, output_rows=room(rng)),
    "ripple": lambda d, rng: RippleJoin(d, purge_every=int(rng.choice([1, 5, 10_000])), output_rows=room(rng)),
    "nlw": lambda d, rng: PipelineJoin(d, output_rows=room(rng)),
    "nlw_reordered": lambda d, rng: PipelineJoin(d, order=some_order(d, rng), output_rows=room(rng)),
    "merge": lambda d, rng: MergeJoin(d, output_rows=room(rng)),
    "merge_gca": lambda d, rng: MergeJoin(d, windows="gca", output_rows=room(rng)),
    "merge_lca": lambda d, rng: MergeJoin(d, windows="lca", output_rows=room(rng)),
    "merge_waiting": lambda d, rng: MergeJoin(d, clocked=False, output_rows=room(rng)),
}
KEYED: dict[str, Make] = {
    "hw": lambda d, rng: HashPipelineJoin(d, sweep_every=int(rng.choice([1, 7, 1_000])), output_rows=room(rng)),
    "hw_few_buckets": lambda d, rng: HashPipelineJoin(
        d, buckets=int(rng.integers(1, 4)), sweep_every=3, output_rows=room(rng)
    ),
    "xjoin": lambda d, rng: XJoin(d, purge_every=int(rng.choice([4, 10_000])), output_rows=room(rng)),
}
# Those that do not need time order over all streams.
IN_ANY_ORDER: dict[str, Make] = {
    **{name: make for name, make in {**ALGORITHMS, **KEYED}.items() if not name.startswith("merge")},
    "nlw_in_turn": lambda d, rng: PipelineJoin(d, turns="alternate", output_rows=room(rng)),
    "hw_in_turn": lambda d, rng: HashPipelineJoin(d, turns="alternate", output_rows=room(rng)),
    "merge_waiting": lambda d, rng: MergeJoin(d, clocked=False, output_rows=room(rng)),
    "merge_waiting_gca": lambda d, rng: MergeJoin(d, windows="gca", clocked=False, output_rows=room(rng)),
    "merge_waiting_lca": lambda d, rng: MergeJoin(d, windows="lca", clocked=False, output_rows=room(rng)),
}
COUNTING = {name: make for name, make in ALGORITHMS.items() if not name.startswith("merge")} | KEYED
SEEDS = 45


def check(name: str, random: Random, make: Make, arrivals: ArrivedRows, expected: Answer, seed: int) -> None:
    algorithm = make(random.case.description, random.rng)
    found = run(algorithm, random.case, arrivals, cuts_of(random.rng, len(arrivals)))
    assert found == expected, f"{name}, seed {seed}: missing {expected - found}, too many {found - expected}"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("keyed", [False, True], ids=["theta", "keyed"])
def test_answers_in_time_order_equal_brute_force(form: str, keyed: bool) -> None:
    for seed in range(SEEDS):
        random = random_case(seed, form, keyed=keyed)
        expected = random.case.answer()
        for name, make in (ALGORITHMS | KEYED if keyed else ALGORITHMS).items():
            check(name, random, make, merged(random.case), expected, seed)


@pytest.mark.parametrize("form", FORMS)
def test_answers_do_not_depend_on_the_interleaving_of_streams(form: str) -> None:
    for seed in range(1_000, 1_000 + SEEDS):
        random = random_case(seed, form, keyed=True)
        expected = random.case.answer()
        for name, make in IN_ANY_ORDER.items():
            order = round_robin(random.case) if random.rng.random() < 0.5 else shuffled(random.case, random.rng)
            check(name, random, make, order, expected, seed)


def test_streams_without_windows_between_them() -> None:
    for seed in range(5_000, 5_000 + SEEDS):
        random = random_case(seed, "islands", keyed=True)
        expected = random.case.answer()
        for name, make in COUNTING.items():
            check(name, random, make, shuffled(random.case, random.rng), expected, seed)


@pytest.mark.parametrize("form", FORMS | WITHOUT_END)
def test_windows_that_count_rows(form: str) -> None:
    for seed in range(2_000, 2_000 + SEEDS):
        random = random_case(seed, form, keyed=True, counted=True)
        expected = random.case.answer()
        for name, make in COUNTING.items():
            check(name, random, make, merged(random.case), expected, seed)


@pytest.mark.parametrize("form", FORMS)
def test_rows_taken_back_are_found_again(form: str) -> None:
    """A restart at any point, with only the rows that the algorithm still asked for, changes nothing."""
    for seed in range(3_000, 3_000 + SEEDS):
        random = random_case(seed, form, keyed=True, counted=seed % 3 == 0)
        case, rng = random.case, random.rng
        expected, arrivals = case.answer(), merged(case)
        for name, make in (COUNTING if case.counted else ALGORITHMS | KEYED).items():
            cut = int(rng.integers(0, len(arrivals) + 1))
            first, second = make(case.description, rng), make(case.description, rng)
            # without a clock a merge knows what it has answered only if it sees all rows again
            found = interrupted(case, first, second, arrivals, cut, all_rows=name == "merge_waiting")
            assert found == expected, f"{name}, seed {seed}, cut {cut}"


def interrupted(
    case: Case, first: Algorithm, second: Algorithm, arrivals: ArrivedRows, cut: int, *, all_rows: bool
) -> Answer:
    before, after = part(arrivals, 0, cut), part(arrivals, cut, len(arrivals))
    shelf = Shelf(case)
    found = feed(first, shelf, before)
    if all_rows:
        shelf = Shelf(case)
    elif cut:
        before = still_needed(case, before, first)
    second.take_back(before, shelf.table)
    return found + feed(second, shelf, after) + finish(second, shelf)


def still_needed(case: Case, arrivals: ArrivedRows, algorithm: Algorithm) -> ArrivedRows:
    """The rows that the algorithm asks for and that are not too old for the time reached, as a log would hold them."""
    oldest = np.array([algorithm.oldest_needed(i) for i in range(case.inputs)])
    reach = np.array(case.description.reach_us)
    kept = arrivals.serials >= oldest[arrivals.streams]
    kept &= arrivals.times + reach[arrivals.streams] >= arrivals.times[-1]
    return ArrivedRows(arrivals.streams[kept], arrivals.serials[kept], arrivals.times[kept])


@pytest.mark.parametrize("name", {**ALGORITHMS, **KEYED})
def test_counts_are_exact_and_do_not_depend_on_batches(name: str) -> None:
    make = (ALGORITHMS | KEYED)[name]
    for seed in range(4_000, 4_000 + SEEDS):
        random = random_case(seed, list(FORMS)[seed % len(FORMS)], keyed=True)
        case, arrivals = random.case, merged(random.case)
        now = int(arrivals.times[-1])
        works = []
        for cuts in ([], list(range(0, len(arrivals), 3))):
            shelf, algorithm = Shelf(case), make(case.description, np.random.default_rng(seed))
            found = feed(algorithm, shelf, arrivals, cuts) + finish(algorithm, shelf)
            works.append(work_of(algorithm, case, now))
        assert works[0] == works[1], f"seed {seed}"
        work = works[0]
        assert work.results == found.total()
        assert work.live_held + work.stale_held == work.inserted - work.invalidated
        assert work.inserted >= len(arrivals)
