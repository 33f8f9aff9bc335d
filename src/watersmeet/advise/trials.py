"""Run a join over a sample of its inputs in several sizes of memory, by several policies, and tell what was found.

The rows are read once. The exact answer is counted once, so the runs in bounded memory need not count what they lose,
and none of them computes the select list.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Literal

import pyarrow as pa

from watersmeet.advise.ceiling import arrivals_of, ceilings, why_none
from watersmeet.advise.replay import LARGEST_PIECE, Replay
from watersmeet.advise.report import Advice, Ceiling, Trial
from watersmeet.advise.sample import Sample, take_sample
from watersmeet.advise.skew import Measured, Skew
from watersmeet.compiling import working_seconds
from watersmeet.dataclass import dataclass
from watersmeet.errors import OptionError, UnsupportedError
from watersmeet.model.time import FOREVER_US, UNITS_US, format_interval
from watersmeet.operators.join.door import Door
from watersmeet.operators.join.layout import Layout
from watersmeet.operators.join.window_join import WindowJoin
from watersmeet.operators.keeping.allocation import enough_for
from watersmeet.operators.keeping.bounded import BoundedMemory
from watersmeet.operators.keeping.policies import POLICIES
from watersmeet.operators.keeping.store import expected_row_bytes
from watersmeet.optimizer.stages import optimize
from watersmeet.plan.memory import Memory
from watersmeet.plan.query import Plan
from watersmeet.plan.shedding import Shedding
from watersmeet.runtime.over import constants_as_tables

SAMPLE_ROWS = 50_000
SHARES = (0.05, 0.10, 0.25, 0.50, 0.75, 1.00)
ALLOCATIONS: tuple[Literal["fixed", "variable"], ...] = ("fixed", "variable")
SECONDS = 20.0
MOST_TELLING = 0.4  # of what the windows need: between the sizes at which policies differ most
TIMED_ROWS = 512  # pushed to guess from what a push costs
ENOUGH_WINDOWS = 6  # how often the windows should be filled at least
FULL_WINDOWS = 2  # a sample should span the windows so many times
OnStep = Callable[[int, int], None]


def advise(
    plan: Plan,
    sample_rows: int = SAMPLE_ROWS,
    policies: Sequence[str] | None = None,
    on_step: OnStep | None = None,
    seconds: float = SECONDS,
    places: int | None = None,
) -> Advice:
    """places: in how many buckets or threads it is to run; None: in the threads it asks for, or one for each core.
    The recall that every policy reaches in every memory. `on_step` is told how many runs of how many are done.
    If all runs would take longer than so many seconds, they use only the beginning of the sample; those for which
    there is no time even then are left out, the least telling ones first, and the advice says so."""
    chosen = _checked(policies)
    _check(plan)
    plan = constants_as_tables(plan)
    if sample_rows < 1:
        raise OptionError(
            f"a sample of {sample_rows:,} rows shows nothing", hint="give sample = 50000, or leave it out"
        )
    started = working_seconds()
    trials = _Trials(plan, take_sample(plan, sample_rows), chosen)
    trials.shorten(seconds)
    steps = len(trials.ways) + 1
    found: list[Trial] = []
    for trial in trials.run(started + seconds):
        found.append(trial)
        if on_step is not None:
            on_step(len(found), steps)
    best, why = trials.ceilings(started + seconds)
    if on_step is not None:
        on_step(steps, steps)
    return Advice(
        trials.replay.rows, trials.replay.event_us / UNITS_US["second"], working_seconds() - started, trials.exact,
        trials.needed, trials.row_bytes, trials.in_turn(found), best, trials.bound, (*trials.notes(found), *why),
        trials.skew(places or _places(plan)),
    )  # fmt: skip


def _places(plan: Plan) -> int:
    return plan.options.threads if plan.options.threads > 1 else max(os.cpu_count() or 1, 2)


def _checked(policies: Sequence[str] | None) -> tuple[str, ...]:
    about_results = [name for name, policy in POLICIES.items() if not policy.completes]
    chosen = tuple(dict.fromkeys(about_results if policies is None else policies))
    for name in chosen:
        if name not in POLICIES:
            raise OptionError(f"there is no policy {name!r}", hint=f"the policies are {', '.join(POLICIES)}")
    if not chosen:
        raise OptionError("no policy was given", hint=f"the policies are {', '.join(POLICIES)}")
    return chosen


def _check(plan: Plan) -> None:
    if plan.plain_join is None or len(plan.plain_join.join.streams) < 2:
        raise UnsupportedError(
            "there is nothing to advise: only a plain join of two streams or more can run in bounded memory",
            hint="give a query of the form SELECT … FROM … WHERE over two streams with windows",
        )
    if plan.method.is_classic:
        raise UnsupportedError(
            f"join = '{plan.method.algorithm}' runs an algorithm as published, which keeps every row of its windows",
            hint="leave join out of OPTIONS: memory bounds the engine's own join only",
        )


@dataclass(frozen=True)
class _Way:
    """One run to come."""

    rows: int
    policy: str
    allocation: str


class _Trials:
    """The runs of one query over one sample."""

    def __init__(self, plan: Plan, sample: Sample, policies: Sequence[str]) -> None:
        self.policies = policies
        assert plan.plain_join is not None
        self.plan = plan
        self.join, self.project = plan.plain_join.join, plan.plain_join.project
        self.asked = plan.shedding
        self.strategy = optimize(self.join)
        self.row_bytes, self.bound = self._bytes(sample)
        self.cut = False
        self._take(sample)

    def _take(self, sample: Sample) -> None:
        self.sample = sample
        self.replay = Replay(self.join, sample, Door(Layout(self.strategy, ())))
        self.needed, self.exact, self.disordered = self._exactly()
        self.ways = [
            _Way(size, policy, allocation)
            for size in self._sizes()
            for policy in self.policies
            for allocation in ALLOCATIONS
        ]

    def _bytes(self, sample: Sample) -> tuple[float, int | None]:
        """What a row takes on average of all streams, and how many rows the bound of the query holds."""
        asked = self.asked or Shedding(Memory(rows=len(self.join.streams)))
        stores = BoundedMemory(Layout(self.strategy, self.project.columns), asked).shed
        tables = {alias: sample.tables[self.join.input(alias).relation.name] for alias in stores}
        sizes = {
            alias: expected_row_bytes(store, {name: _mean_bytes(tables[alias], name) for name in store.columns})
            for alias, store in stores.items()
        }
        total = sum(table.num_rows for table in tables.values())
        mean: float = sum(sizes[a] * tables[a].num_rows for a in sizes) / total if total else max(sizes.values())
        if self.asked is None:
            return mean, None
        memory = self.asked.memory
        held = memory.rows if memory.rows is not None else max(len(sizes), int((memory.size or 0) / mean))
        return mean, held

    def _sizes(self) -> list[int]:
        """Shares of what the windows need, and what the query asks for."""
        least = len(self.join.streams)
        shares = {max(least, round(share * self.needed)) for share in SHARES}
        asked = {self.bound} if self.bound is not None and least <= self.bound < self.needed else set()
        return sorted(shares | asked)

    def _exactly(self) -> tuple[int, int, bool]:
        """The memory that all rows of the windows take, the number of results, and whether rows came out of order."""
        self.measured = Measured(self.plan)
        joining = WindowJoin(self.strategy, self.measured.columns)
        held, started = [len(self.join.streams)], working_seconds()
        # Small pieces: how full the windows were is seen between two of them only.
        piece = max(1, self.replay.rows // 1000)
        self.replay.run(joining, lambda: piece, lambda: held.append(joining.kept_rows), self.measured.found)
        self.exact_s = working_seconds() - started
        needed = enough_for(max(held), len(self.join.streams))
        return needed, joining.counters.results, any(store.disorder_us > 0 for store in joining.stores.values())

    def skew(self, places: int) -> Skew | None:
        """How evenly so many buckets or threads would be at work."""
        return self.measured.skew(self.replay.rows_of, places)

    def shorten(self, seconds: float) -> None:
        """Leave out the end of the sample if all runs would take too long; but fill the windows several times."""
        timed = Replay(self.join, self.sample.first(TIMED_ROWS), Door(Layout(self.strategy, ())))
        push_s = 0.0
        for _ in range(2):  # the first time kernels may have to be made
            (joining, keeping), started = self._joining(self.ways[0]), working_seconds()
            timed.run(joining, partial(getattr, keeping, "piece_rows"))
            push_s = (working_seconds() - started) * keeping.piece_rows / max(timed.rows, 1)
        pushes = sum(self.replay.rows / min(self._joining(way)[1].piece_rows, LARGEST_PIECE) for way in self.ways)
        # What shedding costs comes with each push; the joining itself costs about what the exact join did.
        expected_s = pushes * push_s + len(self.ways) * self.exact_s
        share = seconds / max(expected_s, 1e-9)
        # With hardly any time, windows that are filled twice tell more than a single run over a longer sample.
        windows = ENOUGH_WINDOWS if share * self.replay.rows > FULL_WINDOWS * self.needed else FULL_WINDOWS
        rows = max(round(share * self.replay.rows), windows * self.needed)
        if rows < 0.9 * self.replay.rows:  # for less it is not worth counting the exact answer again
            self.cut = True
            self._take(self.sample.first(rows))

    def _joining(self, way: _Way) -> tuple[WindowJoin, BoundedMemory]:
        seed = self.asked.seed if self.asked is not None else 1
        # What is lost need not be counted, as the exact number is known; but some policies go by records of lost rows.
        recall = "exact" if POLICIES[way.policy].needs_records else "none"
        shedding = Shedding(Memory(rows=way.rows), way.policy, way.allocation, seed, recall)
        joining = WindowJoin(self.strategy, (), keeping=partial(BoundedMemory, shedding=shedding))
        assert isinstance(joining.keeping, BoundedMemory)
        return joining, joining.keeping

    def run(self, deadline: float) -> Iterator[Trial]:
        """The runs for which there is time, the most telling ones first; one of them in any case."""
        longest = 0.0
        for number, way in enumerate(sorted(self.ways, key=self._turn)):
            started = working_seconds()
            # By the longest so far, as sizes take differently long; the first run is made whatever the time.
            if number and started + longest > deadline:
                return
            joining, keeping = self._joining(way)
            self.replay.run(joining, partial(getattr, keeping, "piece_rows"))
            longest = max(longest, working_seconds() - started)
            found = joining.counters.results
            yield Trial(way.policy, way.allocation, way.rows, found, found / self.exact if self.exact else 1.0)

    def _turn(self, way: _Way) -> tuple[bool, int, float, int]:
        """What the query asks for comes first; then one allocation of all policies after the other, beginning in the
        middle of the sizes."""
        asked = way.rows == self.bound
        middle = abs(way.rows / max(self.needed, 1) - MOST_TELLING)
        return not asked, ALLOCATIONS.index(way.allocation), middle, self.policies.index(way.policy)

    def in_turn(self, found: Sequence[Trial]) -> tuple[Trial, ...]:
        """The runs by size, policy and allocation, however they came."""
        places = {way: place for place, way in enumerate(self.ways)}
        return tuple(sorted(found, key=lambda one: places[_Way(one.rows, one.policy, one.allocation)]))

    def ceilings(self, deadline: float) -> tuple[tuple[Ceiling, ...], list[str]]:
        """What no policy can exceed, and what is to be said about it."""
        why = why_none(self.strategy)
        if why is None and working_seconds() > deadline:
            why = "the time was up; --seconds allows for more"
        if why is not None:
            return (), [f"no optimum is given: {why}"]
        rows = [self.replay.rows_of(one.alias) for one in self.join.streams]
        arrivals = arrivals_of(self.strategy, rows)
        sizes = self._sizes()
        found = [
            Ceiling(allocation, size, recall)
            for allocation in ALLOCATIONS
            for size, recall in ceilings(arrivals, allocation, sizes, self.exact).items()
        ]
        notes = []
        left_out = len(sizes) - len({one.rows for one in found})
        if left_out:
            notes.append(
                f"the optimum is left out for {left_out} of {len(sizes)} sizes, as it would take long; "
                "a smaller sample helps"
            )
        if found and self.disordered:
            notes.append("rows came out of order; the optimum is for the same rows in order")
        return tuple(found), notes

    def notes(self, found: Sequence[Trial]) -> list[str]:
        kept = [self.join.retention_us(one.alias) for one in self.join.streams]
        longest = max((us for us in kept if us < FOREVER_US), default=0)
        sentences = []
        if self.cut:
            sentences.append("only the beginning of the sample was used, to be done in time; --seconds allows for more")
        if len(found) < len(self.ways):
            sentences.append(
                f"there was time for {len(found)} of {len(self.ways)} runs, so not every policy was tried in every "
                "size; --seconds allows for more, --policies and --sample for less work"
            )
        if self.replay.event_us < FULL_WINDOWS * longest:
            sentences.append(
                f"the sample spans {format_interval(self.replay.event_us)}, and windows reach "
                f"{format_interval(longest)} back: they were hardly full and need more than is said here; "
                "take a larger sample"
            )
        return sentences


def _mean_bytes(table: pa.Table, name: str) -> float:
    size: float = table.column(name).nbytes / max(table.num_rows, 1)
    return size
