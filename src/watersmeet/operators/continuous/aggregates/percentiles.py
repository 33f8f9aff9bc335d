"""MEDIAN and PERCENTILE: between two rows in order, by linear interpolation."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from watersmeet.operators.continuous.aggregates.coding import coding_of
from watersmeet.operators.continuous.aggregates.columns import column, live, to_doubles
from watersmeet.operators.continuous.aggregates.contract import Cells, Int64s
from watersmeet.operators.continuous.aggregates.ranked_rows import RankedRows
from watersmeet.plan.expressions import Aggregate, Expression, Literal, to_text


class Percentile:
    """Of n values in order, numbered from 0, the one at share * (n - 1); NaN is above all numbers.

    Between a and b it is a * (1 - part) + b * part in doubles, as DuckDB's quantile_cont; a itself if they are equal.
    """

    STATE = ("_coding", "_rows")

    def __init__(self, aggregate: Aggregate) -> None:
        self._share = 0.5 if aggregate.function == "median" else share_of(aggregate.args[1])
        self._coding = coding_of(aggregate.args[0].type)
        self._rows = RankedRows()

    def apply(self, changes: Cells, values: pa.Array | None, order: Int64s) -> pa.Array:
        lives = live(changes, values)
        codes, renaming = self._coding.enter(values, lives)
        if renaming is not None:
            self._rows.rename(renaming)
        low, high, sizes = self._rows.around(changes, lives, codes, self._share)
        valid = sizes > 0
        below = to_doubles(self._coding.decode(low, valid))
        above = to_doubles(self._coding.decode(high, valid))
        self._coding.tidy()
        # As kernels/ordered.py does it, to find the two rows.
        place = (sizes - 1) * self._share
        part = place - np.floor(place)
        with np.errstate(over="ignore", invalid="ignore"):
            between = below * (1 - part) + above * part
        return column(pa.float64(), np.where(low == high, below, between), valid)

    def grow(self, groups: int) -> None:
        self._rows.grow(groups)

    @property
    def nbytes(self) -> int:
        return self._rows.nbytes + self._coding.nbytes


def share_of(expression: Expression) -> float:
    """The constant of PERCENTILE(x, constant)."""
    value = expression.value if isinstance(expression, Literal) else None
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1:
        given = to_text(expression)
        raise ValueError(f"PERCENTILE needs a constant between 0 and 1, for example 0.95, not {given}")
    return float(value)
