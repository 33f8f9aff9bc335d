"""The plan of a left-deep pipeline, for one alternative of the windows, as the table that its kernels read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from watersmeet.operators.kernels.memory import address
from watersmeet.papers.joins.contract import DEATHS, TIMES, Int64s
from watersmeet.papers.joins.description import JoinDescription
from watersmeet.papers.joins.kernels import pipeline as kernel
from watersmeet.papers.joins.kernels.nested import MAX_INPUTS, NEVER
from watersmeet.papers.joins.nested_plan import OPERATORS, PredicateTable, tests_of
from watersmeet.papers.joins.periods import bounds_table, limits_table


class PipelinePlan:
    """Inputs joined in the order of `places`. With several alternatives there is a pipeline for each, and one
    leaves out what those before it find: a path with all times equal goes both ways, but counts once (AMB-17)."""

    def __init__(self, description: JoinDescription, places: Sequence[int], alternative: int) -> None:
        self.inputs = description.inputs
        self.places = np.array(places, np.int64)
        self.reach_us = description.reach_us
        self.positions = np.argsort(self.places)  # the inverse: where in the pipeline a place is
        self.table = np.zeros(kernel.PLAN_SIZE, np.int64)
        self.table[kernel.INPUTS] = self.inputs
        self.table[kernel.PROVEN] = NEVER
        self.table[kernel.COUNTED] = bool(description.counted)
        self.table[kernel.EARLIER_ALTERNATIVES] = alternative
        self._put(kernel.POSITIONS, self.positions)
        self._put(kernel.PLACES, self.places)
        limits = limits_table(description.alternatives[alternative].limits, MAX_INPUTS)
        moved = limits.copy()
        moved[: self.inputs, : self.inputs] = limits[np.ix_(self.places, self.places)]
        self._put(kernel.LIMITS, moved.ravel())
        # Only what comes before: `emit` drops a combination that one of these has given.
        self._bounds = bounds_table(description.alternatives[:alternative], places)
        self._tests = PredicateTable(self._tests_by_node(description), self.positions)

    def _put(self, at: int, values: Int64s) -> None:
        self.table[at : at + values.size] = values

    def _tests_by_node(self, description: JoinDescription) -> list[list[int]]:
        tests: list[list[int]] = []
        for k in range(1, self.inputs):
            own, bound = int(self.places[k]), [int(place) for place in self.places[:k]]
            found = tests_of(own, bound, description.predicates)
            # tests_of puts equalities first, so the key is the first part of the tests.
            keys = sum(operator == OPERATORS["eq"] for *_, operator in found)
            self._put(kernel.SPANS + 2 * k, np.array([len(tests), len(tests) + len(found)]))
            self._put(kernel.KEYS + 2 * k, np.array([len(tests), len(tests) + keys]))
            tests += found
        return tests

    def aim(self, shelf: Int64s) -> int:
        """Write down where rows lie now; returns the address of the plan."""
        self._put(kernel.TIMES, shelf[self.places, TIMES])
        self._put(kernel.DEATHS, shelf[self.places, DEATHS])
        self.table[kernel.TESTS] = self._tests.aim(shelf)
        self.table[kernel.BOUNDS] = address(self._bounds)
        return address(self.table)
