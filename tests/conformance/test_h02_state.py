"""What H02's algorithms hold, count and give up, against plain Python twins of the papers' steps."""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from tests.conformance.h02_cases import FORMS, random_case
from tests.conformance.h02_harness import (
    Case,
    Shelf,
    arrivals_of,
    feed,
    finish,
    merged,
    part,
    shuffled,
    simple_case,
    work_of,
)
from tests.conformance.test_h02_random import ALGORITHMS, KEYED
from watersmeet.model.time import BEGINNING_US, FOREVER_US
from watersmeet.model.windows import single_window
from watersmeet.operators.saving import Saved, load_state, state_of
from watersmeet.papers.joins.contract import ArrivedRows, Work
from watersmeet.papers.joins.h02 import RippleJoin, XJoin
from watersmeet.papers.joins.hash_pipeline import HashPipelineJoin
from watersmeet.papers.joins.kernels.pipeline import alternate
from watersmeet.papers.joins.merge_join import MergeJoin
from watersmeet.papers.joins.pipeline_join import PipelineJoin
from watersmeet.papers.joins.w_join import WJoin

COMPARE = {
    "eq": int.__eq__, "ne": int.__ne__, "lt": int.__lt__, "le": int.__le__, "gt": int.__gt__, "ge": int.__ge__,
}  # fmt: skip


@dataclass
class Twin:
    """What the twins share: the rows, what has been read, and the counts."""

    case: Case
    last: dict[int, int] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.limits = self.case.description.limits
        self.places = range(self.case.inputs)

    def time(self, i: int, serial: int) -> int:
        return int(self.case.times[i][serial])

    def period(self, v: int, bound: dict[int, int]) -> tuple[int, int]:
        times = {u: self.time(u, serial) for u, serial in bound.items()}
        low = max(t - self.limits[v][u] for u, t in times.items())
        high = min(t + self.limits[u][v] for u, t in times.items())
        return low, high

    def tested(self, v: int, bound: dict[int, int]) -> bool:
        pairs = [{p.left, p.right} for p in self.case.predicates]
        return any(v in pair and pair - {v} <= bound.keys() for pair in pairs)

    def fits(self, v: int, serial: int, bound: dict[int, int]) -> bool:
        members = {**bound, v: serial}
        tests = [p for p in self.case.predicates if v in (p.left, p.right) and {p.left, p.right} <= members.keys()]
        codes = self.case.codes
        return all(
            COMPARE[p.operator](
                int(codes[p.left][p.left_code][members[p.left]]), int(codes[p.right][p.right_code][members[p.right]])
            )
            for p in tests
        )

    def is_left_behind(self, i: int, t: int, others: range | list[int]) -> bool:
        read = [(j, self.last.get(j)) for j in others if j != i]
        return all(last is not None and last - t > self.limits[i][j] for j, last in read)


@dataclass
class TwinOfWJoin(Twin):
    """H02-A1, word by word."""

    buffers: dict[int, list[int]] = field(default_factory=dict)

    def arrive(self, i: int, serial: int) -> None:
        self.buffers.setdefault(i, []).append(serial)
        self.counts["inserted"] += 1
        self.last[i] = self.time(i, serial)
        self.descend([(i + d) % self.case.inputs for d in self.places][1:], {i: serial})
        for j in self.places:
            self.remove(j)

    def descend(self, to_visit: list[int], bound: dict[int, int]) -> None:
        if not to_visit:
            self.counts["results"] += 1
            return
        v, *rest = to_visit
        low, high = self.period(v, bound)
        for serial in self.buffers.get(v, []):
            self.counts["scanned"] += 1
            self.counts["window_comparisons"] += 1
            if low <= self.time(v, serial) <= high:
                self.counts["attribute_comparisons"] += self.tested(v, bound)
                if self.fits(v, serial, bound):
                    self.descend(rest, {**bound, v: serial})

    def remove(self, j: int) -> None:
        rows = self.buffers.get(j, [])
        while rows:
            self.counts["invalidation_comparisons"] += 1
            if not self.is_left_behind(j, self.time(j, rows[0]), self.places):
                return
            rows.pop(0)
            self.counts["invalidated"] += 1


@dataclass
class TwinOfNlw(Twin):
    """H02-A2: node k has m-tuples of the inputs before k on its left, rows of k on its right."""

    lefts: dict[int, list[dict[int, int]]] = field(default_factory=dict)
    rights: dict[int, list[int]] = field(default_factory=dict)

    def arrive(self, k: int, serial: int) -> None:
        self.last[k] = t = self.time(k, serial)
        if k == 0:
            self.climb({0: serial})
            return
        self.rights.setdefault(k, []).append(serial)
        self.counts["inserted"] += 1
        kept = []
        for members in self.lefts.get(k, []):
            low, high = self.period(k, members)
            self.counts["scanned"] += 1
            self.counts["invalidation_comparisons"] += 1
            if t > high:
                self.counts["invalidated"] += 1
                continue
            kept.append(members)
            self.counts["window_comparisons"] += 1
            if low <= t:
                self.counts["attribute_comparisons"] += self.tested(k, members)
                if self.fits(k, serial, members):
                    self.climb({**members, k: serial})
        self.lefts[k] = kept
        while self.rights[k]:
            self.counts["invalidation_comparisons"] += 1
            if not self.is_left_behind(k, self.time(k, self.rights[k][0]), list(range(k))):
                return
            self.rights[k].pop(0)
            self.counts["invalidated"] += 1

    def climb(self, members: dict[int, int]) -> None:
        k = len(members)
        if k == self.case.inputs:
            self.counts["results"] += 1
            return
        low, high = self.period(k, members)
        if low > high:
            return
        self.lefts.setdefault(k, []).append(members)
        self.counts["inserted"] += 1
        kept = []
        for serial in self.rights.get(k, []):
            t = self.time(k, serial)
            self.counts["scanned"] += 1
            self.counts["invalidation_comparisons"] += 1
            if not kept and self.is_left_behind(k, t, list(range(k))):
                self.counts["invalidated"] += 1
                continue
            kept.append(serial)
            self.counts["window_comparisons"] += 1
            if low <= t <= high:
                self.counts["attribute_comparisons"] += self.tested(k, members)
                if self.fits(k, serial, members):
                    self.climb({**members, k: serial})
        self.rights[k] = kept


@pytest.mark.parametrize(("join", "twin"), [(WJoin, TwinOfWJoin), (PipelineJoin, TwinOfNlw)])
def test_counts_are_those_of_the_steps_as_written(join: type[WJoin], twin: type[TwinOfWJoin]) -> None:
    forms = [form for form in FORMS if not form.startswith("path")]  # one set of limits is enough here
    for seed in range(6_000, 6_060):
        random = random_case(seed, forms[seed % len(forms)], keyed=seed % 2 == 0)
        case = random.case
        arrivals = part(shuffled(case, random.rng), 0, 80)
        algorithm, plain, shelf = join(case.description), twin(case), Shelf(case)
        feed(algorithm, shelf, arrivals)
        for i, serial in zip(arrivals.streams.tolist(), arrivals.serials.tolist(), strict=True):
            plain.arrive(i, serial)
        work = work_of(algorithm, case, 0)
        assert work == replace(Work(**plain.counts), live_held=work.live_held, stale_held=work.stale_held), (
            f"seed {seed}"
        )


def test_rows_go_when_every_other_stream_has_left_them_behind_and_not_before() -> None:
    for seed in range(7_000, 7_060):
        random = random_case(seed, list(FORMS)[seed % len(FORMS)], keyed=True)
        case, arrivals = random.case, shuffled(random.case, random.rng)
        algorithm, shelf, twin = WJoin(case.description), Shelf(case), Twin(case)
        read = Counter[int]()
        for n in range(min(len(arrivals), 60)):
            feed(algorithm, shelf, part(arrivals, n, n + 1))
            i = int(arrivals.streams[n])
            read[i] += 1
            twin.last[i] = int(arrivals.times[n])
            for j in range(case.inputs):
                kept = [s for s in range(read[j]) if not twin.is_left_behind(j, twin.time(j, s), range(case.inputs))]
                assert algorithm.oldest_needed(j) == min(kept, default=read[j])


def test_live_rows_are_those_that_an_arrival_now_could_match() -> None:
    case = simple_case(single_window("ab", 5, "closed"), times=[[0, 4, 9], [1]])
    algorithm, shelf = WJoin(case.description), Shelf(case)
    feed(algorithm, shelf, arrivals_of(case, [0, 0, 0, 1]))
    held = [(work.live_held, work.stale_held) for work in (algorithm.work(now, shelf.table) for now in (5, 6, 9, 10))]
    assert held == [(3, 0), (2, 1), (2, 1), (1, 2)]  # b went as a came to 9


@pytest.mark.parametrize("join", [WJoin, PipelineJoin, HashPipelineJoin, MergeJoin])
def test_occupancy_is_known_for_each_stream(join: type[WJoin]) -> None:
    case = simple_case(single_window("abc", 5, "closed"), times=[[0, 4, 9], [1], []])
    algorithm, shelf = join(case.description), Shelf(case)
    feed(algorithm, shelf, arrivals_of(case, [0, 1, 0, 0]))
    live, stale = algorithm.occupancy(9, shelf.table)
    # pipelines met the row of b and deleted it, the scheme waits for c, and the merge knows the time
    held = {WJoin: [1, 1, 0], PipelineJoin: [1, 0, 0], HashPipelineJoin: [1, 0, 0], MergeJoin: [0, 0, 0]}
    assert (live.tolist(), stale.tolist()) == ([2, 0, 0], held[join])


OUT_OF_REACH = simple_case(single_window("abc", 2, "closed"), [[10, 11], [10], [0]], keys=[[1, 0], [0], [0]])
PUSHED_OUT = replace(simple_case((), [[10, 11], [10], [0, 5]], keys=[[1, 0], [0], [0, 9]]), rows=(None, None, 1))


@pytest.mark.parametrize("join", [WJoin, PipelineJoin, HashPipelineJoin])
@pytest.mark.parametrize("case", [OUT_OF_REACH, PUSHED_OUT], ids=["out of reach", "pushed out"])
def test_a_dead_row_that_was_not_met_yet_is_still_asked_for(case: Case, join: type[WJoin]) -> None:
    """The last row of a is the first to look at c, whose first row has been of no use since the call before."""
    found = feed(join(case.description), Shelf(case), merged(case), [len(merged(case)) - 1])
    assert found == case.answer() == Counter()


@pytest.mark.parametrize("name", {**ALGORITHMS, **KEYED})
def test_a_saved_algorithm_goes_on_elsewhere(name: str) -> None:
    make = (ALGORITHMS | KEYED)[name]
    for seed in range(8_000, 8_020):
        random = random_case(seed, list(FORMS)[seed % len(FORMS)], keyed=True)
        case, arrivals, shelf = random.case, merged(random.case), Shelf(random.case)
        cut = len(arrivals) // 2
        algorithm = make(case.description, random.rng)
        fresh = deepcopy(algorithm)
        found = feed(algorithm, shelf, part(arrivals, 0, cut))
        load_state(fresh, Saved.from_bytes(state_of(algorithm).to_bytes()))
        algorithm = fresh
        found += feed(algorithm, shelf, part(arrivals, cut, len(arrivals)))
        assert found + finish(algorithm, shelf) == case.answer()


@pytest.mark.parametrize(
    "make", [RippleJoin, lambda description: XJoin(description, buckets=1)], ids=["ripple", "xjoin"]
)
def test_baselines_look_at_every_pair_once_before_the_first_purge(make: type[RippleJoin]) -> None:
    times = [np.arange(400), np.arange(0, 400, 4)]
    case = simple_case(single_window("ab", 3, "closed"), [t.tolist() for t in times])
    algorithm, shelf = make(case.description), Shelf(case)
    found = feed(algorithm, shelf, merged(case))
    work = algorithm.work(400, shelf.table)
    assert work.scanned == work.window_comparisons == 400 * 100
    assert work.attribute_comparisons == work.results == found.total()
    assert (work.inserted, work.invalidated, work.invalidation_comparisons) == (500, 0, 0)


def test_buckets_that_no_probe_visits_are_swept() -> None:
    """No key comes twice, so nothing but the sweep ever meets an entry."""
    rows = 20_000
    times = list(range(rows))
    case = simple_case(single_window("ab", 10, "closed"), [times, times], [times, [-1 - t for t in times]])
    algorithm, shelf = HashPipelineJoin(case.description), Shelf(case)
    feed(algorithm, shelf, merged(case), list(range(0, 2 * rows, 1_000)))
    work = algorithm.work(rows, shelf.table)
    assert work.results == 0
    assert work.live_held + work.stale_held < 5_000
    assert algorithm.nbytes < 1_000_000


def test_a_static_table_is_always_in_reach_and_holds_nobody_back() -> None:
    case = simple_case((), times=[[1, 50, 99], [BEGINNING_US] * 2], keys=[[1, 2, 1], [1, 2]])
    description = case.description
    description = replace(description, static=(1,))
    algorithm, shelf = WJoin(description), Shelf(case)
    arrivals = arrivals_of(case, [1, 1, 0, 0, 0])
    algorithm.take_back(part(arrivals, 0, 2), shelf.table)
    assert feed(algorithm, shelf, part(arrivals, 2, 5)) == Counter([(0, 0), (1, 1), (2, 0)])
    assert algorithm.oldest_needed(0) == 3
    assert algorithm.oldest_needed(1) == 0
    assert description.limits == ((0, FOREVER_US), (FOREVER_US, 0))


def test_both_sides_of_a_node_take_turns_and_a_silent_one_is_passed_over() -> None:
    case = simple_case(single_window("abc", 1, "closed"), times=[[1, 2, 3], [1], [1, 2, 3, 4, 5]])
    arrivals: ArrivedRows = merged(case)
    order = np.empty(len(arrivals), np.int64)
    alternate(arrivals.streams, np.arange(3), 3, order)
    read = "".join("abc"[i] for i in arrivals.streams[order])
    assert read == "acbcacacc"
    for i in range(3):
        mine = arrivals.serials[order][arrivals.streams[order] == i]
        assert mine.tolist() == list(range(mine.size))
