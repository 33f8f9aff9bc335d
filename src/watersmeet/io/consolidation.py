"""What a stretch of changes comes to: the rows that came to stay, and those that were there and are not any more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

COUNT = "watersmeet_count"  # of a row: how many more of it there are, or how many less


def consolidated(log: pa.Table, changes: str, names: Sequence[str]) -> pa.Table:
    """Each row that there are more or less of after the changes, once, with that number. It does not matter in which
    order the changes come, so none of them can be undone by another that is told later."""
    entered = pc.cast(pc.equal(log[changes], "+"), pa.int64())
    signs = pc.subtract(pc.multiply(entered, 2), 1)
    rows = pa.table({name: one_of_each(log[name]) for name in names})
    counted = rows.append_column(COUNT, signs).group_by(list(names)).aggregate([(COUNT, "sum")])
    counted = counted.rename_columns([*names, COUNT])
    return counted.filter(pc.not_equal(counted[COUNT], 0)).combine_chunks()


def by_key(net: pa.Table, keys: Sequence[str]) -> tuple[pa.Table, pa.Table]:
    """Of rows known by keys those that are there now, and the keys that have none any more."""
    there = net.filter(pc.greater(net[COUNT], 0)).drop_columns([COUNT])
    most = net.group_by(list(keys)).aggregate([(COUNT, "max")]).rename_columns([*keys, COUNT])
    return there, most.filter(pc.less(most[COUNT], 0)).select(list(keys))


def by_row(net: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The rows to be added, each as often as it comes, and those to be taken away, with how often."""
    more = net.filter(pc.greater(net[COUNT], 0)).combine_chunks()
    copies = np.repeat(np.arange(more.num_rows), more[COUNT].to_numpy())
    less = net.filter(pc.less(net[COUNT], 0))
    less = less.set_column(less.schema.get_field_index(COUNT), COUNT, pc.negate(less[COUNT]))
    return more.drop_columns([COUNT]).take(pa.array(copies)), less


def one_of_each(column: Any) -> Any:
    """Floats that queries and databases hold for equal, in one form, as Arrow's groups and texts tell them apart: 0.0
    and -0.0 become one value, and so does every NaN; other columns stay as they are.

    >>> one_of_each(pa.array([-0.0, 0.0, None])).to_pylist()
    [0.0, 0.0, None]
    """
    if not pa.types.is_floating(column.type):
        return column
    nan = pa.scalar(float("nan"), column.type)
    return pc.if_else(pc.is_nan(column), nan, pc.add(column, pa.scalar(0.0, column.type)))
