"""Rows at some of their positions, which ascend: what Arrow would be asked for column by column, in one call that runs
without Python's lock. So each of several threads takes its own out of the same rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.operators.contract import Positions, Rows
from watersmeet.operators.few_rows import FEW, Cells, cells_of, fresh, taken
from watersmeet.operators.kernels.spread import copied

_Place = tuple[int, int]  # where values lie, and how wide they are


def picked_rows(rows: Rows, positions: Positions) -> Rows:
    if positions.size == len(rows):
        return rows.slice(0, len(rows))  # no two parts share what a row is known by for a while
    if positions.size <= FEW or not rows.data.num_columns:
        return rows.take(positions)
    copies = _Copies(positions)
    cells = [cells_of(column) for column in rows.data.columns]
    own = [None if one is None else copies.of(one) for one in cells]
    times = copies.of(rows.times)
    copies.make()
    columns = [
        taken(column, positions) if values is None else _as_column(values, column.type)
        for column, values in zip(rows.data.columns, own, strict=True)
    ]
    picked = Rows(pa.RecordBatch.from_arrays(columns, schema=rows.data.schema), times, rows.coded)
    if rows.in_order:
        picked.is_in_order()
    return picked


class _Copies:
    """What is to be copied in one call; what lies at one place is copied once, as event times that are a column."""

    def __init__(self, positions: Positions) -> None:
        self._positions = positions
        self._made: dict[_Place, npt.NDArray[Any]] = {}

    def of(self, cells: npt.NDArray[Any]) -> npt.NDArray[Any]:
        place = (cells.__array_interface__["data"][0], cells.itemsize)
        if place not in self._made:
            self._made[place] = fresh(self._positions.size, kind=cells.dtype)
        return self._made[place]

    def make(self) -> None:
        table = [(start, own.__array_interface__["data"][0], width) for (start, width), own in self._made.items()]
        copied(np.array(table, np.int64), self._positions)


def _as_column(values: Cells, kind: pa.DataType) -> pa.Array:
    return pa.Array.from_buffers(kind, values.size, [None, pa.py_buffer(values)])
