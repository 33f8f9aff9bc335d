"""Which rows are equal in every column: NULL equals NULL, NaN equals NaN."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from watersmeet.operators.codes import identities
from watersmeet.operators.continuous.delta import Bools, Int64s
from watersmeet.operators.few_rows import FEW, Cells, cells_of


def same_rows(rows: pa.RecordBatch, left: Int64s, right: Int64s) -> Bools:
    """Whether the rows at positions `left` equal those at positions `right`, pair by pair."""
    if left.size == 0:
        return np.zeros(0, np.bool_)
    cells = _cells(rows)
    if cells is not None:
        alike = np.ones(left.size, np.bool_)
        for own in cells:
            alike &= own[left] == own[right]
        return alike
    first, second = identities(rows.columns, rows.num_rows)
    same: Bools = (first[left] == first[right]) & (second[left] == second[right])
    return same


def _cells(rows: pa.RecordBatch) -> list[Cells] | None:
    """Of a few rows the values themselves, if all columns have some that are equal when their bytes are."""
    if rows.num_rows > FEW:
        return None
    found: list[Cells] = []
    for column in rows.columns:
        cells = None if pa.types.is_floating(column.type) else cells_of(column)
        if cells is None:
            return None
        found.append(cells)
    return found
