"""Which rows are equal in every column: NULL equals NULL, NaN equals NaN."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from watersmeet.operators.continuous.delta import Bools, Int64s
from watersmeet.operators.continuous.row_ids import identities


def same_rows(rows: pa.RecordBatch, left: Int64s, right: Int64s) -> Bools:
    """Whether the rows at positions `left` equal those at positions `right`, pair by pair."""
    if left.size == 0:
        return np.zeros(0, np.bool_)
    first, second = identities(rows.columns, rows.num_rows)
    same: Bools = (first[left] == first[right]) & (second[left] == second[right])
    return same
