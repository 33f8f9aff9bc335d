"""SUM, AVG and covariances from exact sums, each rounded once when it is read."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pyarrow as pa

from watersmeet.errors import DataError
from watersmeet.operators.continuous.aggregates.columns import column, grown, live, powers_of_ten, words_of
from watersmeet.operators.continuous.aggregates.contract import Bools, BySlots, Cells, Int64s, OfWords, Shares, frozen
from watersmeet.operators.continuous.aggregates.numbers import Numbers, Totals
from watersmeet.operators.few_rows import fresh
from watersmeet.operators.kernels.digits import FLOAT, UNSIGNED
from watersmeet.operators.kernels.sums import (
    NEVER,
    count_changes,
    covary_exactly,
    float_range,
    mean_exactly,
    sum_decimals,
    sum_floats,
    sum_integers,
)
from watersmeet.plan.expressions import Aggregate, to_text


class IntegerSum(BySlots, OfWords):
    """SUM of whole numbers, which must fit BIGINT whenever it is read, and of intervals, which are microseconds."""

    STATE = ("_counts", "_sums")

    def __init__(self, aggregate: Aggregate) -> None:
        self._text = to_text(aggregate)
        self._type = aggregate.type
        self._numbers = Numbers.of(aggregate.args[0].type)
        self._counts: Int64s = np.zeros(0, np.int64)
        self._sums: Int64s = np.zeros((0, 2), np.int64)

    def apply(self, changes: Cells, values: pa.Array | None, order: Int64s) -> pa.Array:
        out, valid = fresh(len(changes)), np.empty(len(changes), np.bool_)
        self.add(changes.groups, live(changes, values), self._numbers.words(values), changes.ends, out, valid)
        return column(self._type, out, valid)

    def takes(self, kind: pa.DataType) -> bool:
        return self._numbers.are_words(kind)

    def add(self, groups: Int64s, lives: Int64s, words: Int64s, ends: Int64s, out: Int64s, valid: Bools) -> None:
        is_unsigned = self._numbers.kind == UNSIGNED
        overflow = sum_integers(groups, lives, words, is_unsigned, ends, self._counts, self._sums, out, valid)
        if overflow != NEVER and pa.types.is_duration(self._type):
            raise DataError(f"{self._text} went beyond the longest interval, about 290 000 years")
        if overflow != NEVER:
            raise too_large(self._text, "the range of BIGINT", "DECIMAL(38, 0) or DOUBLE")

    def grow(self, groups: int) -> None:
        self._counts, self._sums = grown(self._counts, groups), grown(self._sums, groups)

    def shares(self, groups: Int64s) -> Shares:
        return Shares({"counts": self._counts[groups], "sums": self._sums[groups]}, {})

    def take_over(self, groups: Int64s, shares: Shares) -> None:
        self._counts[groups], self._sums[groups] = shares.numbers["counts"], shares.numbers["sums"]

    @property
    def nbytes(self) -> int:
        return self._counts.nbytes + self._sums.nbytes


class IntervalMean(IntegerSum):
    """AVG of intervals, to the nearest microsecond, and of two that are as near to the one away from zero."""

    def takes(self, kind: pa.DataType) -> bool:
        return False  # it is made of their sum

    def apply(self, changes: Cells, values: pa.Array | None, order: Int64s) -> pa.Array:
        sizes = np.empty(len(changes), np.int64)
        count_changes(changes.groups, live(changes, values), changes.ends, self._counts.copy(), sizes)
        totals = super().apply(changes, values, order)
        sums = words_of(totals)
        whole, rest = np.divmod(np.abs(sums), np.maximum(sizes, 1))
        means = np.sign(sums) * (whole + (rest >= sizes - rest))
        return column(self._type, means, sizes > 0)


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


class FloatSum(_Moments, OfWords):
    """SUM and AVG of doubles: the double nearest to the exact sum or mean; a sum beyond the largest is infinite."""

    def __init__(self, aggregate: Aggregate) -> None:
        super().__init__(aggregate)
        self._mean = aggregate.function == "avg"

    def apply(self, changes: Cells, values: pa.Array | None, order: Int64s) -> pa.Array:
        out, valid = np.zeros(len(changes), np.int64), np.empty(len(changes), np.bool_)
        self.add(changes.groups, live(changes, values), self._numbers.words(values), changes.ends, out, valid)
        return column(pa.float64(), out, valid)

    def takes(self, kind: pa.DataType) -> bool:
        return self._numbers.are_words(kind)

    def add(self, groups: Int64s, lives: Int64s, words: Int64s, ends: Int64s, out: Int64s, valid: Bools) -> None:
        self._cover(words, lives)
        sums = self._sums
        sum_floats(
            words, groups, lives, ends, sums.base, self._counts, sums.rows, self._specials, self._mean, out, valid
        )


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


class ExactMean(_Moments, OfWords):
    """AVG of integers and decimals: the double nearest to the exact mean."""

    def __init__(self, aggregate: Aggregate) -> None:
        super().__init__(aggregate)
        self._divisors = np.array([1, *powers_of_ten(self._numbers.scale)], np.int64)

    def apply(self, changes: Cells, values: pa.Array | None, order: Int64s) -> pa.Array:
        out, valid = np.zeros(len(changes), np.int64), np.empty(len(changes), np.bool_)
        self.add(changes.groups, live(changes, values), self._numbers.words(values), changes.ends, out, valid)
        return column(pa.float64(), out, valid)

    def takes(self, kind: pa.DataType) -> bool:
        return self._numbers.are_words(kind)

    def add(self, groups: Int64s, lives: Int64s, words: Int64s, ends: Int64s, out: Int64s, valid: Bools) -> None:
        mean_exactly(
            self._numbers.kind, words, groups, lives, ends, self._counts, self._sums.rows, self._divisors, out, valid
        )


class Covariance(_Moments):
    """COVAR_POP and COVAR_SAMP of pairs of doubles, exact up to one rounding; NULL for a sample of fewer than two."""

    STATE = ("_counts", "_specials", "_sums", "_others", "_products")

    def __init__(self, aggregate: Aggregate) -> None:
        self._numbers = Numbers.of(pa.float64())
        self._counts = np.zeros(0, np.int64)
        self._specials = np.zeros((0, 3), np.int64)
        self._less = 1 if aggregate.function == "covar_samp" else 0
        # All of them begin and end with the same digits.
        self._sums, self._others = Totals(self._numbers.digits), Totals(self._numbers.digits)
        self._products = Totals(self._numbers.digits, times=2)

    def apply(self, changes: Cells, values: pa.Array | None, order: Int64s) -> pa.Array:
        assert values is not None
        left, right = values.flatten()
        there = left.is_valid().to_numpy(zero_copy_only=False) & right.is_valid().to_numpy(zero_copy_only=False)
        lives = frozen(np.where(there, changes.diffs, 0))
        words, others = self._numbers.words(left), self._numbers.words(right)
        for one in (words, others):
            low, high = float_range(one, lives)
            for totals in self._totals.values():
                totals.cover(low, high)
        out, valid = np.zeros(len(changes), np.int64), np.empty(len(changes), np.bool_)
        covary_exactly(
            words, others, changes.groups, lives, changes.ends, self._sums.base, self._counts, self._sums.rows,
            self._others.rows, self._products.rows, self._specials, self._less, out, valid,
        )  # fmt: skip
        return column(pa.float64(), out, valid)

    @property
    def _totals(self) -> dict[str, Totals]:
        return {"sums": self._sums, "others": self._others, "products": self._products}

    def grow(self, groups: int) -> None:
        super().grow(groups)
        for totals in (self._others, self._products):
            totals.rows = grown(totals.rows, groups)

    @property
    def nbytes(self) -> int:
        return super().nbytes + self._others.rows.nbytes + self._products.rows.nbytes


def too_large(text: str, limit: str, wider: str) -> DataError:
    return DataError(f"{text} went beyond {limit}", hint=f"sum in a wider type: CAST the argument AS {wider}")
