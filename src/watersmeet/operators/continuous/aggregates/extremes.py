"""MIN, MAX, FIRST and LAST: all of them ask for the row with the smallest key."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from watersmeet.operators.codes import Mask
from watersmeet.operators.continuous.aggregates.coding import coding_of
from watersmeet.operators.continuous.aggregates.columns import grown, live
from watersmeet.operators.continuous.aggregates.contract import BySlots, Cells, Int64s, Shares, frozen
from watersmeet.operators.continuous.aggregates.ordered_rows import OrderedRows
from watersmeet.operators.kernels.queues import (
    KEY,
    NODE_FIELDS,
    PAYLOAD,
    QUEUE_FIELDS,
    ROOM_FIELDS,
    SPARE,
    USED,
    first_in_queues,
)
from watersmeet.plan.expressions import Aggregate


class RowQueues:
    """The first row of every group by a key, where rows leave in the order they came: a monotonic queue per group, see
    kernels/queues.py."""

    STATE = ("_queues", "_used", "_room")

    def __init__(self) -> None:
        self._queues: Int64s = np.zeros((0, QUEUE_FIELDS), np.int64)
        self._nodes: Int64s = np.zeros((0, NODE_FIELDS), np.int64)
        self._room: Int64s = np.zeros(ROOM_FIELDS, np.int64)

    def first(self, changes: Cells, lives: Int64s, keys: Int64s, payloads: Int64s) -> tuple[Int64s, Mask]:
        """The payload of the row with the smallest key, after each cell."""
        coming = int(np.count_nonzero(lives > 0))
        # Freed nodes are used again, so those in use and one for each row that comes are enough.
        self._nodes = grown(self._nodes, int(self._room[USED] - self._room[SPARE]) + coming, by=0.25)
        out, valid = np.zeros(len(changes), np.int64), np.empty(len(changes), np.bool_)
        first_in_queues(
            changes.groups, lives, changes.ends, keys, payloads, self._queues, self._nodes, self._room, out, valid
        )
        return out, valid

    def rename(self, payload: Callable[[Int64s], Int64s], key: Callable[[Int64s], Int64s] | None) -> None:
        """Change all payloads, and the keys too if they are made from payloads; their order stays."""
        self._nodes[:, PAYLOAD] = payload(self._nodes[:, PAYLOAD])
        if key is not None:
            self._nodes[:, KEY] = key(self._nodes[:, PAYLOAD])

    def grow(self, groups: int) -> None:
        self._queues = grown(self._queues, groups)

    @property
    def nbytes(self) -> int:
        return self._queues.nbytes + self._used.nbytes

    @property
    def _used(self) -> Int64s:
        """Without the nodes that were kept ready and never used."""
        return self._nodes[: self._room[USED]]

    @_used.setter
    def _used(self, nodes: Int64s) -> None:
        self._nodes = nodes


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


class Nothing(BySlots):
    """An aggregate of the literal NULL."""

    STATE = ()

    def __init__(self, aggregate: Aggregate) -> None:
        self._type = aggregate.type

    def apply(self, changes: Cells, values: pa.Array | None, order: Int64s) -> pa.Array:
        return pa.nulls(len(changes), self._type)

    def grow(self, groups: int) -> None:
        pass

    def shares(self, groups: Int64s) -> Shares:
        return Shares({}, {})

    def take_over(self, groups: Int64s, shares: Shares) -> None:
        pass

    @property
    def nbytes(self) -> int:
        return 0
