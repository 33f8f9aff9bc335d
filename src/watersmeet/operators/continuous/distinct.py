"""W-DISTINCT: a row is in the answer while at least one equal row is in the input."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from watersmeet.operators.continuous.delta import Delta, no_changes
from watersmeet.operators.continuous.multiset import Multiset
from watersmeet.operators.continuous.node import Divides, Node, Unary, keys_below
from watersmeet.operators.kernels import changes as kernel
from watersmeet.operators.keyed_state import KeyedRows, KeyedState
from watersmeet.operators.partition_key import PartitionKey, keys_in


class DistinctOperator(Divides, Unary):
    """A union with nothing: the multiset's own rule."""

    STATE = ("child", "_rows")

    netted = True

    def __init__(self, child: Node) -> None:
        super().__init__(child, child.schema)
        self._rows = Multiset(self.schema, kernel.UNION)
        self._again: KeyedRows | None = None  # what it held before another took over

    @property
    def held_rows(self) -> int:
        return self._rows.ids.live

    @property
    def nbytes(self) -> int:
        return self._rows.nbytes

    def take(self, until: int) -> Delta:
        delta = self.child.take(until)
        if self._again is not None:
            rows, self._again = self._again, None
            nothing = np.zeros(len(rows), np.int64)
            delta = Delta(rows.data, nothing + (until - 1), rows.numbers["copies"], nothing)
        if len(delta) == 0:
            return no_changes(self.schema)
        return self._rows.apply(delta, np.zeros(len(delta), np.bool_))

    def key_columns(self, key: PartitionKey) -> frozenset[str]:
        return keys_below(self.child, key)

    @property
    def needs_all_again(self) -> bool:
        """Of rows that never leave it holds each once itself."""
        return not self._holds_rows

    @property
    def _holds_rows(self) -> bool:
        return isinstance(self.child, Divides) and not self.child.gives_all_again

    def divided(self, key: PartitionKey) -> KeyedState:
        if not self._holds_rows:
            return KeyedState()
        ids = np.flatnonzero(self._rows.left)
        data = pa.RecordBatch.from_arrays(self._rows.rows.get(ids), schema=self.schema)
        keys_of = keys_in(min(keys_below(self.child, key), default=None))
        return KeyedState({"rows": KeyedRows.of(keys_of(data), data, copies=self._rows.left[ids])})

    def take_rows_over(self, state: KeyedState) -> None:
        self._again = state.rows.get("rows")
