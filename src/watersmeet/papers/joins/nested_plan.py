"""The plan of nested loops as the flat table that kernels.nested reads."""

from __future__ import annotations

import numpy as np

from watersmeet.operators.kernels.memory import address
from watersmeet.papers.joins.contract import DEATHS, FIRST_CODE, TIMES, Int64s
from watersmeet.papers.joins.description import JoinDescription, Operator, Predicate
from watersmeet.papers.joins.kernels import nested as kernel
from watersmeet.papers.joins.periods import bounds_table, limits_table

OPERATORS: dict[Operator, int] = {
    "eq": kernel.EQUAL,
    "ne": kernel.UNEQUAL,
    "lt": kernel.LESS,
    "le": kernel.AT_MOST,
    "gt": kernel.MORE,
    "ge": kernel.AT_LEAST,
}
MIRRORED: dict[Operator, Operator] = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


class NestedPlan:
    """For each input the order of visits, cyclically after it, and what is tested at each; `aim` adds addresses."""

    def __init__(self, description: JoinDescription, *, timed: bool, refined: bool) -> None:
        self.inputs = description.inputs
        self.table = np.zeros(kernel.PLAN_SIZE, np.int64)
        self.table[kernel.INPUTS] = self.inputs
        self.table[kernel.PROVEN] = kernel.NEVER
        self.table[kernel.TIMED] = timed
        self.table[kernel.COUNTED] = bool(description.counted)
        self.table[kernel.ALTERNATIVES] = len(description.alternatives) if refined else 0
        limits = limits_table(description.limits, kernel.MAX_INPUTS)
        self.table[kernel.LIMITS : kernel.LIMITS + limits.size] = limits.ravel()
        self._bounds = bounds_table(description.alternatives, range(self.inputs))
        tests: list[list[int]] = []
        for origin in range(self.inputs):
            self._visit_from(origin, description.predicates, tests)
        self._tests = PredicateTable(tests)

    def _visit_from(self, origin: int, predicates: tuple[Predicate, ...], tests: list[list[int]]) -> None:
        # H02: from a new row of A through B, C, D; from one of B through C, D, A.
        visits = [(origin + d) % self.inputs for d in range(self.inputs)]
        for d, v in enumerate(visits):
            at = kernel.MAX_INPUTS * origin + d
            self.table[kernel.VISITS + at] = v
            self.table[kernel.SPANS + 2 * at] = len(tests)
            tests += tests_of(v, visits[:d], predicates)
            self.table[kernel.SPANS + 2 * at + 1] = len(tests)

    def aim(self, shelf: Int64s) -> int:
        """Write down where rows lie now; returns the address of the plan."""
        self.table[kernel.TIMES : kernel.TIMES + self.inputs] = shelf[: self.inputs, TIMES]
        self.table[kernel.DEATHS : kernel.DEATHS + self.inputs] = shelf[: self.inputs, DEATHS]
        self.table[kernel.TESTS] = self._tests.aim(shelf)
        self.table[kernel.BOUNDS] = address(self._bounds)
        return address(self.table)


def tests_of(own: int, bound: list[int], predicates: tuple[Predicate, ...]) -> list[list[int]]:
    """What a candidate of one input is tested for when rows of others are bound: equalities first, as they decide
    most. Each test is own code, bound input and its code, operator."""
    found: list[list[int]] = []
    for p in sorted(predicates, key=lambda p: p.operator != "eq"):
        if p.left == own and p.right in bound:
            found.append([own, p.left_code, p.right, p.right_code, OPERATORS[p.operator]])
        elif p.right == own and p.left in bound:
            found.append([own, p.right_code, p.left, p.left_code, OPERATORS[MIRRORED[p.operator]]])
    return found


class PredicateTable:
    """Tests with the addresses of the codes they compare; `positions` renumbers the inputs that are bound."""

    def __init__(self, tests: list[list[int]], positions: Int64s | None = None) -> None:
        columns = np.array(tests, np.int64).reshape(-1, 5).T
        self._own, self._own_code, self._bound, self._bound_code, operators = columns
        # At least one row, as an empty array has no address to take.
        self._table = np.zeros((max(1, columns.shape[1]), kernel.TEST_FIELDS), np.int64)
        if tests:
            self._table[:, kernel.BOUND_INPUT] = self._bound if positions is None else positions[self._bound]
            self._table[:, kernel.OPERATOR] = operators

    def aim(self, shelf: Int64s) -> int:
        if self._own.size:
            self._table[:, kernel.OWN_CODES] = shelf[self._own, FIRST_CODE + self._own_code]
            self._table[:, kernel.BOUND_CODES] = shelf[self._bound, FIRST_CODE + self._bound_code]
        return address(self._table)
