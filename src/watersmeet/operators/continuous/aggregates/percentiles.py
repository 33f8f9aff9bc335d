"""MEDIAN and PERCENTILE: between two rows in order, by linear interpolation. PERCENTILE_DISC: one of the rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from watersmeet.operators.continuous.aggregates.coding import coding_of
from watersmeet.operators.continuous.aggregates.columns import column, grown, live, to_doubles
from watersmeet.operators.continuous.aggregates.contract import Cells, Int64s
from watersmeet.operators.continuous.aggregates.ordered_rows import Tree, in_turn
from watersmeet.operators.kernels.ordered import quantiles
from watersmeet.plan.expressions import Aggregate, Expression, Literal, to_text
from watersmeet.plan.functions import exact_share


class RankedRows:
    """The rows of all groups in order, to be found by their place in their group: by (group, code), how many each group
    has, and a Fenwick tree over that."""

    STATE = ("_tree", "_counts", "_sums")

    def __init__(self) -> None:
        self._tree = Tree()
        self._counts: Int64s = np.zeros(0, np.int64)
        self._sums = fenwick(self._counts)

    def around(
        self, changes: Cells, lives: Int64s, codes: Int64s, share: float, fraction: tuple[int, int] = (0, 0)
    ) -> tuple[Int64s, Int64s, Int64s]:
        """The codes of the rows on both sides of a quantile, and the number of rows, after each cell. fraction: it is
        one row, see kernels/ordered.py."""
        low, high, sizes = (np.zeros(len(changes), np.int64) for _ in range(3))
        groups, lives, codes = in_turn(changes, lives, changes.groups, lives, codes)
        before = groups, lives, changes.ends, codes, share, *fraction, self._counts, self._sums
        self._tree.run(quantiles, before, (low, high, sizes))
        return low, high, sizes

    def rename(self, code: Callable[[Int64s], Int64s]) -> None:
        """Change all codes; their order stays."""
        self._tree = self._tree.renamed(code, lambda codes: codes)

    def grow(self, groups: int) -> None:
        if groups > self._counts.size:
            self._counts = grown(self._counts, groups)
            self._sums = fenwick(self._counts)

    @property
    def nbytes(self) -> int:
        return self._tree.nodes.nbytes + self._counts.nbytes + self._sums.nbytes


def fenwick(counts: Int64s) -> Int64s:
    """Entry i is the sum of the `i & -i` counts before count i.

    >>> fenwick(np.array([1, 2, 3, 4])).tolist()
    [0, 1, 3, 3, 10]
    """
    totals: Int64s = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    places = np.arange(totals.size)
    sums: Int64s = totals - totals[places - (places & -places)]
    return sums


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


class DiscretePercentile:
    """PERCENTILE_DISC: the first value that has at least such a share of all rows up to it, in their order or, with a
    third argument, in the other one."""

    STATE = ("_coding", "_rows")

    def __init__(self, aggregate: Aggregate) -> None:
        share = exact_share(share_of(aggregate.args[1]))
        sign = -1 if len(aggregate.args) > 2 else 1
        self._fraction = share.numerator, sign * share.denominator
        self._coding = coding_of(aggregate.args[0].type)
        self._rows = RankedRows()

    def apply(self, changes: Cells, values: pa.Array | None, order: Int64s) -> pa.Array:
        lives = live(changes, values)
        codes, renaming = self._coding.enter(values, lives)
        if renaming is not None:
            self._rows.rename(renaming)
        found, _, sizes = self._rows.around(changes, lives, codes, 0.0, self._fraction)
        made = self._coding.decode(found, sizes > 0)
        self._coding.tidy()
        return made

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
