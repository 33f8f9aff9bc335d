"""New rows by partition and order, as the functions of OVER go through them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.operators.continuous.delta import Bools, Int64s
from watersmeet.operators.continuous.row_ids import RowIds
from watersmeet.operators.continuous.value_order import value_order
from watersmeet.operators.few_rows import taken
from watersmeet.operators.kernels import frames as kernel


@dataclass(frozen=True)
class Arranged:
    """`order` are positions among the rows as they came, one partition after the other; the rest is in that order.
    Rows that the order does not tell apart are one cell."""

    order: Int64s
    partitions: Int64s
    keys: Int64s  # what a RANGE is measured by
    begins: Bools  # where a partition does
    cells: Int64s
    numbers: Int64s  # of each row, growing within its partition
    count: int  # of cells

    def __len__(self) -> int:
        return int(self.order.size)

    @cached_property
    def back(self) -> Int64s:
        """Where each row as it came stands in this order."""
        back = np.empty(self.order.size, np.int64)
        back[self.order] = np.arange(self.order.size)
        return back

    @cached_property
    def cell_ends(self) -> Int64s:
        """One past the last row of each cell."""
        last = np.flatnonzero(self.cells[1:] != self.cells[:-1]) + 1
        return np.append(last, self.order.size)

    def values(self, column: pa.Array) -> pa.Array:
        return taken(column, self.order)


def arranged(
    partitions: Int64s, room: int, times: Int64s, ties: Sequence[tuple[pa.Array, bool, bool]], next_number: int
) -> Arranged:
    """Rows in time order, by partition. Those of equal times go by `ties`, each a column with whether it descends and
    whether its NULLs are first; then as they came."""
    n = partitions.size
    first = None
    if ties:
        came = pa.array(np.arange(n))
        first = value_order([(pa.array(times), False, False), *ties, (came, False, False)])
        partitions, times = partitions[first], times[first]
    order = np.empty(n, np.int64)
    # A counting sort goes through all numbers there are.
    if room <= 4 * n + 4096:
        kernel.by_partition(partitions, room, order)
    else:
        order = np.argsort(partitions, kind="stable")
    partitions, times = partitions[order], times[order]
    order = order if first is None else first[order]
    codes = RowIds().of([taken(column, order) for column, _, _ in ties], n) if ties else order
    begins, cells = np.empty(n, np.bool_), np.empty(n, np.int64)
    count = int(kernel.peers(partitions, times, codes, bool(ties), begins, cells))
    return Arranged(order, partitions, times, begins, cells, np.arange(next_number, next_number + n), count)
