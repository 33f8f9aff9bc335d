"""What is told by the sum of one column and that of its squares: COUNT, SUM, AVG, VARIANCE and STDDEV, each rounded
once when it is read. Those of the same column have one state, however many they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.operators.continuous.aggregates.columns import column, grown, live, powers_of_ten
from watersmeet.operators.continuous.aggregates.contract import BySlots, Cells, Int64s, Shares
from watersmeet.operators.continuous.aggregates.numbers import Numbers, Totals
from watersmeet.operators.few_rows import fresh, words_as
from watersmeet.operators.kernels.digits import FLOAT
from watersmeet.operators.kernels.moments import find_moments
from watersmeet.operators.kernels.sums import float_range
from watersmeet.plan.expressions import Aggregate

NOTHING = np.empty(0, np.int64)
SPREADS = ("variance", "stddev", "var_pop", "stddev_pop")


@dataclass(frozen=True)
class Found:
    """Of each cell what was asked for: a number of values, or the bits of a double."""

    sizes: Int64s
    totals: Int64s
    means: Int64s
    variances: Int64s
    samples: Int64s


class MomentsOfOne:
    """Counts and exact sums per group of a column and of its squares; NaN and infinities are counted apart, so that
    they can leave again."""

    def __init__(self, data_type: pa.DataType) -> None:
        self.numbers = Numbers.of(data_type)
        self.counts: Int64s = np.zeros(0, np.int64)
        self.specials: Int64s = np.zeros((0, 3), np.int64)
        self.sums, self.squares = Totals(self.numbers.digits), Totals(self.numbers.digits, times=2)
        self._divisors = np.array([1, 1, *powers_of_ten(2 * self.numbers.scale)], np.int64)
        self._mean_divisors = np.array([1, *powers_of_ten(self.numbers.scale)], np.int64)
        self._asked: list[str] = []  # by each aggregate
        self._changes: Cells | None = None
        self._found: Found | None = None
        self._waiting = 0

    def member(self, aggregate: Aggregate) -> Moment:
        first = not self._asked
        match aggregate.function:
            case "count":
                self._asked.append("sizes")
            case "sum":
                self._asked.append("totals")
            case "avg":
                self._asked.append("means")
            case function:
                self._asked.append("variances" if function.endswith("_pop") else "samples")
        return Moment(self, aggregate.function, self._asked[-1], counts_memory=first)

    def find(self, changes: Cells, values: pa.Array | None) -> Found:
        """What changes leave, which each aggregate asks for once: the first time they are taken."""
        if self._found is None or self._changes is not changes:
            self._changes, self._found, self._waiting = changes, self._taken(changes, values), len(self._asked)
        found = self._found
        self._waiting -= 1
        if not self._waiting:
            self._changes = self._found = None
        return found

    def _taken(self, changes: Cells, values: pa.Array | None) -> Found:
        words, lives = self.numbers.words(values), live(changes, values)
        self._cover(words, lives)
        rooms = [fresh(len(changes)) if name in self._asked else NOTHING for name in list(Found.__annotations__)[1:]]
        found = Found(fresh(len(changes)), *rooms)
        find_moments(
            self.numbers.kind, words, changes.groups, lives, changes.ends, self.sums.base, self.numbers.exponent,
            self.counts, self.sums.rows, self.squares.rows, self.specials, self._divisors, self._mean_divisors,
            found.sizes, found.totals, found.means, found.variances, found.samples,
        )  # fmt: skip
        return found

    def _cover(self, words: Int64s, lives: Int64s) -> None:
        if self.numbers.kind == FLOAT:
            self.sums.cover(*float_range(words, lives))
            if self.sums.rows.shape[1]:
                self.squares.cover(self.sums.base, self.sums.base + self.sums.rows.shape[1] - 1)

    def grow(self, groups: int) -> None:
        self.counts = grown(self.counts, groups)
        self.sums.rows, self.squares.rows = grown(self.sums.rows, groups), grown(self.squares.rows, groups)
        if self.numbers.kind == FLOAT:
            self.specials = grown(self.specials, groups)

    @property
    def nbytes(self) -> int:
        return self.counts.nbytes + self.specials.nbytes + self.sums.rows.nbytes + self.squares.rows.nbytes


class Moment(BySlots):
    """One aggregate of them. It is saved with what it takes to make it alone, and that is loaded where others have it,
    too: all are of the same rows."""

    def __init__(self, moments: MomentsOfOne, function: str, asks: str, *, counts_memory: bool) -> None:
        self._of = moments
        self._asks = asks
        self._root = function.startswith("stddev")
        # NULL for fewer values.
        self._least = 2 if asks == "samples" else 1
        self._counts_memory = counts_memory
        if asks == "sizes":
            self.STATE: tuple[str, ...] = ("_counts",)
        else:
            squares = ("_squares",) if function in SPREADS else ()
            self.STATE = ("_counts", "_specials", "_sums", *squares)

    def apply(self, changes: Cells, values: pa.Array | None, order: Int64s) -> pa.Array:
        found = self._of.find(changes, values)
        if self._asks == "sizes":
            return words_as(found.sizes, pa.int64())
        bits: Any = getattr(found, self._asks)
        return column(pa.float64(), np.sqrt(bits.view(np.float64)) if self._root else bits, found.sizes >= self._least)

    def grow(self, groups: int) -> None:
        self._of.grow(groups)

    @property
    def nbytes(self) -> int:
        return self._of.nbytes if self._counts_memory else 0

    # ---- its state -------------------------------------------------------------------------------------------------

    @property
    def _counts(self) -> Int64s:
        return self._of.counts

    @_counts.setter
    def _counts(self, counts: Int64s) -> None:
        self._of.counts = counts

    @property
    def _specials(self) -> Int64s:
        return self._of.specials

    @_specials.setter
    def _specials(self, specials: Int64s) -> None:
        self._of.specials = specials

    @property
    def _sums(self) -> Totals:
        return self._of.sums

    @property
    def _squares(self) -> Totals:
        return self._of.squares

    @property
    def _totals(self) -> dict[str, Totals]:
        return {one.removeprefix("_"): getattr(self, one) for one in self.STATE if one in ("_sums", "_squares")}

    def shares(self, groups: Int64s) -> Shares:
        numbers, columns = {"counts": self._counts[groups]}, {}
        if self._totals and self._of.numbers.kind == FLOAT:
            numbers["specials"] = self._specials[groups]
        for name, totals in self._totals.items():
            numbers[name], columns[name] = totals.shares(groups)
        return Shares(numbers, columns)

    def take_over(self, groups: Int64s, shares: Shares) -> None:
        self._counts[groups] = shares.numbers["counts"]
        if "specials" in shares.numbers:
            self._specials[groups] = shares.numbers["specials"]
        for name, totals in self._totals.items():
            totals.take_over(groups, shares.numbers[name], shares.columns[name])
