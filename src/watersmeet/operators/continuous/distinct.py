"""W-DISTINCT: a row is in the answer while at least one equal row is in the input."""

from __future__ import annotations

import numpy as np

from watersmeet.operators.continuous.delta import Delta, no_changes
from watersmeet.operators.continuous.multiset import Multiset
from watersmeet.operators.continuous.node import Divides, Node, Unary, keys_below
from watersmeet.operators.kernels import changes as kernel
from watersmeet.operators.partition_key import PartitionKey


class DistinctOperator(Divides, Unary):
    """A union with nothing: the multiset's own rule."""

    STATE = ("child", "_rows")

    netted = True

    def __init__(self, child: Node) -> None:
        super().__init__(child, child.schema)
        self._rows = Multiset(self.schema, kernel.UNION)

    @property
    def held_rows(self) -> int:
        return self._rows.ids.live

    @property
    def nbytes(self) -> int:
        return self._rows.nbytes

    def take(self, until: int) -> Delta:
        delta = self.child.take(until)
        if len(delta) == 0:
            return no_changes(self.schema)
        return self._rows.apply(delta, np.zeros(len(delta), np.bool_))

    def key_columns(self, key: PartitionKey) -> frozenset[str]:
        return keys_below(self.child, key)
