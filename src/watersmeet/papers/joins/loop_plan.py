"""The loops of every origin, written down as the tables that the kernels read (classic_buffers, classic_loops)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from watersmeet.model.time import FOREVER_US
from watersmeet.model.windows import RowsWindow
from watersmeet.operators.join.program import NO_LIMIT, ORDERS, limits_of
from watersmeet.operators.kernels.walk import EARLIER, LATER
from watersmeet.papers.joins.contract import Int64s
from watersmeet.papers.joins.kernels import classic_buffers as buffers
from watersmeet.papers.joins.kernels import classic_loops as kernel
from watersmeet.papers.joins.shelf import shelf_codes
from watersmeet.physical.strategy import Code, JoinStrategy, Route, Step

INVALIDATIONS = {
    "probe": buffers.PROBE,
    "probe_insert": buffers.PROBE_INSERT,
    "probe_all": buffers.PROBE_ALL,
    "all": buffers.ALL,
}
OPERATORS = {**ORDERS, "eq": kernel.EQUAL, "ne": kernel.UNEQUAL}
Key = tuple[Code, ...]


class LoopPlan:
    """What never changes during a run, except the addresses, which are filled in before each call."""

    def __init__(self, strategy: JoinStrategy, *, no_time_tests: bool = False, insert_only: bool = False) -> None:
        join, method = strategy.join, strategy.method
        self.strategy = strategy
        self.method = method
        self.aliases = [one.alias for one in join.inputs]
        self.place = {alias: i for i, alias in enumerate(self.aliases)}
        self.codes = {a: {c: i for i, c in enumerate(shelf_codes(strategy, a))} for a in self.aliases}
        self.counting = [_counting(one.window) for one in join.inputs]
        self.retention = [self._retention(alias) for alias in self.aliases]
        self.origins = [self.place[route.origin] for route in strategy.routes]
        self.tested = not no_time_tests and not insert_only
        self.buffers = self._buffers()
        self.inputs = self._inputs(insert_only)
        self.tables = self._tables()
        self._number_keys()
        self.limits, self.alternatives = self._limits()
        self.origin_depths = np.zeros(len(self.aliases), np.int64)
        self.steps = np.zeros((len(self.aliases), buffers.MAX_DEPTH, kernel.STEP_FIELDS), np.int64)
        self._tests: list[tuple[str, Code, int, Code]] = []
        for route in strategy.routes:
            self._describe(route)
        self._number_tests()

    def is_visited(self, place: int) -> bool:
        return bool(self.inputs[place, buffers.TABLE_FROM] < self.inputs[place, buffers.TABLE_TO])

    def _retention(self, alias: str) -> int:
        retention_us = self.strategy.join.retention_us(alias)
        return retention_us if retention_us < FOREVER_US else NO_LIMIT

    # -- buffers ------------------------------------------------------------------------------------------------

    def _access(self, route: Route, d: int) -> int:
        """How the loop at a depth finds its rows."""
        step = None if d == 0 else route.steps[d - 1]
        # Without an equality to the rows bound before there is no key to look up: such loops scan (GO03's hybrid).
        hashed = step is not None and bool(step.equalities) and self.method.kind.hashes
        if route.visits[d] == route.origin:
            # A lazy join may have many new rows, of which only those with the right key are wanted.
            return kernel.NEW_IN_BUCKET if hashed and self.method.is_lazy else kernel.NEW_ROWS
        return kernel.BUCKET if hashed else kernel.LIST

    def _key(self, route: Route, d: int) -> Key | None:
        """The key of the buffer that a loop runs over, () for a list; None for a loop over new rows alone."""
        access = self._access(route, d)
        if access == kernel.NEW_ROWS:
            return None
        return () if access == kernel.LIST else route.steps[d - 1].key

    def _buffers(self) -> list[tuple[str, Key]]:
        """The buffers that any loop runs over, those of an input together."""
        used: dict[str, dict[Key, None]] = {alias: {} for alias in self.aliases}
        for route in self.strategy.routes:
            for d, alias in enumerate(route.visits):
                key = self._key(route, d)
                if key is not None:
                    used[alias][key] = None
        return [(alias, key) for alias in self.aliases for key in used[alias]]

    def _inputs(self, insert_only: bool) -> Int64s:
        inputs = np.zeros((len(self.aliases), buffers.INPUT_FIELDS), np.int64)
        for i, alias in enumerate(self.aliases):
            mine = [t for t, (of, _) in enumerate(self.buffers) if of == alias]
            inputs[i, buffers.RETENTION] = self.retention[i]
            inputs[i, buffers.COUNTING] = self.counting[i]
            # An input that no loop visits has an empty range, 0 to 0.
            inputs[i, buffers.TABLE_FROM] = min(mine, default=0)
            inputs[i, buffers.TABLE_TO] = max(mine, default=-1) + 1
            if insert_only:
                inputs[i, buffers.INVALIDATE] = buffers.INSERT_ONLY
            elif self.method.invalidates and self.counting[i] == buffers.BY_TIME and alias in self.method.invalidate:
                inputs[i, buffers.INVALIDATE] = INVALIDATIONS[self.method.invalidate[alias]]
        return inputs

    def _tables(self) -> Int64s:
        tables = np.zeros((len(self.buffers), buffers.TABLE_FIELDS), np.int64)
        for t, (alias, key) in enumerate(self.buffers):
            tables[t, buffers.OF_INPUT] = self.place[alias]
            tables[t, buffers.BUCKETS] = self.method.buckets[alias] if key else 0
            # A single integer goes to the bucket of its remainder, as GO03's do; everything else is mixed.
            tables[t, buffers.PLAIN] = int(len(key) == 1 and pa.types.is_integer(key[0].expression.type))
        return tables

    def _number_keys(self) -> None:
        listed: list[Code] = []
        for t, (_, key) in enumerate(self.buffers):
            self.tables[t, buffers.KEY_FROM] = len(listed)
            listed += key
            self.tables[t, buffers.KEY_TO] = len(listed)
        self.key_inputs, self.key_codes = self._where(listed)
        self.keys = np.zeros(max(1, len(listed)), np.int64)

    def _where(self, codes: Sequence[Code]) -> tuple[Int64s, Int64s]:
        inputs = np.array([self.place[code.stream] for code in codes], np.int64)
        return inputs, np.array([self.codes[code.stream][code] for code in codes], np.int64)

    # -- loops --------------------------------------------------------------------------------------------------

    def _describe(self, route: Route) -> None:
        origin = self.place[route.origin]
        k = route.visits.index(route.origin)
        self.origin_depths[origin] = k
        for d, alias in enumerate(route.visits):
            row = self.steps[origin, d]
            key = self._key(route, d)
            row[kernel.INPUT] = self.place[alias]
            row[kernel.TABLE] = -1 if key is None else self.buffers.index((alias, key))
            row[kernel.ACCESS] = self._access(route, d)
            # Rows bound outside of k are tested once it is known (PAIRED).
            row[kernel.TIMED] = int(self.tested and d >= k and self._needs_test(route, d))
            row[kernel.DYING] = self._dying(d, k, self.place[alias])
            row[kernel.PAIRED] = int(self.tested and d == k and any(self._needs_test(route, b) for b in range(k)))
            row[kernel.TEST_FROM] = len(self._tests)
            if d > 0:
                self._add_tests(route, route.steps[d - 1])
                row[kernel.KEYS] = len(route.steps[d - 1].equalities)
            row[kernel.TEST_TO] = len(self._tests)

    def _add_tests(self, route: Route, step: Step) -> None:
        depth = route.visits.index
        self._tests += [("eq", own, depth(bound.stream), bound) for bound, own in step.equalities]
        self._tests += [(c.operator, c.own, depth(c.bound.stream), c.bound) for c in step.comparisons]

    def _number_tests(self) -> None:
        # A loop without tests reads the entry behind those of the others, and does not look at it.
        self.tests = np.zeros((len(self._tests) + 1, kernel.TEST_FIELDS), np.int64)
        for i, (operator, _, depth, _) in enumerate(self._tests):
            self.tests[i, kernel.OPERATOR], self.tests[i, kernel.DEPTH] = OPERATORS[operator], depth
        self.own_inputs, self.own_codes = self._where([own for _, own, _, _ in self._tests])
        self.bound_inputs, self.bound_codes = self._where([bound for _, _, _, bound in self._tests])

    def _dying(self, d: int, k: int, place: int) -> int:
        """What a loop does about ROWS windows. Joined one at a time, rows that have left theirs are gone already."""
        if not self.tested or not any(self.counting):
            return kernel.NOT_DYING
        if d <= k:
            return kernel.BEFORE_DEATHS if d == k else kernel.NOTED
        left_behind = self.method.is_lazy or self.counting[place] == buffers.BY_PARTITION
        return kernel.OUTLIVES if self.counting[place] and left_behind else kernel.NOT_DYING

    # -- times --------------------------------------------------------------------------------------------------

    def _limits(self) -> tuple[Int64s, int]:
        """limits[origin, k, d, b, side] as in walk.py. Among many new rows, only what is before k counts with k."""
        windows = self.strategy.join.windows
        several = len(windows.alternatives) if len(windows.alternatives) > 1 else 0
        limits = np.full((len(self.aliases), several + 1, buffers.MAX_DEPTH, buffers.MAX_DEPTH, 2), NO_LIMIT, np.int64)
        for route in self.strategy.routes:
            mine = limits[self.place[route.origin]]
            mine[:] = limits_of(route.visits, windows)
            if self.method.is_lazy:
                self._only_before_k(route, mine)
        return limits, several

    def _only_before_k(self, route: Route, limits: Int64s) -> None:
        """Before k is: earlier, or at the same time and further ahead in FROM."""
        k = route.visits.index(route.origin)
        for d, alias in enumerate(route.visits):
            if d == k or self.strategy.join.input(alias).is_table:
                continue
            # By (time, place in FROM) every combination has one member that all others are before (AMB-06).
            at_most = 0 if self.place[alias] < self.place[route.origin] else -1
            side = limits[:, d - 1, k, LATER] if d > k else limits[:, k - 1, d, EARLIER]
            np.minimum(side, at_most, out=side)

    def _needs_test(self, route: Route, d: int) -> bool:
        """Whether times must be compared in a loop, or whether removing expired rows has seen to it.

        What is held was not removed at k's time, so no member is older than its own retention, and none is newer
        than k.
        """
        origin = self.place[route.origin]
        for b in range(d):
            later, earlier = self.limits[origin, 0, d - 1, b, LATER], self.limits[origin, 0, d - 1, b, EARLIER]
            if later >= NO_LIMIT and earlier >= NO_LIMIT:
                continue
            if not self.method.invalidates:
                return True
            if later < self._oldest(route, b) or earlier < self._oldest(route, d):
                return True
        return False

    def _oldest(self, route: Route, d: int) -> int:
        """How much older than k the row at a depth may be."""
        return 0 if route.visits[d] == route.origin else self.retention[self.place[route.visits[d]]]


def _counting(window: object) -> int:
    match window:
        case RowsWindow(partition_by=()):
            return buffers.BY_ROWS
        case RowsWindow():
            return buffers.BY_PARTITION
    return buffers.BY_TIME
