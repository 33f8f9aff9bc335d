"""H02's W-join scheme: a new row is joined with the buffers of the inputs that follow it, under a shrinking period.

Rows may come in any order (see contract.TakesAnyOrder).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from watersmeet.operators.kernels.memory import writable_address
from watersmeet.papers.joins.contract import COUNTS, ArrivedRows, Int64s, Work
from watersmeet.papers.joins.description import JoinDescription
from watersmeet.papers.joins.horizon import addresses, empty_buffers, lift_silent
from watersmeet.papers.joins.kernels import nested, removal
from watersmeet.papers.joins.kernels import w_join as kernel
from watersmeet.papers.joins.nested_plan import NestedPlan
from watersmeet.papers.joins.output import OUTPUT_ROWS, JoinOutput, as_work


class WJoin:
    """N-way nested loops (H02-A1). `purge_every` arrivals the buffers are looked over for rows to remove.

    `unsigned` removes by absolute distance, as printed, and loses results: for tests and the lab only.
    """

    STATE = ("counts", "_buffers", "_state")

    def __init__(
        self,
        description: JoinDescription,
        *,
        purge_every: int = 1,
        unsigned: bool = False,
        output_rows: int = OUTPUT_ROWS,
    ) -> None:
        self.description = description
        self.counts = np.zeros(COUNTS, np.int64)
        # One alternative is decided by the closed limits; of several these are the loosest, so each is tested again.
        self._plan = NestedPlan(description, timed=True, refined=len(description.alternatives) > 1)
        self._plan.table[nested.PURGE_EVERY] = purge_every
        self._plan.table[nested.UNSIGNED] = unsigned
        self._buffers = empty_buffers(description)
        self._state = np.zeros(nested.STATE_SIZE, np.int64)
        self._out = JoinOutput(description.inputs, output_rows)

    @staticmethod
    def refusal(description: JoinDescription) -> str | None:
        """Nested loops answer every join."""
        return None

    def arrive(self, arrivals: ArrivedRows, shelf: Int64s) -> Iterator[Int64s]:
        plan = self._plan.aim(shelf)
        columns = addresses(arrivals)
        self._state[nested.AT_ARRIVAL] = 0
        while self._state[nested.AT_ARRIVAL] < len(arrivals):
            tables = (plan, writable_address(self._buffers), writable_address(self._state))
            count = kernel.w_join(*columns, len(arrivals), *tables, self.counts, self._out.table)
            if count:
                yield self._out.table[:, :count]

    def take_back(self, arrivals: ArrivedRows, shelf: Int64s) -> None:
        tables = (self._plan.aim(shelf), writable_address(self._buffers), writable_address(self._state))
        kernel.take_back(*addresses(arrivals), len(arrivals), *tables, np.zeros_like(self.counts))

    def finish(self, shelf: Int64s) -> Iterator[Int64s]:
        yield from ()

    def expect(self, from_us: int) -> None:
        self._plan.table[nested.PROVEN] = from_us

    def pass_by(self, until_us: int, shelf: Int64s) -> Iterator[Int64s]:
        yield from ()  # nothing waits
        silent = lift_silent(self._buffers[nested.LAST :], until_us, self.description.reach_us)
        # A ripple join looks now and then only.
        if silent.size and self._plan.table[nested.PURGE_EVERY] == 1:
            removal.remove(self._plan.aim(shelf), writable_address(self._buffers), self.counts, False)

    def oldest_needed(self, place: int) -> int:
        return int(self._buffers[nested.TAIL + place])

    def work(self, now_us: int, shelf: Int64s) -> Work:
        return as_work(self.counts, self._held(now_us, shelf))

    def occupancy(self, now_us: int, shelf: Int64s) -> tuple[Int64s, Int64s]:
        """Rows held per input: live and stale."""
        live, stale = self._held(now_us, shelf)
        return live, stale

    def _held(self, now_us: int, shelf: Int64s) -> Int64s:
        return held_rows(self.description, self._plan, self._buffers, nested.JOINED, now_us, shelf)


def held_rows(
    description: JoinDescription, plan: NestedPlan, buffers: Int64s, past: int, now_us: int, shelf: Int64s
) -> Int64s:
    """How many rows of each input are held from the tails up to `past`: live ones and stale ones."""
    totals = np.zeros((2, description.inputs), np.int64)
    reach_us = np.array(description.reach_us, np.int64)
    removal.held(plan.aim(shelf), writable_address(buffers), past, reach_us, now_us, totals)
    return totals
