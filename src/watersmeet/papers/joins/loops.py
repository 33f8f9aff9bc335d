"""K05's and GO03's joins: nested loops over windows, with or without hash buckets, one new row or many at a time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from watersmeet.dataclass import dataclass
from watersmeet.model.time import BEGINNING_US, FOREVER_US
from watersmeet.operators.kernels.memory import writable_address
from watersmeet.papers.joins.contract import COUNTS, DEATHS, FIRST_CODE, TIMES, ArrivedRows, Int64s, Work
from watersmeet.papers.joins.kernels import classic_buffers as buffers
from watersmeet.papers.joins.kernels import classic_loops as kernel
from watersmeet.papers.joins.loop_plan import LoopPlan
from watersmeet.physical.strategy import JoinStrategy

OUTPUT_ROWS = 1 << 16
FIRST_ARENA = 1 << 12  # words


@dataclass(frozen=True)
class Slips:
    """What earlier proposals did wrong, and the papers warn of; never reachable from SQL, only for comparison.

    no_time_tests: GO03's naive lazy join, which does not test members' times against the new row.
    purge_to_now: lazy re-evaluation that forgets what is dead at its own moment, not at the new rows'.
    insert_only: the nested loops of Viglas and Naughton, which do not invalidate the window they probe.
    """

    no_time_tests: bool = False
    purge_to_now: bool = False
    insert_only: bool = False


class LoopJoin:
    """One algorithm of the family, as the strategy's method says. Holds the buffers; follows contract.Algorithm."""

    STATE = (
        "counts", "state", "pass_at_us", "of_inputs", "of_tables", "heads", "free", "arenas", "next_pass_us", "due_us",
    )  # fmt: skip

    def __init__(self, strategy: JoinStrategy, slips: Slips | None = None, output_rows: int = OUTPUT_ROWS) -> None:
        self.method = strategy.method
        self.slips = slips = slips or Slips()
        self.output_rows = output_rows
        self.layout = LoopPlan(strategy, no_time_tests=slips.no_time_tests, insert_only=slips.insert_only)
        self.inputs = self.layout.inputs
        self.tables = self.layout.tables
        self.counts = np.zeros(COUNTS, np.int64)
        self.state = np.zeros((kernel.STATE_FIELDS, buffers.MAX_DEPTH), np.int64)
        self.state[kernel.SCALARS, kernel.AT_DEPTH] = -1
        self.plan = self._empty_plan()
        buckets = [max(1, int(count)) for count in self.tables[:, buffers.BUCKETS]]
        self.heads = [np.zeros((count, buffers.HEAD_FIELDS), np.int64) for count in buckets]
        self.free = [np.full(buffers.BLOCK_SIZES, -1, np.int64) for _ in buckets]
        # One word, so that there is an address to take; the first bucket that needs a block makes it grow.
        self.arenas = [np.empty(1, np.int64) for _ in buckets]
        self.next_pass_us = BEGINNING_US
        self.due_us: int | None = None  # when the new rows that wait are to be joined
        self._out = np.empty((len(self.inputs), 0), np.int64)
        self._settle_in()

    def _empty_plan(self) -> Int64s:
        plan = np.zeros(buffers.PLAN_FIELDS, np.int64)
        plan[buffers.NEXT_PASS] = BEGINNING_US
        plan[buffers.FULL_TABLE] = -1
        plan[buffers.PASS_EVERY] = 0 if self.method.is_lazy else self.method.expire_us or 0
        plan[buffers.INPUT_COUNT] = len(self.inputs)
        plan[buffers.ALTERNATIVES] = self.layout.alternatives
        return plan

    # What of the kernels' own tables is worth saving: addresses mean nothing elsewhere.

    @property
    def pass_at_us(self) -> int:
        return int(self.plan[buffers.NEXT_PASS])

    @pass_at_us.setter
    def pass_at_us(self, time_us: int) -> None:
        self.plan[buffers.NEXT_PASS] = time_us

    @property
    def of_inputs(self) -> Int64s:
        return _without(self.inputs, buffers.TIMES_AT, buffers.DEATHS_AT)

    @of_inputs.setter
    def of_inputs(self, inputs: Int64s) -> None:
        self.inputs[:] = inputs

    @property
    def of_tables(self) -> Int64s:
        # What is marked as cleaned is so until the next arrival, and their count begins anew.
        marks = (buffers.MARK_ARRIVAL, buffers.MARK_BUCKET)
        return _without(self.tables, buffers.HEADS, buffers.FREE, buffers.ARENA, *marks)

    @of_tables.setter
    def of_tables(self, tables: Int64s) -> None:
        self.tables[:] = tables

    def loaded(self) -> None:
        self._settle_in()

    # -- the contract -------------------------------------------------------------------------------------------

    def arrive(self, arrivals: ArrivedRows, shelf: Int64s) -> Iterator[Int64s]:
        self._aim(shelf)
        if not len(arrivals):
            return
        if not self.method.is_lazy:
            yield from self._one_by_one(arrivals)
        elif self.method.at_every_push:
            self._keep(arrivals)
            # No new row is older than the first, so what is dead at its time meets none of them.
            yield from self._refresh(int(arrivals.times[-1]), int(arrivals.times[0]))
        else:
            yield from self._from_time_to_time(arrivals)

    def take_back(self, arrivals: ArrivedRows, shelf: Int64s) -> None:
        self._aim(shelf)
        self._keep(arrivals)
        self.inputs[:, buffers.NEW_FROM] = self.inputs[:, buffers.NEXT]

    def finish(self, shelf: Int64s) -> Iterator[Int64s]:
        self._aim(shelf)
        yield from self._due(FOREVER_US)

    def oldest_needed(self, place: int) -> int:
        first, new = int(self.inputs[place, buffers.FIRST]), int(self.inputs[place, buffers.NEW_FROM])
        if self.slips.insert_only:
            return int(self.tables[self.inputs[place, buffers.TABLE_FROM], buffers.OLDEST])
        if not self.method.is_lazy:
            return first
        # New rows wait to be joined, also of an input that no loop visits.
        return min(first, new) if self.layout.is_visited(place) else new

    def work(self, now_us: int, shelf: Int64s) -> Work:
        live, stale = self.occupancy(now_us, shelf)
        return Work(*map(int, (*self.counts, live.sum(), stale.sum())))

    # -- what only these can do ---------------------------------------------------------------------------------

    @property
    def lag_us(self) -> int:
        """How long new rows may wait to be joined."""
        return 0 if self.method.at_every_push else self.method.refresh_us or 0

    def advance(self, until_us: int, shelf: Int64s) -> Iterator[Int64s]:
        """Every row before this time has arrived: join what was to be joined by then."""
        self._aim(shelf)
        yield from self._due(until_us)

    def resume(self, until_us: int, shelf: Int64s) -> None:
        """Rows were taken back: those whose moment had not come before this time still have to be joined."""
        if self.method.refresh_us is None or self.method.at_every_push:
            return
        self._aim(shelf)
        # The last moment that lay before this time: `_due` joins at a moment only once time has passed it.
        joined_until = (until_us - 1) // self.method.refresh_us * self.method.refresh_us
        waiting = [self._first_after(place, joined_until) for place in range(len(self.inputs))]
        self.inputs[:, buffers.NEW_FROM] = waiting
        waits = any(self.inputs[place, buffers.NEXT] > first for place, first in enumerate(waiting))
        self.due_us = joined_until + self.method.refresh_us if waits else None

    def occupancy(self, now_us: int, shelf: Int64s) -> tuple[Int64s, Int64s]:
        """Rows held per input, live and stale; a row that is in two tables of its input counts twice."""
        self._aim(shelf)
        live = np.zeros(len(self.inputs), np.int64)
        held = np.zeros(len(self.inputs), np.int64)
        for place, one in enumerate(self.inputs):
            first, past = int(one[buffers.TABLE_FROM]), int(one[buffers.TABLE_TO])
            live[place] = (past - first) * buffers.live_rows(self._at, place, now_us)
            for table in self.tables[first:past]:
                in_list = one[buffers.NEXT] - table[buffers.OLDEST]
                held[place] += in_list if table[buffers.BUCKETS] == 0 else table[buffers.HELD]
        return live, held - live

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in (*self.heads, *self.arenas))

    # -- eager --------------------------------------------------------------------------------------------------

    def _one_by_one(self, arrivals: ArrivedRows) -> Iterator[Int64s]:
        out, scalars, end = self._output(), self.state[kernel.SCALARS], len(arrivals)
        scalars[kernel.AT_ARRIVAL] = 0
        while scalars[kernel.AT_ARRIVAL] < end:
            count = kernel.arrive(self._at, arrivals.streams, arrivals.serials, arrivals.times, end, out)
            if count:
                yield out[:, :count]
            self._grow_what_is_full()
        buffers.settle(self._at, int(arrivals.times[-1]), not self._invalidates)

    @property
    def _invalidates(self) -> bool:
        return self.method.invalidates and not self.slips.insert_only

    # -- lazy ---------------------------------------------------------------------------------------------------

    def _from_time_to_time(self, arrivals: ArrivedRows) -> Iterator[Int64s]:
        """Insert what arrives; join at multiples of the interval, once a row after such a moment has come."""
        assert self.method.refresh_us is not None
        # Rounded up: the batch of a moment is NOW - τ < ts <= NOW, not <= on both sides as printed (AMB-05).
        dues = -(-arrivals.times // self.method.refresh_us) * self.method.refresh_us
        cuts = [0, *(np.flatnonzero(np.diff(dues)) + 1), len(arrivals)]
        for start, end in pairwise(cuts):
            due_us = int(dues[start])
            if self.due_us is not None and self.due_us < due_us:
                yield from self._refresh(self.due_us, self.due_us - self.method.refresh_us)
            self._keep(arrivals, start, end)
            self.due_us = due_us

    def _due(self, until_us: int) -> Iterator[Int64s]:
        if self.due_us is not None and self.due_us < until_us and self.method.refresh_us is not None:
            yield from self._refresh(self.due_us, self.due_us - self.method.refresh_us)

    def _refresh(self, now_us: int, since_us: int) -> Iterator[Int64s]:
        """Join all new rows, which are later than `since_us`, with everything before each of them."""
        plan, out = self._at, self._output()
        # The oldest new row is just after `since_us`, and must still find what was live then (GO03: NOW - τ - T).
        self._expire(now_us, now_us if self.slips.purge_to_now else since_us)
        self.inputs[:, buffers.NEW_TO] = self.inputs[:, buffers.NEXT]
        for origin in self.layout.origins:
            if self.inputs[origin, buffers.NEW_FROM] == self.inputs[origin, buffers.NEW_TO]:
                continue
            resumed = False
            while not resumed or self.state[kernel.SCALARS, kernel.AT_DEPTH] >= 0:
                count = kernel.refresh(plan, origin, resumed, now_us, out)
                resumed = True
                if count:
                    yield out[:, :count]
        self.inputs[:, buffers.NEW_FROM] = self.inputs[:, buffers.NEXT]
        self.due_us = None

    def _expire(self, now_us: int, dead_at_us: int) -> None:
        """A pass over all buffers, at most as often as rows are joined."""
        every = self.method.expire_us
        if every is None or now_us >= self.next_pass_us:
            buffers.pass_over(self._at, dead_at_us)
            self.next_pass_us = BEGINNING_US if every is None else (now_us // every + 1) * every

    # -- memory -------------------------------------------------------------------------------------------------

    def _keep(self, arrivals: ArrivedRows, start: int = 0, end: int | None = None) -> None:
        end = len(arrivals) if end is None else end
        while start < end:
            start = buffers.keep(self._at, arrivals.streams, arrivals.serials, arrivals.times, start, end)
            self._grow_what_is_full()

    def _grow_what_is_full(self) -> None:
        """Give the table that a kernel found full an arena of twice the size."""
        t = int(self.plan[buffers.FULL_TABLE])
        if t < 0:
            return
        # Room for the largest bucket to double; a smaller one always fits in twice the size.
        largest_block = 2 * buffers.COLUMNS * int(self.heads[t][:, buffers.CAPACITY].max())
        size = max(FIRST_ARENA, 2 * self.arenas[t].size, self.arenas[t].size + largest_block)
        grown = np.empty(size, np.int64)
        used = int(self.tables[t, buffers.ARENA_USED])
        grown[:used] = self.arenas[t][:used]
        self.arenas[t] = grown
        self.plan[buffers.FULL_TABLE] = -1
        self._locate(t)

    def _output(self) -> Int64s:
        if self._out.shape[1] != self.output_rows:
            self._out = np.empty((len(self.inputs), self.output_rows), np.int64)
        return self._out

    def _first_after(self, place: int, time_us: int) -> int:
        """The serial of the first row of an input that is later than a time; rows lie in time order."""
        low, high = int(self.inputs[place, buffers.FIRST]), int(self.inputs[place, buffers.NEXT])
        return int(buffers.first_later(int(self.inputs[place, buffers.TIMES_AT]), low, high, time_us))

    def _aim(self, shelf: Int64s) -> None:
        """Write down where the rows lie now."""
        layout = self.layout
        self.inputs[:, buffers.TIMES_AT] = shelf[:, TIMES]
        self.inputs[:, buffers.DEATHS_AT] = shelf[:, DEATHS]
        layout.keys[: len(layout.key_codes)] = shelf[layout.key_inputs, FIRST_CODE + layout.key_codes]
        tests = layout.tests[: len(layout.own_codes)]
        tests[:, kernel.OWN] = shelf[layout.own_inputs, FIRST_CODE + layout.own_codes]
        tests[:, kernel.BOUND] = shelf[layout.bound_inputs, FIRST_CODE + layout.bound_codes]

    def _settle_in(self) -> None:
        """Write down where this object's own tables lie: after it is made, and after it was saved and loaded."""
        layout, plan = self.layout, self.plan
        for t in range(len(self.heads)):
            self._locate(t)
        for at, array in (
            (buffers.INPUTS, self.inputs),
            (buffers.TABLES, self.tables),
            (buffers.KEYS, layout.keys),
            (buffers.STEPS, layout.steps),
            (buffers.TESTS, layout.tests),
            (buffers.ORIGIN_DEPTHS, layout.origin_depths),
            (buffers.LIMITS, layout.limits),
            (buffers.STATE, self.state),
            (buffers.COUNTS, self.counts),
        ):
            plan[at] = writable_address(array)
        self._at = writable_address(plan)

    def _locate(self, t: int) -> None:
        self.tables[t, buffers.HEADS] = writable_address(self.heads[t])
        self.tables[t, buffers.FREE] = writable_address(self.free[t])
        self.tables[t, buffers.ARENA] = writable_address(self.arenas[t])
        self.tables[t, buffers.ARENA_SIZE] = self.arenas[t].size


def _without(table: Int64s, *columns: int) -> Int64s:
    """The table with nothing in some columns."""
    kept = table.copy()
    kept[:, list(columns)] = 0
    return kept
