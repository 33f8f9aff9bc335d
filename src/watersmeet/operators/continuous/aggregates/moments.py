"""SKEWNESS, KURTOSIS and ENTROPY of the values of groups, which come in their own order: so they are summed up alike
whatever came and went before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.operators.codes import Mask
from watersmeet.operators.continuous.aggregates.columns import column, to_doubles
from watersmeet.operators.continuous.aggregates.contract import Int64s
from watersmeet.operators.continuous.row_ids import RowIds

Doubles = npt.NDArray[np.float64]


def skewness(columns: Sequence[pa.Array], bounds: Int64s) -> pa.Array:
    """Of a sample of at least three values that are not all the same."""
    moments = _Moments(columns[0], bounds)
    n = moments.sizes
    with np.errstate(all="ignore"):
        made = np.sqrt(n * (n - 1.0)) / (n - 2.0) * moments.mean(3) / moments.mean(2) ** 1.5
    return moments.column(made, at_least=3)


def kurtosis(columns: Sequence[pa.Array], bounds: Int64s) -> pa.Array:
    """What exceeds that of a normal distribution, of a sample of at least four values that are not all the same."""
    moments = _Moments(columns[0], bounds)
    n = moments.sizes
    with np.errstate(all="ignore"):
        excess = (n + 1.0) * moments.mean(4) / moments.mean(2) ** 2 - 3.0 * (n - 1.0)
        made = (n - 1.0) * excess / ((n - 2.0) * (n - 3.0))
    return moments.column(made, at_least=4)


def kurtosis_of_all(columns: Sequence[pa.Array], bounds: Int64s) -> pa.Array:
    """KURTOSIS_POP: the same of all there is."""
    moments = _Moments(columns[0], bounds)
    with np.errstate(all="ignore"):
        made = moments.mean(4) / moments.mean(2) ** 2 - 3.0
    return moments.column(made, at_least=2)


class _Moments:
    """The values of cells by their distances from their mean, at a scale at which no power of them is too large or too
    small to be told: what is asked for is the same at any."""

    def __init__(self, values: pa.Array, bounds: Int64s) -> None:
        self.sizes: Int64s = np.diff(bounds)
        self._bounds = bounds
        self._values = to_doubles(values)
        with np.errstate(all="ignore"):
            scaled = np.ldexp(self._values, -np.repeat(self._exponents, self.sizes))
            means = self._summed(scaled) / self.sizes
            self._distances = scaled - np.repeat(means, self.sizes)

    @property
    def _ends(self) -> tuple[Int64s, Doubles, Doubles]:
        """The cells that have values, and the first and the last of each, which are in order."""
        there = np.flatnonzero(self.sizes > 0)
        return there, self._values[self._bounds[there]], self._values[self._bounds[there + 1] - 1]

    @property
    def _exponents(self) -> npt.NDArray[np.int32]:
        """The power of two above all values of a cell."""
        there, first, last = self._ends
        exponents = np.zeros(self.sizes.size, np.int32)
        exponents[there] = np.frexp(np.maximum(np.abs(first), np.abs(last)))[1]
        return exponents

    def _summed(self, values: Doubles) -> Doubles:
        sums = np.zeros(self.sizes.size)
        there = self.sizes > 0
        if there.any():
            sums[there] = np.add.reduceat(values, self._bounds[:-1][there])
        return sums

    def mean(self, power: int) -> Doubles:
        return self._summed(self._distances**power) / self.sizes

    def column(self, made: Doubles, at_least: int) -> pa.Array:
        there = self._differ & (self.sizes >= at_least)
        return column(pa.float64(), np.where(there, made, 0.0), there)

    @property
    def _differ(self) -> Mask:
        """Whether there are different values: the last is not the first. NaN is one value, behind all others."""
        there, first, last = self._ends
        differ = np.zeros(self.sizes.size, np.bool_)
        differ[there] = (first != last) & ~np.isnan(first)
        return differ


def entropy(columns: Sequence[pa.Array], bounds: Int64s) -> pa.Array:
    """In bits, by how often each value occurs; of nothing 0, as in DuckDB."""
    sizes = np.diff(bounds)
    cells = np.repeat(np.arange(sizes.size), sizes)
    numbers = RowIds().of([pa.array(cells), columns[0]], cells.size)
    starts = np.flatnonzero(np.append(True, numbers[1:] != numbers[:-1])[: cells.size])
    shares: Any = np.diff(np.append(starts, cells.size)) / sizes[cells[starts]]
    return pa.array(np.bincount(cells[starts], -shares * np.log2(shares), minlength=sizes.size) + 0.0)
