"""The order of rows by their values: NaN above all numbers, NULL after everything, text by code points."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.operators.codes import encode
from watersmeet.operators.continuous.delta import Int64s
from watersmeet.plan.strategy import is_exact


def value_order(columns: Sequence[tuple[pa.Array, bool]]) -> Int64s:
    """Positions in the order of the columns, the first counting most; each with whether it descends. NULLs are last
    either way."""
    sortable = [_sortable(values, descending=descending) for values, descending in columns]
    table = pa.table([values for values, _ in sortable], names=[str(i) for i in range(len(sortable))])
    by = [(str(i), direction) for i, (_, direction) in enumerate(sortable)]  # NULLs come last unless said otherwise
    order: Int64s = pc.sort_indices(table, sort_keys=by).cast(pa.int64()).to_numpy(zero_copy_only=False)
    return order


def _sortable(values: pa.Array, *, descending: bool) -> tuple[pa.Array, str]:
    """The column as Arrow sorts it rightly: numbers as codes, which put NaN above all."""
    if not is_exact(values.type):
        return values, "descending" if descending else "ascending"
    codes = encode(values)
    nulls = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
    return pa.array(~codes if descending else codes, mask=nulls), "ascending"
