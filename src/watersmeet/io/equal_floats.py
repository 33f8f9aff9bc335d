"""Floats that queries and databases hold for equal, in one form: Arrow's groups and texts tell them apart."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


def one_of_each(column: Any) -> Any:
    """0.0 and -0.0 become one value, and so does every NaN; other columns stay as they are.

    >>> one_of_each(pa.array([-0.0, 0.0, None])).to_pylist()
    [0.0, 0.0, None]
    """
    if not pa.types.is_floating(column.type):
        return column
    nan = pa.scalar(float("nan"), column.type)
    return pc.if_else(pc.is_nan(column), nan, pc.add(column, pa.scalar(0.0, column.type)))
