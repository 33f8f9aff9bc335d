"""MIN, MAX, FIRST and LAST: all of them ask for the row with the smallest key."""

from __future__ import annotations

import pyarrow as pa

from watersmeet.operators.continuous.aggregates.coding import coding_of
from watersmeet.operators.continuous.aggregates.columns import live
from watersmeet.operators.continuous.aggregates.contract import Cells, Int64s, frozen
from watersmeet.operators.continuous.aggregates.ordered_rows import OrderedRows
from watersmeet.operators.continuous.aggregates.row_queues import RowQueues
from watersmeet.plan.expressions import Aggregate

# Of conditions the smallest says whether all hold, the largest whether any does.
DESCENDING = ("max", "last", "bool_or")
BY_VALUE = ("min", "max", "bool_and", "bool_or")


class Extreme:
    """The key is the value for MIN and MAX, the place in time for FIRST and LAST, turned round for MAX and LAST.

    FIRST and LAST are of the values that are not NULL. The complement of an int64 turns its order round.
    """

    STATE = ("_coding", "_rows")

    def __init__(self, aggregate: Aggregate, *, fifo: bool) -> None:
        self._by_value = aggregate.function in BY_VALUE
        self._turned = aggregate.function in DESCENDING
        self._coding = coding_of(aggregate.args[0].type)
        self._rows = RowQueues() if fifo else OrderedRows()

    def apply(self, changes: Cells, values: pa.Array | None, order: Int64s) -> pa.Array:
        lives = live(changes, values)
        codes, renaming = self._coding.enter(values, lives)
        if renaming is not None:
            self._rows.rename(renaming, self._key if self._by_value else None)
        keys = self._key(codes if self._by_value else order)
        payloads, valid = self._rows.first(changes, lives, keys, codes)
        result = self._coding.decode(payloads, valid)
        self._coding.tidy()
        return result

    def _key(self, codes: Int64s) -> Int64s:
        return frozen(~codes if self._turned else codes)

    def grow(self, groups: int) -> None:
        self._rows.grow(groups)

    @property
    def nbytes(self) -> int:
        return self._rows.nbytes + self._coding.nbytes


class Nothing:
    """An aggregate of the literal NULL."""

    STATE = ()

    def __init__(self, aggregate: Aggregate) -> None:
        self._type = aggregate.type

    def apply(self, changes: Cells, values: pa.Array | None, order: Int64s) -> pa.Array:
        return pa.nulls(len(changes), self._type)

    def grow(self, groups: int) -> None:
        pass

    @property
    def nbytes(self) -> int:
        return 0
