"""Formulas of numbers written as programs for kernels/formulas, which a few rows run through in one call."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from watersmeet.operators.few_rows import cell_of
from watersmeet.operators.kernels import formulas as kernel
from watersmeet.operators.scalar.comparisons import comparison_type
from watersmeet.operators.scalar.values import convert
from watersmeet.plan.expressions import Call, Column, Expression, Literal

INT64, DOUBLE, BOOL = pa.int64(), pa.float64(), pa.bool_()
_LOADED = {
    pa.int8(): kernel.INT8, pa.int16(): kernel.INT16, pa.int32(): kernel.INT32, pa.int64(): kernel.INT64,
    pa.float64(): kernel.FLOAT64,
}  # fmt: skip
_BY_WIDTH = {1: kernel.INT8, 2: kernel.INT16, 4: kernel.INT32, 8: kernel.INT64}
_SUMS = {
    "add": (kernel.ADD_INTEGERS, kernel.ADD_DOUBLES),
    "subtract": (kernel.SUBTRACT_INTEGERS, kernel.SUBTRACT_DOUBLES),
    "multiply": (kernel.MULTIPLY_INTEGERS, kernel.MULTIPLY_DOUBLES),
}
_EQUAL = (kernel.EQUAL_INTEGERS, kernel.EQUAL_DOUBLES)
_LESS = (kernel.LESS_INTEGERS, kernel.LESS_DOUBLES)
# Which comparison it is, whether its sides change places, and whether its outcome is turned round.
_COMPARISONS = {
    "eq": (_EQUAL, False, False), "ne": (_EQUAL, False, True),
    "lt": (_LESS, False, False), "ge": (_LESS, False, True),
    "gt": (_LESS, True, False), "le": (_LESS, True, True),
}  # fmt: skip
_LOGIC = {"and": kernel.AND, "or": kernel.OR}


class NoFormulaError(Exception):
    """It takes more than numbers to compute this."""


class Formulas:
    """Several formulas in one table of steps. `source` numbers the columns that they read."""

    def __init__(self, source: Callable[[Column], int]) -> None:
        self.steps: list[tuple[int, int]] = []
        self.doubles: list[float] = []
        self._source = source
        self._depth = 0

    def add(self, expression: Expression, kind: pa.DataType) -> tuple[int, int]:
        """Write down a formula that gives this type; from which step to which."""
        first, self._depth = len(self.steps), 0
        self._write(expression, kind)
        return first, len(self.steps)

    def add_column(self, column: Column) -> tuple[int, int]:
        """Write down that a column of any type of fixed width is given as it is, whatever its values mean."""
        cell, first = cell_of(column.type), len(self.steps)
        if cell is None:
            raise NoFormulaError
        self._step(_BY_WIDTH[cell.itemsize], self._source(column))
        return first, first + 1

    def add_all(self, conditions: list[Expression]) -> int:
        """Write down that all conditions hold, as the first formula; up to which step."""
        self._depth = 0
        for number, condition in enumerate(conditions):
            self._write(condition, BOOL)
            if number:
                self._step(kernel.AND, pops=1)
        return len(self.steps)

    def _step(self, operation: int, operand: int = 0, *, pushes: int = 0, pops: int = 0) -> None:
        self.steps.append((operation, operand))
        self._depth += pushes - pops
        if self._depth > kernel.DEEPEST:
            raise NoFormulaError

    def _write(self, expression: Expression, kind: pa.DataType) -> None:
        match expression:
            case Column(type=found) if found in _LOADED and (kind == DOUBLE or found != DOUBLE):
                self._step(_LOADED[found], self._source(expression), pushes=1)
                self._turned_into(kind, found)
            case Literal(value=int() | float() as value, type=found) if kind in (INT64, DOUBLE) and value is not True:
                self._number(value, found, kind)
            case Call(function=function, args=args, type=found) if function in _SUMS and found in (INT64, DOUBLE):
                self._all(args, found, _SUMS[function])
                self._turned_into(kind, found)
            case Call(function="negate", args=(arg,), type=found) if found in (INT64, DOUBLE):
                self._write(arg, found)
                self._step(kernel.NEGATE_DOUBLE if found == DOUBLE else kernel.NEGATE_INTEGER)
                self._turned_into(kind, found)
            case Call(function=function, args=(left, right)) if function in _COMPARISONS and kind == BOOL:
                self._compare(_COMPARISONS[function], left, right)
            case Call(function=function, args=args) if function in _LOGIC and kind == BOOL:
                self._all(args, BOOL, (_LOGIC[function],) * 2)
            case Call(function="not", args=(arg,)) if kind == BOOL:
                self._write(arg, BOOL)
                self._step(kernel.NOT)
            case _:
                raise NoFormulaError

    def _number(self, value: float, found: pa.DataType, kind: pa.DataType) -> None:
        # Once, and as it would be done for every batch.
        converted = convert(pa.scalar(value, found), kind).as_py()
        if kind == INT64:
            self._step(kernel.INTEGER, int(converted), pushes=1)
        else:
            self.doubles.append(converted)
            self._step(kernel.DOUBLE, len(self.doubles) - 1, pushes=1)

    def _turned_into(self, kind: pa.DataType, found: pa.DataType) -> None:
        if kind == DOUBLE and found != DOUBLE:
            self._step(kernel.TO_DOUBLE)
        elif kind != DOUBLE and (found == DOUBLE or kind != INT64):
            raise NoFormulaError

    def _all(self, args: tuple[Expression, ...], kind: pa.DataType, operations: tuple[int, int]) -> None:
        for number, arg in enumerate(args):
            self._write(arg, kind)
            if number:
                self._step(operations[kind == DOUBLE], pops=1)

    def _compare(self, comparison: tuple[tuple[int, int], bool, bool], left: Expression, right: Expression) -> None:
        operations, swapped, negated = comparison
        kind = comparison_type(left.type, right.type)
        if kind not in (INT64, DOUBLE) and not pa.types.is_integer(kind):
            raise NoFormulaError
        wanted = DOUBLE if kind == DOUBLE else INT64
        self._all((right, left) if swapped else (left, right), wanted, operations)
        if negated:
            self._step(kernel.NOT)
