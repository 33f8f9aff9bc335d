"""MEDIAN and PERCENTILE: between two rows in order, by linear interpolation. PERCENTILE_DISC: one of the rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from watersmeet.operators.continuous.aggregates.coding import coding_of
from watersmeet.operators.continuous.aggregates.columns import column, grown, live, to_doubles
from watersmeet.operators.continuous.aggregates.contract import Cells, Int64s
from watersmeet.operators.continuous.aggregates.ordered_rows import in_turn
from watersmeet.operators.kernels.ranked import (
    GROUP_FIELDS,
    NEEDS_ROOM,
    NOT_THERE,
    ROOM_FIELDS,
    ROWS,
    USED,
    bound_anew,
    quantiles,
    where_codes_lie,
)
from watersmeet.plan.expressions import Aggregate, Expression, Literal, to_text
from watersmeet.plan.functions import exact_share

FIRST_ROOM = 1024  # words


class RankedRows:
    """The rows of all groups in order, to be found by their place in their group: see kernels/ranked.py."""

    STATE = ("_groups", "_used", "_room")

    def __init__(self) -> None:
        self._groups: Int64s = np.zeros((0, GROUP_FIELDS), np.int64)
        self._words: Int64s = np.zeros(0, np.int64)
        self._room: Int64s = np.zeros(ROOM_FIELDS, np.int64)

    def around(
        self, changes: Cells, lives: Int64s, codes: Int64s, share: float, fraction: tuple[int, int] = (0, 0)
    ) -> tuple[Int64s, Int64s, Int64s]:
        """The codes of the rows on both sides of a quantile, and the number of rows, after each cell. fraction: it is
        one row, see kernels/ranked.py."""
        low, high, sizes = (np.zeros(len(changes), np.int64) for _ in range(3))
        groups, lives, codes = in_turn(changes, lives, changes.groups, lives, codes)
        at = np.zeros(2, np.int64)
        before = groups, lives, changes.ends, codes, share, *fraction, self._groups
        while (ended := quantiles(*before, self._words, self._room, at, low, high, sizes)) == NEEDS_ROOM:
            self._words = grown(self._words, self._words.size + FIRST_ROOM, by=0.5)
        if ended == NOT_THERE:
            raise AssertionError("a row left that had not come")
        return low, high, sizes

    def rename(self, code: Callable[[Int64s], Int64s]) -> None:
        """Change all codes; their order stays."""
        places = np.empty(int(self._groups[:, ROWS].sum()), np.int64)
        where_codes_lie(self._groups, self._words, places)
        self._words[places] = code(self._words[places])
        bound_anew(self._groups, self._words)

    def grow(self, groups: int) -> None:
        self._groups = grown(self._groups, groups)

    @property
    def nbytes(self) -> int:
        return self._groups.nbytes + self._used.nbytes

    @property
    def _used(self) -> Int64s:
        """Without the words that were kept ready and never used."""
        return self._words[: self._room[USED]]

    @_used.setter
    def _used(self, words: Int64s) -> None:
        self._words = words


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
        # As kernels/ranked.py does it, to find the two rows.
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
