"""Run a join over a sample of its inputs in several sizes of memory, by several policies, and tell what was found.

The rows are read once. The exact answer is counted once, so the runs in bounded memory need not count what they lose,
and none of them computes the select list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Literal

import pyarrow as pa

from watersmeet.engine.advice.ceiling import arrivals_of, ceilings, why_none
from watersmeet.engine.advice.report import Advice, Ceiling, Trial
from watersmeet.engine.advice.sample import Sample, take_sample
from watersmeet.engine.build import Built, built_join, is_plain_join, runnable_join
from watersmeet.engine.clock import StreamClock
from watersmeet.engine.local import LocalRun
from watersmeet.errors import OptionError, UnsupportedError
from watersmeet.model.catalog import Stream
from watersmeet.model.time import FOREVER_US, UNITS_US
from watersmeet.model.windows import Rows as RowsWindow
from watersmeet.operators.contract import Rows
from watersmeet.operators.time_order import InTimeOrder
from watersmeet.operators.window_join import WindowJoin
from watersmeet.optimizer.stages import optimize
from watersmeet.plan.memory import Memory
from watersmeet.plan.nodes import Plan
from watersmeet.plan.shedding import Shedding
from watersmeet.shedding.join import SheddingJoin
from watersmeet.shedding.policies import POLICIES
from watersmeet.shedding.store import expected_row_bytes

SAMPLE_ROWS = 50_000
SHARES = (0.05, 0.10, 0.25, 0.50, 0.75, 1.00)
ALLOCATIONS: tuple[Literal["fixed", "variable"], ...] = ("fixed", "variable")
FULL_WINDOWS = 2  # a sample should span the windows so many times
OnStep = Callable[[int, int], None]


def advise(
    plan: Plan,
    sample_rows: int = SAMPLE_ROWS,
    policies: Sequence[str] | None = None,
    on_step: OnStep | None = None,
) -> Advice:
    """The recall that every policy reaches in every memory. `on_step` is told how many runs of how many are done."""
    chosen = _checked(policies)
    _check(plan)
    started = perf_counter()
    sample = take_sample(replace(plan, options=replace(plan.options, memory="unlimited")), sample_rows)
    trials = _Trials(plan, sample)
    needed, exact = trials.exactly()
    sizes = trials.sizes(needed)
    steps = len(sizes) * len(ALLOCATIONS) * len(chosen) + 1
    found: list[Trial] = []
    for done, trial in enumerate(trials.run(chosen, sizes, exact)):
        found.append(trial)
        if on_step is not None:
            on_step(done + 1, steps)
    best, why = trials.ceilings(sizes, exact)
    if on_step is not None:
        on_step(steps, steps)
    notes = (*trials.notes(), *why)
    seconds = perf_counter() - started
    return Advice(
        sample.rows, trials.event_s, seconds, exact, needed, trials.row_bytes, tuple(found), best, trials.bound, notes
    )


def _checked(policies: Sequence[str] | None) -> tuple[str, ...]:
    chosen = tuple(dict.fromkeys(POLICIES if policies is None else policies))
    for name in chosen:
        if name not in POLICIES:
            raise OptionError(f"there is no policy {name!r}", hint=f"the policies are {', '.join(POLICIES)}")
    if not chosen:
        raise OptionError("no policy was given", hint=f"the policies are {', '.join(POLICIES)}")
    return chosen


def _check(plan: Plan) -> None:
    if not is_plain_join(plan) or len(runnable_join(plan)[0].streams) < 2:
        raise UnsupportedError(
            "there is nothing to advise: only a plain join of two streams or more can run in bounded memory",
            hint="give a query of the form SELECT … FROM … WHERE over two streams with windows",
        )
    if plan.method.is_classic:
        raise UnsupportedError(
            f"join = '{plan.method.algorithm}' runs an algorithm as published, which keeps every row of its windows",
            hint="leave join out of OPTIONS: memory bounds the engine's own join only",
        )


class _Trials:
    """The runs of one query over one sample."""

    def __init__(self, plan: Plan, sample: Sample) -> None:
        self.sample = sample
        self.plan = sample.plan
        self.join, self.project = runnable_join(sample.plan)
        self.asked = plan.shedding
        self.strategy = optimize(self.join)
        self.event_s = 0.0
        self.disordered = False
        self.row_bytes, self.bound = self._bytes()

    def _bytes(self) -> tuple[float, int | None]:
        """What a row takes on average of all streams, and how many rows the bound of the query holds."""
        asked = self.asked or Shedding(Memory(rows=1 << 20))
        joining = SheddingJoin(self.strategy, self.project.columns, asked)
        sizes = {}
        for alias, store in joining.shed.items():
            table = self.sample.tables[self.join.input(alias).relation.name]
            widths = {name: _mean_bytes(table, name) for name in store.columns}
            sizes[alias] = expected_row_bytes(store, widths)
        rows = {alias: self.sample.tables[self.join.input(alias).relation.name].num_rows for alias in sizes}
        total = sum(rows.values())
        mean = sum(sizes[a] * rows[a] for a in sizes) / total if total else max(sizes.values(), default=1.0)
        if self.asked is None:
            return mean, None
        memory = self.asked.memory
        return mean, memory.rows if memory.rows is not None else max(len(sizes), int((memory.size or 0) / mean))

    def sizes(self, needed: int) -> list[int]:
        """Shares of what the windows need, and what the query asks for."""
        least = len(self.join.streams)
        shares = {max(least, round(share * needed)) for share in SHARES}
        asked = {self.bound} if self.bound is not None and least <= self.bound < needed else set()
        return sorted(shares | asked)

    # ---- runs -------------------------------------------------------------------------------------------------------

    def exactly(self) -> tuple[int, int]:
        """The most rows that the windows held, and the number of results."""
        joining = WindowJoin(self.strategy, ())
        run = LocalRun(self.plan, batch_rows=max(16, self.sample.rows // 1000), built=self._built(joining))
        held = [len(self.join.streams)]
        run.on_progress = lambda _: held.append(joining.window_rows)
        for _ in run.batches():
            pass
        self.event_s = max(run.common_event_us - run.first_event_us, 0) / UNITS_US["second"]
        self.disordered = any(store.disorder_us > 0 for store in joining.stores.values())
        return max(held), joining.counters.results

    def run(self, policies: Sequence[str], sizes: Sequence[int], exact: int) -> Iterator[Trial]:
        seed = self.asked.seed if self.asked is not None else 1
        for size in sizes:
            for policy in policies:
                for allocation in ALLOCATIONS:
                    recall = "exact" if POLICIES[policy].needs_records else "none"
                    shedding = Shedding(Memory(rows=size), policy, allocation, seed, recall)
                    joining = SheddingJoin(self.strategy, (), shedding)
                    for _ in LocalRun(self.plan, built=self._built(joining)).batches():
                        pass
                    found = joining.counters.results
                    yield Trial(policy, allocation, size, found, found / exact if exact else 1.0)

    def _built(self, joining: WindowJoin) -> Built:
        counts_rows = any(isinstance(one.window, RowsWindow) for one in self.join.streams)
        operator = InTimeOrder(joining, [one.alias for one in self.join.streams]) if counts_rows else joining
        return built_join(self.join, operator)

    # ---- what no policy can exceed ----------------------------------------------------------------------------------

    def ceilings(self, sizes: Sequence[int], exact: int) -> tuple[tuple[Ceiling, ...], list[str]]:
        why = why_none(self.strategy)
        if why is not None:
            return (), [f"no optimum is given: {why}"]
        rows = [self._rows(one.alias) for one in self.join.streams]
        arrivals = arrivals_of(WindowJoin(self.strategy, ()), rows)
        found = [
            Ceiling(allocation, size, recall)
            for allocation in ALLOCATIONS
            for size, recall in ceilings(arrivals, allocation, sizes, exact).items()
        ]
        notes = []
        left_out = len(sizes) - len({one.rows for one in found})
        if left_out:
            notes.append(f"the optimum is left out for {left_out} sizes, as it would take long; a smaller sample helps")
        if found and self.disordered:
            notes.append("rows came out of order; the optimum is for the same rows in order")
        return tuple(found), notes

    def _rows(self, alias: str) -> Rows:
        """All rows of a stream that are not too late."""
        relation = self.join.input(alias).relation
        assert isinstance(relation, Stream)
        clock = StreamClock(relation)
        table = self.sample.tables[relation.name].combine_chunks()
        batches = table.to_batches() or [pa.RecordBatch.from_pylist([], table.schema)]
        return clock.admit(batches[0])

    def notes(self) -> list[str]:
        kept = [self.join.retention_us(one.alias) for one in self.join.streams]
        longest = max((us for us in kept if us < FOREVER_US), default=0) / UNITS_US["second"]
        if self.event_s < FULL_WINDOWS * longest:
            return [
                f"the sample spans {self.event_s:.3g} s, and windows reach {longest:.3g} s back: they were hardly "
                "full, and need more than is said here; take a larger sample"
            ]
        return []


def _mean_bytes(table: pa.Table, name: str) -> float:
    return float(table.column(name).nbytes) / max(table.num_rows, 1)
