"""H02's MW-join: a merge along time, with GCA, LCA and closed windows as filters where windows differ."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from watersmeet.errors import WatersmeetError
from watersmeet.model.time import FOREVER_US
from watersmeet.operators.kernels.memory import writable_address
from watersmeet.papers.joins.contract import COUNTS, ArrivedRows, Int64s, Work
from watersmeet.papers.joins.description import JoinDescription
from watersmeet.papers.joins.horizon import addresses, empty_buffers
from watersmeet.papers.joins.kernels import merge_join as kernel
from watersmeet.papers.joins.kernels import nested
from watersmeet.papers.joins.nested_plan import NestedPlan
from watersmeet.papers.joins.output import OUTPUT_ROWS, JoinOutput, as_work
from watersmeet.papers.joins.periods import Windows, is_exact, merge_windows
from watersmeet.papers.joins.w_join import held_rows

EVENTS = ("dropped", "fits", "begins", "starts", "admitted")
NO_ARRIVALS = ArrivedRows(*(np.empty(0, np.int64) for _ in range(3)))


class SweepError(WatersmeetError):
    """The sweep goes in circles; only the uncorrected LCA can."""


class MergeJoin:
    """The MW-join (H02-A4) over a single window, or filter and refine over several (A5 to A8).

    `clocked` says that arrivals come in time order over all inputs. Then an arrival tells that no input will bring
    an older row, so results come at once and a silent input lets the others forget. Without it, as in the paper,
    each input is in an order of its own: the sweep waits for the next row of every input, while Mode 2 takes whatever
    has come. What the others wait for comes at `finish`, or once `expect` and `pass_by` tell that it does not.

    For tests and the lab only: `printed_start` looks in Mode 2 at the starting combination alone, and
    `plain_restart` leaves out the correction of LCA's Mode 1, giving up after `patience` restarts in a row.
    `trace_rows` events are kept for `trace`.
    """

    STATE = ("counts", "_buffers", "_state", "_trace")

    def __init__(
        self,
        description: JoinDescription,
        *,
        windows: Windows = "closure",
        clocked: bool = True,
        printed_start: bool = False,
        plain_restart: bool = False,
        patience: int = 1_000,
        trace_rows: int = 0,
        output_rows: int = OUTPUT_ROWS,
    ) -> None:
        self.description = description
        self.reach_us = merge_windows(description, windows)
        self.counts = np.zeros(COUNTS, np.int64)
        # Mode 2 tests no times, as all that is buffered lies in the period; a filter wider than the windows is refined.
        self._plan = NestedPlan(description, timed=False, refined=not is_exact(description, self.reach_us))
        table = self._plan.table
        table[nested.REACH : nested.REACH + description.inputs] = self.reach_us
        table[nested.CLOCKED] = clocked
        table[nested.HEADS_ONLY] = printed_start
        # With one reach for all, heads left of a new period are dropped when visited; with several not all (AMB-16).
        table[nested.DROP_HEADS] = len(set(self.reach_us)) > 1 and not plain_restart
        table[nested.PATIENCE] = patience if plain_restart else nested.NEVER
        self._buffers = empty_buffers(description)
        self._state = np.zeros(nested.STATE_SIZE, np.int64)
        self._state[nested.CLOCK] = nested.UNREAD
        self._trace = np.zeros((trace_rows, 5), np.int64)
        self._out = JoinOutput(description.inputs, output_rows)

    @staticmethod
    def refusal(description: JoinDescription) -> str | None:
        """Why a merge cannot answer this join, or None if it can."""
        if description.static:
            return "a merge follows event times, and a static table has none"
        if description.counted:
            return "a merge needs windows of time, and ROWS windows count rows"
        if max(description.reach_us) >= FOREVER_US:
            return "a merge needs a window of time between all inputs, and some pair has none"
        return None

    def arrive(self, arrivals: ArrivedRows, shelf: Int64s) -> Iterator[Int64s]:
        return self._run(arrivals, shelf, quietly=False)

    def take_back(self, arrivals: ArrivedRows, shelf: Int64s) -> None:
        counts = self.counts.copy()
        for _ in self._run(arrivals, shelf, quietly=True):
            pass
        self.counts[:] = counts

    def expect(self, from_us: int) -> None:
        self._state[nested.CLOCK] = max(int(self._state[nested.CLOCK]), from_us)

    def pass_by(self, until_us: int, shelf: Int64s) -> Iterator[Int64s]:
        self.expect(until_us)
        self._state[nested.GOING] = 1
        return self._run(NO_ARRIVALS, shelf, quietly=False)

    def finish(self, shelf: Int64s) -> Iterator[Int64s]:
        self._state[nested.CLOCK] = nested.ENDED
        self._state[nested.GOING] = 1
        return self._run(NO_ARRIVALS, shelf, quietly=False)

    def oldest_needed(self, place: int) -> int:
        return int(self._buffers[nested.TAIL + place])

    def work(self, now_us: int, shelf: Int64s) -> Work:
        return as_work(self.counts, self._held(now_us, shelf))

    def occupancy(self, now_us: int, shelf: Int64s) -> tuple[Int64s, Int64s]:
        """Rows held per input, with those that wait to be looked at: live and stale."""
        live, stale = self._held(now_us, shelf)
        return live, stale

    def _held(self, now_us: int, shelf: Int64s) -> Int64s:
        return held_rows(self.description, self._plan, self._buffers, nested.ARRIVED, now_us, shelf)

    @property
    def trace(self) -> list[tuple[str, int, int, int, int]]:
        """What Mode 1 and Mode 2 did: event, input, serial, and the period that held then."""
        rows = self._trace[: self._state[nested.TRACED]].tolist()
        return [(EVENTS[event], place, serial, low, high) for event, place, serial, low, high in rows]

    def _run(self, arrivals: ArrivedRows, shelf: Int64s, *, quietly: bool) -> Iterator[Int64s]:
        plan = self._plan.aim(shelf)
        columns = addresses(arrivals)
        self._state[nested.AT_ARRIVAL] = 0
        while True:
            tables = (plan, writable_address(self._buffers), writable_address(self._state))
            outcome, count = kernel.merge_join(
                *columns, len(arrivals), *tables, self.counts, self._trace, quietly, self._out.table
            )
            if count:
                yield self._out.table[:, :count]
            if outcome == kernel.WAITS:
                return
            if outcome == kernel.IS_LOST:
                raise SweepError("the plain restart rule of LCA goes in circles on these rows; use the corrected one")
