"""What NLW-join and HW-join share: one pipeline per alternative of the windows, fed with the same arrivals."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

import numpy as np

from watersmeet.papers.joins.contract import COUNTS, ArrivedRows, Int64s, Work
from watersmeet.papers.joins.description import JoinDescription
from watersmeet.papers.joins.horizon import Horizon, addresses, lift_silent
from watersmeet.papers.joins.kernels import pipeline as kernel
from watersmeet.papers.joins.kernels.nested import NEVER, UNREAD
from watersmeet.papers.joins.kernels.pipeline import alternate
from watersmeet.papers.joins.output import JoinOutput, as_work
from watersmeet.papers.joins.pipeline_plan import PipelinePlan

Turns = Literal["arrival", "alternate"]


class Pipeline(ABC):
    """A left-deep pipeline for one alternative; how its nodes find partners is left to the kinds of it."""

    STATE: ClassVar[tuple[str, ...]] = ("counts", "state")

    def __init__(self, plan: PipelinePlan, output_rows: int) -> None:
        self.plan = plan
        self.counts = np.zeros(COUNTS, np.int64)
        self.state = np.zeros(kernel.STATE_SIZE, np.int64)
        self.state[kernel.LAST : kernel.LAST + plan.inputs] = UNREAD
        self._out = JoinOutput(plan.inputs, output_rows)

    def run(self, arrivals: ArrivedRows, shelf: Int64s, *, quietly: bool = False) -> Iterator[Int64s]:
        """Feed the arrivals; with `quietly` nothing is found, but partial combinations are kept as ever."""
        self.plan.table[kernel.QUIETLY] = quietly
        self.state[kernel.AT_ARRIVAL] = 0
        plan = self.plan.aim(shelf)
        self._aim()
        while self.state[kernel.AT_ARRIVAL] < len(arrivals):
            outcome, count = self._step(addresses(arrivals), len(arrivals), plan, self._out.table)
            if count:
                yield self._out.table[:, :count]
            if outcome == kernel.MUST_GROW:
                self._grow(int(self.state[kernel.GROWING]))

    def pass_by(self, until_us: int, shelf: Int64s) -> None:
        """No row before this time will come, of any input."""
        silent = lift_silent(self.state[kernel.LAST :], until_us, self.plan.reach_us)
        if silent.size:
            self._aim()
            self._let_go(silent, self.plan.aim(shelf))

    def held(self, now_us: int, shelf: Int64s) -> Int64s:
        """How many rows of each input are held, and behind them partial combinations: live ones and stale ones."""
        totals = np.zeros((2, self.plan.inputs + 1), np.int64)
        self._aim()
        self._count_held(self.plan.aim(shelf), now_us, totals)
        return totals[:, [*self.plan.positions, self.plan.inputs]]

    def oldest_held(self) -> Int64s:
        """The smallest serial of each input, by place, that may be looked up to find an entry dead; NEVER if none is.

        What time decides lies in the entries themselves, unlike rows that are not copied and deaths that may change.
        """
        oldest = np.full(self.plan.inputs, NEVER, np.int64)
        self._aim()
        self._lower_to_held(oldest)
        return oldest[self.plan.positions]

    @property
    @abstractmethod
    def nbytes(self) -> int: ...

    @abstractmethod
    def _aim(self) -> None:
        """Write down where the buffers lie: a saved pipeline finds them elsewhere."""

    @abstractmethod
    def _step(self, columns: tuple[int, int, int], arrivals: int, plan: int, out: Int64s) -> tuple[int, int]: ...

    @abstractmethod
    def _grow(self, buffer: int) -> None: ...

    @abstractmethod
    def _let_go(self, silent: Int64s, plan: int) -> None:
        """Delete what has no use any more at the positions of which no row came: no scan meets it there."""

    @abstractmethod
    def _count_held(self, plan: int, now_us: int, totals: Int64s) -> None: ...

    @abstractmethod
    def _lower_to_held(self, oldest: Int64s) -> None: ...


class Pipelines:
    """An algorithm made of pipelines. Rows may come in any order (see contract.TakesAnyOrder).

    `turns='alternate'` reads the arrivals of a call as the paper's GetNext does, taking both sides of each node in
    turn, instead of in the order they came; then ROWS windows cannot be used.
    """

    STATE = ("pipelines", "_horizon", "_oldest_held")

    def __init__(self, description: JoinDescription, pipelines: Sequence[Pipeline], turns: Turns) -> None:
        if turns == "alternate" and description.counted:
            raise ValueError("ROWS windows need their rows in time order, and turns='alternate' changes it")
        self.description = description
        self.pipelines = tuple(pipelines)
        self.turns = turns
        self._horizon = Horizon(description)
        self._oldest_held = np.full(description.inputs, NEVER, np.int64)

    def arrive(self, arrivals: ArrivedRows, shelf: Int64s) -> Iterator[Int64s]:
        arrivals = self._in_turn(arrivals)
        for pipeline in self.pipelines:
            yield from pipeline.run(arrivals, shelf)
        self._follow(arrivals, shelf)

    def take_back(self, arrivals: ArrivedRows, shelf: Int64s) -> None:
        for pipeline in self.pipelines:
            counts = pipeline.counts.copy()
            # Partial combinations must be made again, so this does all the work; it is not counted, as it was before.
            for _ in pipeline.run(arrivals, shelf, quietly=True):
                pass
            pipeline.counts[:] = counts
        self._follow(arrivals, shelf)

    def finish(self, shelf: Int64s) -> Iterator[Int64s]:
        yield from ()

    def expect(self, from_us: int) -> None:
        self._horizon.expect(from_us)
        for pipeline in self.pipelines:
            pipeline.plan.table[kernel.PROVEN] = from_us

    def pass_by(self, until_us: int, shelf: Int64s) -> Iterator[Int64s]:
        yield from ()  # nothing waits
        for pipeline in self.pipelines:
            pipeline.pass_by(until_us, shelf)
        self._horizon.pass_by(until_us, shelf)
        self._oldest_held = np.min([pipeline.oldest_held() for pipeline in self.pipelines], axis=0)

    def oldest_needed(self, place: int) -> int:
        return min(self._horizon.oldest(place), int(self._oldest_held[place]))

    @property
    def nbytes(self) -> int:
        return sum(pipeline.nbytes for pipeline in self.pipelines)

    def work(self, now_us: int, shelf: Int64s) -> Work:
        counts = np.sum([pipeline.counts for pipeline in self.pipelines], axis=0)
        return as_work(counts, self._held(now_us, shelf))

    def occupancy(self, now_us: int, shelf: Int64s) -> tuple[Int64s, Int64s]:
        """Rows held per input, live and stale, without the partial combinations; in all pipelines together."""
        live, stale = self._held(now_us, shelf)[:, :-1]
        return live, stale

    def _held(self, now_us: int, shelf: Int64s) -> Int64s:
        held: Int64s = np.sum([pipeline.held(now_us, shelf) for pipeline in self.pipelines], axis=0)
        return held

    def _follow(self, arrivals: ArrivedRows, shelf: Int64s) -> None:
        self._horizon.follow(arrivals, shelf)
        self._oldest_held = np.min([pipeline.oldest_held() for pipeline in self.pipelines], axis=0)

    def _in_turn(self, arrivals: ArrivedRows) -> ArrivedRows:
        if self.turns == "arrival":
            return arrivals
        order = np.empty(len(arrivals), np.int64)
        alternate(arrivals.streams, self.pipelines[0].plan.positions, self.description.inputs, order)
        return ArrivedRows(arrivals.streams[order], arrivals.serials[order], arrivals.times[order])


def pipeline_refusal(description: JoinDescription) -> str | None:
    """Why a pipeline cannot answer this join, or None if it can."""
    if description.static:
        return "the pipeline joins streams, and a static table brings no new rows to take turns with"
    return None
