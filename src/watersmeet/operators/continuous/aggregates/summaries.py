"""What aggregates make of all values of groups: texts, lists, maps, the most frequent one, and what users ask for."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.model.casts.json_values import json_or_null, json_values
from watersmeet.operators.codes import encode
from watersmeet.operators.continuous.aggregates.collected import Summary
from watersmeet.operators.continuous.aggregates.contract import Int64s, about
from watersmeet.operators.continuous.row_ids import RowIds
from watersmeet.operators.continuous.value_order import value_order
from watersmeet.operators.scalar.user import call_user_aggregate
from watersmeet.physical.strategy import is_exact
from watersmeet.plan.expressions import Aggregate, Literal, Way

Columns = Sequence[pa.Array]


def joined(between: str) -> Summary:
    """STRING_AGG(x, between)"""

    def summary(columns: Columns, bounds: Int64s) -> pa.Array:
        return _null_if_empty(_texts_joined(columns[0].cast(pa.string()), bounds, between), bounds)

    return summary


def _texts_joined(texts: pa.Array, bounds: Int64s, between: str) -> pa.Array:
    lists = pa.LargeListArray.from_arrays(pa.array(bounds, pa.int64()), texts)
    return pc.binary_join(lists, between).cast(pa.string())


def listed(columns: Columns, bounds: Int64s) -> pa.Array:
    """ARRAY_AGG"""
    return pa.ListArray.from_arrays(_starts(bounds), columns[0])


def _starts(bounds: Int64s) -> pa.Array:
    """Where lists begin: those that begin with NULL are NULL."""
    return pa.array(bounds, pa.int32(), mask=np.append(np.diff(bounds) == 0, False))


def json_list(columns: Columns, bounds: Int64s) -> pa.Array:
    """JSON_AGG"""
    return _enclosed("[", json_or_null(columns[0]), bounds, "]")


def json_object(columns: Columns, bounds: Int64s) -> pa.Array:
    """JSON_OBJECT_AGG: keys may come again."""
    keys, values = json_values(columns[0]), json_or_null(columns[1])
    return _enclosed("{", pc.binary_join_element_wise(keys, values, ":"), bounds, "}")


def _enclosed(begin: str, texts: pa.Array, bounds: Int64s, end: str) -> pa.Array:
    return _null_if_empty(pc.binary_join_element_wise(begin, _texts_joined(texts, bounds, ","), end, ""), bounds)


def mapped(columns: Columns, bounds: Int64s) -> pa.Array:
    """MAP_AGG of keys that differ"""
    return pa.MapArray.from_arrays(_starts(bounds), *columns)


def with_last_of_each(summary: Summary) -> Summary:
    """Of equal keys the last counts, where the first stood."""

    def summarised(columns: Columns, bounds: Int64s) -> pa.Array:
        cells = cells_of(bounds)
        _, first, number = np.unique(_numbers([pa.array(cells), columns[0]]), return_index=True, return_inverse=True)
        last = np.empty(first.size, np.int64)
        last[number] = np.arange(number.size)
        by_first = np.argsort(first)
        keys, values = columns[0].take(pa.array(first[by_first])), columns[1].take(pa.array(last[by_first]))
        return summary([keys, values], _bounds_of(cells[first[by_first]], bounds.size - 1))

    return summarised


def _numbers(columns: Columns) -> Int64s:
    """Equal rows have equal numbers."""
    return RowIds().of(columns, len(columns[0]))


def cells_of(bounds: Int64s) -> Int64s:
    """The cell of every value."""
    sizes = np.diff(bounds)
    return np.repeat(np.arange(sizes.size), sizes)


def _bounds_of(cells: Int64s, count: int) -> Int64s:
    """What `cells_of` was given."""
    return np.searchsorted(cells, np.arange(count + 1))


def in_order(summary: Summary, ways: Sequence[Way], *, distinct: bool) -> Summary:
    """Of columns of which the last are keys: the others in their order, equal ones by time; if distinct each once."""

    def ordered(columns: Columns, bounds: Int64s) -> pa.Array:
        cells = cells_of(bounds)
        values, keys = columns[: -len(ways)], columns[-len(ways) :]
        by = [(key, way.descending, way.nulls_first) for key, way in zip(keys, ways, strict=True)]
        order = value_order([(pa.array(cells), False, False), *by])
        if distinct:
            # Equal values are neighbours, as they are ordered by themselves.
            numbers = _numbers([pa.array(cells), *values])[order]
            order = order[np.append(True, numbers[1:] != numbers[:-1])[: order.size]]
            bounds = _bounds_of(cells[order], bounds.size - 1)
        return summary([column.take(pa.array(order)) for column in values], bounds)

    return ordered


def first_of_all(columns: Columns, bounds: Int64s) -> pa.Array:
    there = np.diff(bounds) > 0
    return columns[0].take(pa.array(np.where(there, bounds[:-1], 0), mask=~there))


def last_of_all(columns: Columns, bounds: Int64s) -> pa.Array:
    there = np.diff(bounds) > 0
    return columns[0].take(pa.array(np.where(there, bounds[1:] - 1, 0), mask=~there))


def _null_if_empty(made: pa.Array, bounds: Int64s) -> pa.Array:
    return pc.if_else(pa.array(np.diff(bounds) > 0), made, pa.scalar(None, made.type))


def mode(columns: Columns, bounds: Int64s) -> pa.Array:
    """The value that occurs most often; of several the one that came first."""
    (values,) = columns
    sizes, cells = np.diff(bounds), cells_of(bounds)
    # As codes, NaN is one value, and so is zero.
    if pa.types.is_nested(values.type):
        codes = _numbers([values])
    else:
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

    def summary(columns: Columns, bounds: Int64s) -> pa.Array:
        results = []
        for cell, (start, end) in enumerate(pairwise(bounds.tolist())):
            args = [column.slice(start, end - start) for column in columns]
            with about(cell):
                results.append(call_user_aggregate(user, args).as_py() if end > start else None)
        return pa.array(results, user.result)

    return summary


def separator(aggregate: Aggregate) -> str:
    given = aggregate.args[1] if len(aggregate.args) > 1 else Literal(",", pa.string())
    assert isinstance(given, Literal)
    return str(given.value)
