"""COUNT(DISTINCT x) and its like: an aggregate that sees only the first of equal values come and the last go."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from watersmeet.operators.codes import encode
from watersmeet.operators.codes import identities as identities_of_rows
from watersmeet.operators.continuous.aggregates.columns import live
from watersmeet.operators.continuous.aggregates.contract import Aggregator, Cells, Int64s, frozen
from watersmeet.operators.continuous.aggregates.counts import Count
from watersmeet.operators.continuous.aggregates.ordered_bytes import slices, to_bytes
from watersmeet.operators.kernels.multiset import SLOT_FIELDS, fingerprints, first_and_last, move_values
from watersmeet.operators.lines import zeros_in_lines
from watersmeet.physical.strategy import is_exact

MIN_SLOTS = 64


class DistinctValues:
    """Counts how often each value stands in each group. NaN equals NaN, and -0.0 equals 0.0.

    Text, bytes, long decimals and what is nested are known by 128 bits of hash.
    """

    STATE = ("_inner", "_table", "_values")

    def __init__(self, inner: Aggregator) -> None:
        self._inner = inner
        self._table: Int64s = zeros_in_lines(MIN_SLOTS, SLOT_FIELDS)
        self._values = 0

    def apply(self, changes: Cells, values: pa.Array | None, order: Int64s) -> pa.Array:
        lives = live(changes, values)
        self._make_room(int(np.count_nonzero(lives > 0)))
        once = np.empty(lives.size, np.int64)
        words_1, words_2 = identities(values)
        net, complete = first_and_last(changes.groups, lives, changes.ends, words_1, words_2, self._table, once)
        if not complete:
            raise AssertionError("a value left that had not come")
        self._values += int(net)
        inner = self._inner
        if isinstance(inner, Count):  # of values that are known to count
            return inner.counted(changes.groups, once, changes.ends)
        return inner.apply(Cells(changes.groups, once, changes.ends), values, order)

    def _make_room(self, coming: int) -> None:
        """At most two thirds of the slots are used, and not for long very few of them."""
        slots = max(MIN_SLOTS, 1 << (3 * (self._values + coming) // 2).bit_length())
        if not slots <= self._table.shape[0] <= 8 * slots:
            table = zeros_in_lines(slots, SLOT_FIELDS)
            move_values(self._table, table)
            self._table = table

    def grow(self, groups: int) -> None:
        self._inner.grow(groups)

    @property
    def nbytes(self) -> int:
        return self._table.nbytes + self._inner.nbytes


def identities(values: pa.Array) -> tuple[Int64s, Int64s]:
    """Two words per value, equal for equal values; what stands at NULLs is arbitrary."""
    if pa.types.is_nested(values.type):
        first, second = identities_of_rows([values], len(values))
        return frozen(first.view(np.int64)), frozen(second.view(np.int64))
    if is_exact(values.type):
        return frozen(encode(values)), frozen(np.zeros(len(values), np.int64))
    words_1, words_2 = np.zeros(len(values), np.int64), np.zeros(len(values), np.int64)
    if not pa.types.is_null(values.type):
        fingerprints(*slices(to_bytes(values)), words_1, words_2)
    return frozen(words_1), frozen(words_2)
