"""The order of rows by their values: NaN above all numbers, NULL after everything, text by code points."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.operators.codes import encode
from watersmeet.operators.continuous.delta import Int64s
from watersmeet.operators.evaluate import evaluate
from watersmeet.operators.scalar.nested_order import ranks
from watersmeet.physical.strategy import is_exact
from watersmeet.plan.expressions import Column
from watersmeet.plan.nodes import SortKey


def answer_order(data: pa.RecordBatch, keys: Sequence[SortKey]) -> Int64s:
    """Positions in the order of the keys, then by all columns from left to right: the same whenever the rows are."""

    def column(one: Column) -> pa.Array:
        return data.column(one.name)

    given = [(evaluate(key.expression, column, data.num_rows), key.descending, key.nulls_first) for key in keys]
    return value_order([*given, *((values, False, False) for values in data.columns)])


def value_order(columns: Sequence[tuple[pa.Array, bool, bool]]) -> Int64s:
    """Positions in the order of the columns, the first counting most; each with whether it descends, and whether its
    NULLs are first rather than last."""
    keys: list[tuple[pa.Array, str]] = []
    for values, descending, nulls_first in columns:
        if (
            values.null_count and nulls_first
        ):  # older versions of Arrow have one place for the NULLs of all keys, the end
            keys.append((pc.is_null(values), "descending"))
        keys.append(_sortable(values, descending=descending))
    table = pa.table([values for values, _ in keys], names=[str(i) for i in range(len(keys))])
    by = [(str(i), direction) for i, (_, direction) in enumerate(keys)]
    order: Int64s = pc.sort_indices(table, sort_keys=by).cast(pa.int64()).to_numpy(zero_copy_only=False)
    return order


def _sortable(values: pa.Array, *, descending: bool) -> tuple[pa.Array, str]:
    """The column as Arrow sorts it rightly: numbers as codes, which put NaN above all, words themselves, and what is
    nested as numbers in its order."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if pa.types.is_nested(values.type):
        values = ranks(values)
    if not is_exact(values.type):
        return values, "descending" if descending else "ascending"
    codes = encode(values)
    nulls = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
    # The complement turns the order round and leaves NULLs last, where Arrow has them.
    return pa.array(~codes if descending else codes, mask=nulls), "ascending"
