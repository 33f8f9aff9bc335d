"""Counts what each step of a join's routes finds, for EXPLAIN ANALYZE. It runs every part of a route by itself, so the
join takes a few times as long."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace

import numpy as np

from watersmeet.errors import DataError
from watersmeet.model.time import FOREVER_US
from watersmeet.operators.codes import Codes
from watersmeet.operators.contract import Rows
from watersmeet.operators.join.combinations import Combinations
from watersmeet.operators.join.keeping import Keeping
from watersmeet.operators.join.layout import Layout
from watersmeet.operators.join.program import OUTPUT_ROWS, Program
from watersmeet.operators.kernels.walk import LATER
from watersmeet.physical.strategy import Route
from watersmeet.plan.expressions import Expression


class Audit(Keeping):
    """Keeps everything, and beside it accounts for every step: `arrived` counts the new rows by origin, `carried` the
    combinations after each step of its route, as if each row was joined when it came. Its join must be given rows in
    time order (see time_order.InTimeOrder)."""

    def __init__(self, layout: Layout) -> None:
        super().__init__(layout)
        strategy = layout.strategy
        self.arrived = dict.fromkeys((route.origin for route in strategy.routes), 0)
        self.carried = {route.origin: [0] * len(route.steps) for route in strategy.routes}
        self.most_held = dict.fromkeys(self.stores, 0)
        self.windows_full = False
        self._parts = {route.origin: self._parts_of(route) for route in strategy.routes}
        self._first_us = FOREVER_US
        # Windows that never end never fill up, so they are not waited for.
        kept_us = [strategy.join.retention_us(alias) for alias in strategy.join.windows.streams]
        self._spans_us = [kept for kept in kept_us if kept < FOREVER_US]

    def _parts_of(self, route: Route) -> list[Program]:
        """The first step, the first two, …; each over rows that are not newer than the new one."""
        layout, counted = self.layout, bool(self.layout.mortal)
        windows = layout.strategy.join.windows
        parts = []
        for d in range(1, len(route.steps) + 1):
            part = Program(replace(route, steps=route.steps[:d]), windows, layout.code_positions, counted=counted)
            for step, stream in enumerate(part.visits[1:]):
                if not layout.inputs[stream].is_table:
                    # Against the new row, which is bound first: depth 0.
                    later = part.limits[:, step, 0, LATER]
                    np.minimum(later, self._may_follow(route.origin, stream), out=later)
            parts.append(part)
        return parts

    def _may_follow(self, origin: str, stream: str) -> int:
        """How much later a row may be and still come before; of equal times, the first in FROM comes first."""
        places = list(self.layout.inputs)
        return 0 if places.index(stream) < places.index(origin) else -1

    def rounds(self, batch: Mapping[str, Rows], *, quietly: bool) -> Iterator[Mapping[str, Rows]]:
        # The join takes the batch in first. What is counted does not depend on that, as each row looks back only.
        yield batch
        firsts = [int(rows.times.min()) for rows in batch.values() if len(rows)]
        self._first_us = min([self._first_us, *firsts])
        for alias, store in self.stores.items():
            self.most_held[alias] = max(self.most_held[alias], len(store))
        for alias, rows in batch.items():
            self._count(alias, rows)

    def _count(self, alias: str, rows: Rows) -> None:
        """What a row finds that is looked at when it comes, in the order of time."""
        full = np.flatnonzero(rows.times >= self._full_from())
        admitted = self.door.admit(alias, rows.take(full) if full.size else rows)
        # Rows that come while windows fill find too few, which would make any estimate look too high.
        if full.size and not self.windows_full:
            self.windows_full = True
            self.arrived = dict.fromkeys(self.arrived, 0)
            self.carried = {origin: [0] * len(counts) for origin, counts in self.carried.items()}
        elif self.windows_full and not full.size:
            return
        self.arrived[alias] += len(admitted)
        probing = {code: admitted.codes[code] for code in self.layout.strategy.probing_codes(alias)}
        steps = self.layout.strategy.route(alias).steps
        for d, part in enumerate(self._parts[alias]):
            then = [test for step in steps[: d + 1] for test in step.then]
            pieces = part.run(admitted.rows.times, None, probing, self.stores, OUTPUT_ROWS)
            self.carried[alias][d] += sum(self._passing(part.visits, piece, admitted.rows, then) for piece in pieces)

    def _passing(self, visits: list[str], numbers: Codes, rows: Rows, then: list[Expression]) -> int:
        """How many go on. A condition that fails for one that is no answer is tested on whole ones."""
        found = Combinations(visits, numbers, rows, self.stores, self.layout.inputs, self.layout.code_positions)
        for test in then:
            with suppress(DataError):
                found = found.where(test)
        return len(found)

    def _full_from(self) -> int:
        """When windows have filled up; what was counted before then gives way to what is counted after."""
        return self._first_us + max(self._spans_us, default=0)
