"""The net changes of an answer: a row that leaves and an equal one that enters at the same instant are no change."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from watersmeet.operators.codes import encode
from watersmeet.operators.continuous.delta import Delta, Int64s
from watersmeet.operators.continuous.node import Divides, Node, Unary, keys_below
from watersmeet.operators.continuous.row_ids import RowIds
from watersmeet.operators.kernels import changes as kernel
from watersmeet.operators.kernels.hashing import GOLDEN
from watersmeet.operators.partition_key import PartitionKey
from watersmeet.physical.strategy import is_exact


class Net(Divides, Unary):
    """What is sent on to the world, or taken as ISTREAM or DSTREAM. Row numbers no longer pair up after it."""

    netted = True
    needs_all_again = False
    held_rows = 0
    nbytes = 0

    def __init__(self, child: Node) -> None:
        super().__init__(child, child.schema)

    def take(self, until: int) -> Delta:
        delta = self.child.take(until)
        return delta if self.child.netted else net(delta)

    def key_columns(self, key: PartitionKey) -> frozenset[str]:
        return keys_below(self.child, key)


def net(delta: Delta) -> Delta:
    suspects = _suspects(delta)
    if suspects.size == 0:
        return delta
    mixed = delta.take(suspects)
    n = len(mixed)
    ids = RowIds().of(mixed.data.columns, n)
    order, ends, kept = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.bool_)
    cells = kernel.sort_into_cells(mixed.instants, ids, order, ends)
    kernel.net_of_cells(order, ends, cells, mixed.diffs, kept)
    remains = np.ones(len(delta), np.bool_)
    remains[suspects] = kept
    return delta.where(remains)


def _suspects(delta: Delta) -> Int64s:
    """Positions of changes that may cancel: others at the same instant have the other sign, and the same numbers."""
    if len(delta) == 0 or delta.diffs.min() == delta.diffs.max():
        return np.empty(0, np.int64)
    found = np.empty(len(delta), np.int64)
    return found[: kernel.where_signs_meet(delta.instants, _alike(delta.data), delta.diffs, found)]


def _alike(data: pa.RecordBatch) -> Int64s:
    """The same for equal rows, and for few others: it goes by columns that are cheaply compared."""
    made = np.zeros(data.num_rows, np.uint64)
    for column in data.columns:
        if is_exact(column.type):
            codes = encode(column).view(np.uint64)
            if column.null_count:
                codes = np.where(column.is_valid().to_numpy(zero_copy_only=False), codes, np.uint64(1))
            made = (made ^ codes) * GOLDEN
    return made.view(np.int64)
