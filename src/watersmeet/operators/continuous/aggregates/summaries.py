"""What STRING_AGG, MODE and aggregates of users make of the values of groups."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.operators.codes import encode
from watersmeet.operators.continuous.aggregates.collected import Summary
from watersmeet.operators.continuous.aggregates.contract import Int64s
from watersmeet.operators.scalar.user import call_user_aggregate
from watersmeet.physical.strategy import is_exact
from watersmeet.plan.expressions import Aggregate, Literal


def joined(between: str) -> Summary:
    """STRING_AGG(x, between)"""

    def summary(values: pa.Array, bounds: Int64s) -> pa.Array:
        lists = pa.LargeListArray.from_arrays(pa.array(bounds, pa.int64()), values.cast(pa.string()))
        return _null_if_empty(pc.binary_join(lists, between).cast(pa.string()), bounds)

    return summary


def _null_if_empty(made: pa.Array, bounds: Int64s) -> pa.Array:
    return pc.if_else(pa.array(np.diff(bounds) > 0), made, pa.scalar(None, made.type))


def mode(values: pa.Array, bounds: Int64s) -> pa.Array:
    """The value that occurs most often; of several the one that came first."""
    sizes = np.diff(bounds)
    cells = np.repeat(np.arange(sizes.size), sizes)
    # As codes, NaN is one value, and so is zero.
    codes = encode(values) if is_exact(values.type) else values.dictionary_encode().indices.to_numpy()
    order = np.lexsort((codes, cells))
    new = np.ones(order.size, np.bool_)
    new[1:] = (cells[order[1:]] != cells[order[:-1]]) | (codes[order[1:]] != codes[order[:-1]])
    starts = np.flatnonzero(new)
    counts = np.diff(np.append(starts, order.size))
    # lexsort is stable: the first of equal values is the oldest.
    oldest = order[starts]
    best = np.lexsort((oldest, -counts, cells[oldest]))
    first = np.searchsorted(cells[oldest][best], np.arange(sizes.size))
    there = sizes > 0
    chosen = np.zeros(sizes.size, np.int64)
    chosen[there] = oldest[best[first[there]]]
    return values.take(pa.array(chosen, mask=~there))


def of_user(aggregate: Aggregate) -> Summary:
    """The function is called for every cell: what it makes of the values of a group only it knows."""
    user = aggregate.user
    assert user is not None

    def summary(values: pa.Array, bounds: Int64s) -> pa.Array:
        columns = [values] if len(user.arguments) == 1 else values.flatten()[1:]
        results = []
        for start, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            args = [column.slice(start, end - start) for column in columns]
            results.append(call_user_aggregate(user, args).as_py() if end > start else None)
        return pa.array(results, user.result)

    return summary


def separator(aggregate: Aggregate) -> str:
    given = aggregate.args[1] if len(aggregate.args) > 1 else Literal(",", pa.string())
    assert isinstance(given, Literal)
    return str(given.value)
