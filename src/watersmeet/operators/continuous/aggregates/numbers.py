"""Columns of numbers as the words that exact sums are made of, and the digits a sum of them needs."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.operators.continuous.aggregates.columns import wide_decimals, words_of
from watersmeet.operators.continuous.aggregates.contract import Int64s
from watersmeet.operators.kernels.digits import DECIMAL, FLOAT, INTEGER, LOWEST_FLOAT_EXPONENT, UNSIGNED

# A cast to the same type costs a batch of a few rows as much as all else that is done with it here.
_INT64, _DOUBLE = pa.int64(), pa.float64()


@dataclass(frozen=True)
class Numbers:
    """A kind of numbers: how kernels read it, the digits of a value (0: found out as values come), its lowest bit."""

    kind: int
    digits: int
    exponent: int
    scale: int = 0

    @classmethod
    def of(cls, data_type: pa.DataType) -> Numbers:
        if pa.types.is_decimal(data_type):
            return cls(DECIMAL, 4, 0, data_type.scale)
        if pa.types.is_floating(data_type):
            return cls(FLOAT, 0, LOWEST_FLOAT_EXPONENT)
        return cls(UNSIGNED if data_type == pa.uint64() else INTEGER, 2, 0)

    def are_words(self, data_type: pa.DataType) -> bool:
        """Whether the words of a column are its values, with their signs spread."""
        if self.kind == FLOAT:
            return bool(data_type == _DOUBLE)
        signed = pa.types.is_signed_integer(data_type) or pa.types.is_duration(data_type)
        return self.kind == UNSIGNED or (self.kind == INTEGER and bool(signed))

    def words(self, values: pa.Array) -> Int64s:
        """The words of a column; what stands at NULLs is arbitrary."""
        if self.kind == DECIMAL:
            return words_of(wide_decimals(values), 2)
        if self.kind == FLOAT:
            return words_of(values if values.type == _DOUBLE else values.cast(_DOUBLE))
        as_it_is = self.kind == UNSIGNED or values.type == _INT64
        return words_of(values if as_it_is else values.cast(_INT64))


class Totals:
    """Per group a row of digits, `times` as wide as the values need; digit 0 is digit `base` of the numbers.

    Floats of one column mostly have similar magnitudes, so a row covers the digits that any value so far had, instead
    of the 2,100 bits that doubles span.
    """

    STATE = ("base", "rows")

    def __init__(self, digits: int, times: int = 1) -> None:
        self.base = 0
        self._times = times
        self.rows: Int64s = np.zeros((0, times * digits), np.int64)

    def cover(self, low: int, high: int) -> None:
        """Make room for digits low to high of values."""
        width = self.rows.shape[1] // self._times
        if high < low or (width and self.base <= low and high < self.base + width):
            return
        base = min(low, self.base) if width else low
        end = max(high + 1, self.base + width)
        wider = np.zeros((self.rows.shape[0], self._times * (end - base)), np.int64)
        shift = self._times * (self.base - base)
        wider[:, shift : shift + self.rows.shape[1]] = self.rows
        self.base, self.rows = base, wider

    def shares(self, groups: Int64s) -> tuple[Int64s, pa.Array]:
        """Of groups the place of their first digit, and their digits."""
        rows = self.rows[groups]
        ends = pa.array(rows.shape[1] * np.arange(groups.size + 1), pa.int64())
        return np.full(groups.size, self.base), pa.LargeListArray.from_arrays(ends, pa.array(rows.reshape(-1)))

    def take_over(self, groups: Int64s, bases: Int64s, digits: pa.Array) -> None:
        """Those of one part begin and end alike, so there are few ways in which they lie."""
        widths = digits.value_lengths().to_numpy(zero_copy_only=False)
        for base, width in np.unique(np.stack([bases, widths]), axis=1).T.tolist():
            mine = np.flatnonzero((bases == base) & (widths == width))
            self.cover(base, base + width // self._times - 1)
            start = self._times * (base - self.base)
            values = digits.take(pa.array(mine)).flatten().to_numpy(zero_copy_only=False)
            self.rows[groups[mine], start : start + width] = values.reshape(mine.size, width)
