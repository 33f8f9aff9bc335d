"""SUM, AVG, VARIANCE and STDDEV from exact sums, each rounded once when it is read."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from watersmeet.errors import DataError
from watersmeet.operators.continuous.aggregates.columns import column, grown, live, powers_of_ten
from watersmeet.operators.continuous.aggregates.contract import BySlots, Cells, Int64s, Shares
from watersmeet.operators.continuous.aggregates.numbers import Numbers, Totals
from watersmeet.operators.kernels.digits import FLOAT, UNSIGNED
from watersmeet.operators.kernels.sums import (
    NEVER,
    float_range,
    mean_exactly,
    sum_decimals,
    sum_floats,
    sum_integers,
    vary_exactly,
)
from watersmeet.plan.expressions import Aggregate, to_text


class IntegerSum(BySlots):
    """SUM of whole numbers, which must fit BIGINT whenever it is read."""

    STATE = ("_counts", "_sums")

    def __init__(self, aggregate: Aggregate) -> None:
        self._text = to_text(aggregate)
        self._numbers = Numbers.of(aggregate.args[0].type)
        self._counts: Int64s = np.zeros(0, np.int64)
        self._sums: Int64s = np.zeros((0, 2), np.int64)

    def apply(self, changes: Cells, values: pa.Array | None, order: Int64s) -> pa.Array:
        out = np.zeros(len(changes), np.int64)
        valid = np.empty(len(changes), np.bool_)
        overflow = sum_integers(
            changes.groups, live(changes, values), self._numbers.words(values), self._numbers.kind == UNSIGNED,
            changes.ends, self._counts, self._sums, out, valid,
        )  # fmt: skip
        if overflow != NEVER:
            raise too_large(self._text, "the range of BIGINT", "DECIMAL(38, 0) or DOUBLE")
        return column(pa.int64(), out, valid)

    def grow(self, groups: int) -> None:
        self._counts, self._sums = grown(self._counts, groups), grown(self._sums, groups)

    def shares(self, groups: Int64s) -> Shares:
        return Shares({"counts": self._counts[groups], "sums": self._sums[groups]}, {})

    def take_over(self, groups: Int64s, shares: Shares) -> None:
        self._counts[groups], self._sums[groups] = shares.numbers["counts"], shares.numbers["sums"]

    @property
    def nbytes(self) -> int:
        return self._counts.nbytes + self._sums.nbytes


class _Moments(BySlots):
    """Counts and exact sums per group; NaN and infinities are counted apart, so that they can leave again."""

    STATE: ClassVar[tuple[str, ...]] = ("_counts", "_specials", "_sums")

    def __init__(self, aggregate: Aggregate) -> None:
        self._numbers = Numbers.of(aggregate.args[0].type)
        self._counts: Int64s = np.zeros(0, np.int64)
        self._specials: Int64s = np.zeros((0, 3), np.int64)
        self._sums = Totals(self._numbers.digits)

    def _cover(self, words: Int64s, lives: Int64s) -> None:
        if self._numbers.kind == FLOAT:
            self._sums.cover(*float_range(words, lives))

    def grow(self, groups: int) -> None:
        self._counts = grown(self._counts, groups)
        self._sums.rows = grown(self._sums.rows, groups)
        if self._numbers.kind == FLOAT:
            self._specials = grown(self._specials, groups)

    @property
    def _totals(self) -> dict[str, Totals]:
        return {"sums": self._sums}

    def shares(self, groups: Int64s) -> Shares:
        numbers, columns = {"counts": self._counts[groups]}, {}
        if self._numbers.kind == FLOAT:
            numbers["specials"] = self._specials[groups]
        for name, totals in self._totals.items():
            numbers[name], columns[name] = totals.shares(groups)
        return Shares(numbers, columns)

    def take_over(self, groups: Int64s, shares: Shares) -> None:
        self._counts[groups] = shares.numbers["counts"]
        if self._numbers.kind == FLOAT:
            self._specials[groups] = shares.numbers["specials"]
        for name, totals in self._totals.items():
            totals.take_over(groups, shares.numbers[name], shares.columns[name])

    @property
    def nbytes(self) -> int:
        return self._counts.nbytes + self._specials.nbytes + self._sums.rows.nbytes


class FloatSum(_Moments):
    """SUM and AVG of doubles: the double nearest to the exact sum or mean; a sum beyond the largest is infinite."""

    def __init__(self, aggregate: Aggregate) -> None:
        super().__init__(aggregate)
        self._mean = aggregate.function == "avg"

    def apply(self, changes: Cells, values: pa.Array | None, order: Int64s) -> pa.Array:
        words, lives = self._numbers.words(values), live(changes, values)
        self._cover(words, lives)
        out, valid = np.zeros(len(changes), np.int64), np.empty(len(changes), np.bool_)
        sum_floats(
            words, changes.groups, lives, changes.ends, self._sums.base, self._counts, self._sums.rows,
            self._specials, self._mean, out, valid,
        )  # fmt: skip
        return column(pa.float64(), out, valid)


class DecimalSum(_Moments):
    """SUM of decimals, which must fit 38 digits whenever it is read."""

    def __init__(self, aggregate: Aggregate) -> None:
        super().__init__(aggregate)
        self._type = aggregate.type
        self._text = to_text(aggregate)

    def apply(self, changes: Cells, values: pa.Array | None, order: Int64s) -> pa.Array:
        out, valid = np.zeros(2 * len(changes), np.int64), np.empty(len(changes), np.bool_)
        overflow = sum_decimals(
            self._numbers.words(values), changes.groups, live(changes, values), changes.ends, self._counts,
            self._sums.rows, out, valid,
        )  # fmt: skip
        if overflow != NEVER:
            raise too_large(self._text, "the 38 digits of a decimal", "DOUBLE")
        return column(self._type, out, valid)


class ExactMean(_Moments):
    """AVG of integers and decimals: the double nearest to the exact mean."""

    def __init__(self, aggregate: Aggregate) -> None:
        super().__init__(aggregate)
        self._divisors = np.array([1, *powers_of_ten(self._numbers.scale)], np.int64)

    def apply(self, changes: Cells, values: pa.Array | None, order: Int64s) -> pa.Array:
        out, valid = np.zeros(len(changes), np.int64), np.empty(len(changes), np.bool_)
        mean_exactly(
            self._numbers.kind, self._numbers.words(values), changes.groups, live(changes, values), changes.ends,
            self._counts, self._sums.rows, self._divisors, out, valid,
        )  # fmt: skip
        return column(pa.float64(), out, valid)


class Variance(_Moments):
    """VARIANCE of a sample, or of all there is, exact up to one rounding; STDDEV is its square root. NULL for a sample
    of fewer than two values."""

    STATE = ("_counts", "_specials", "_sums", "_squares")

    def __init__(self, aggregate: Aggregate) -> None:
        super().__init__(aggregate)
        self._root = aggregate.function.startswith("stddev")
        self._less = 0 if aggregate.function.endswith("_pop") else 1
        self._squares = Totals(self._numbers.digits, times=2)
        self._divisors = np.array([1, 1, *powers_of_ten(2 * self._numbers.scale)], np.int64)

    def apply(self, changes: Cells, values: pa.Array | None, order: Int64s) -> pa.Array:
        words, lives = self._numbers.words(values), live(changes, values)
        self._cover(words, lives)
        out = np.zeros(len(changes), np.int64)
        valid = np.empty(len(changes), np.bool_)
        vary_exactly(
            self._numbers.kind, words, changes.groups, lives, changes.ends, self._sums.base, self._numbers.exponent,
            self._counts, self._sums.rows, self._squares.rows, self._specials, self._divisors, self._less, out,
            valid,
        )  # fmt: skip
        variances: Any = out.view(np.float64)
        return column(pa.float64(), np.sqrt(variances) if self._root else variances, valid)

    def _cover(self, words: Int64s, lives: Int64s) -> None:
        super()._cover(words, lives)
        if self._numbers.kind == FLOAT and self._sums.rows.shape[1]:
            self._squares.cover(self._sums.base, self._sums.base + self._sums.rows.shape[1] - 1)

    @property
    def _totals(self) -> dict[str, Totals]:
        return {"sums": self._sums, "squares": self._squares}

    def grow(self, groups: int) -> None:
        super().grow(groups)
        self._squares.rows = grown(self._squares.rows, groups)

    @property
    def nbytes(self) -> int:
        return super().nbytes + self._squares.rows.nbytes


def too_large(text: str, limit: str, wider: str) -> DataError:
    return DataError(f"{text} went beyond {limit}", hint=f"sum in a wider type: CAST the argument AS {wider}")
