"""BIT_AND, BIT_OR and BIT_XOR: of every bit it is counted how many values have it, so that values can leave again."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from watersmeet.operators.continuous.aggregates.columns import column, grown, live
from watersmeet.operators.continuous.aggregates.contract import BySlots, Cells, Int64s, Shares
from watersmeet.operators.continuous.aggregates.numbers import Numbers
from watersmeet.operators.kernels.sums import count_bits
from watersmeet.plan.expressions import Aggregate

BITS = 64
PLACES = {"bit_and": 0, "bit_or": 1, "bit_xor": 2}


class Bits(BySlots):
    STATE = ("_counts", "_bits")

    def __init__(self, aggregate: Aggregate) -> None:
        self._type = aggregate.type
        self._place = PLACES[aggregate.function]
        self._numbers = Numbers.of(aggregate.args[0].type)
        self._counts: Int64s = np.zeros(0, np.int64)
        self._bits: Int64s = np.zeros((0, BITS), np.int64)

    def apply(self, changes: Cells, values: pa.Array | None, order: Int64s) -> pa.Array:
        out = np.empty((len(changes), 4), np.int64)
        words = self._numbers.words(values)
        count_bits(changes.groups, live(changes, values), changes.ends, words, self._counts, self._bits, out)
        # Of no values at all every bit would be that of all; what is NULL may be any number.
        there = out[:, 3] > 0
        found = np.where(there, out[:, self._place], 0)
        kind = pa.uint64() if self._type == pa.uint64() else pa.int64()
        return column(kind, found, there).cast(self._type)

    def grow(self, groups: int) -> None:
        self._counts, self._bits = grown(self._counts, groups), grown(self._bits, groups)

    def shares(self, groups: Int64s) -> Shares:
        return Shares({"counts": self._counts[groups]}, {"bits": _lists(self._bits[groups])})

    def take_over(self, groups: Int64s, shares: Shares) -> None:
        self._counts[groups] = shares.numbers["counts"]
        bits = shares.columns["bits"].flatten().to_numpy(zero_copy_only=False)
        self._bits[groups] = bits.reshape(-1, BITS)

    @property
    def nbytes(self) -> int:
        return self._counts.nbytes + self._bits.nbytes


def _lists(rows: Int64s) -> pa.Array:
    ends = pa.array(rows.shape[1] * np.arange(len(rows) + 1), pa.int64())
    return pa.LargeListArray.from_arrays(ends, pa.array(rows.reshape(-1)))
