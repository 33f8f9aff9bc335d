"""The net changes of an answer: a row that leaves and an equal one that enters at the same instant are no change."""

from __future__ import annotations

import numpy as np

from watersmeet.operators.continuous.delta import Delta, Int64s
from watersmeet.operators.continuous.node import Divides, Node, Unary, keys_below
from watersmeet.operators.continuous.row_ids import RowIds
from watersmeet.operators.kernels import changes as kernel
from watersmeet.operators.partition_key import PartitionKey


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
    suspects = _where_both_signs_meet(delta)
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


def _each_once(instants: Int64s) -> Int64s:
    """Of instants in order."""
    return instants[np.append(True, instants[1:] != instants[:-1])] if instants.size else instants


def _where_both_signs_meet(delta: Delta) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Positions of the changes at instants at which rows both leave and enter: the only ones that can cancel."""
    if len(delta) == 0:
        return np.empty(0, np.int64)
    entered = _each_once(delta.instants[delta.diffs > 0])
    left = _each_once(delta.instants[delta.diffs < 0])
    both = np.intersect1d(entered, left, assume_unique=True)
    if both.size == 0:
        return np.empty(0, np.int64)
    found = np.minimum(np.searchsorted(both, delta.instants), both.size - 1)
    return np.flatnonzero(both[found] == delta.instants)
