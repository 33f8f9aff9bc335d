"""`x[1]` and `x[1:2]` of lists, texts and maps. Places count from 1, and from -1 at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.model.types import is_text
from watersmeet.operators.scalar.lists import Int64s, picked, spread
from watersmeet.operators.scalar.pieces import pieces
from watersmeet.operators.scalar.text import substring
from watersmeet.operators.scalar.values import (
    Function,
    Value,
    as_array,
    as_given,
    as_text,
    convert,
    null_where,
    numpy_of,
    per_constant,
    rows_of,
)
from watersmeet.plan.expressions import Call, Literal


def element(args: Sequence[Value], call: Call) -> Value:
    rows = rows_of(args)
    if pa.types.is_map(args[0].type):
        return _of_key(args, call)
    if is_text(args[0].type):
        return as_given(args, _characters(args, rows))
    places = np.broadcast_to(numpy_of(args[1], 0), rows).astype(np.int64)
    return as_given(args, picked(args[0], places, rows))


def _of_key(args: Sequence[Value], call: Call) -> Value:
    def lookup(group: Sequence[Value], call: Call) -> Value:
        key = convert(group[1], group[0].type.key_type)
        return pc.map_lookup(group[0], key, "first") if key.is_valid else pa.scalar(None, call.type)

    return per_constant(1, lookup)(args, call)


def _characters(args: Sequence[Value], rows: int) -> pa.Array:
    one = per_constant(1, substring)([*args, pa.scalar(1, pa.int64())], Call("substring", (), pa.string()))
    # There is no character 0.
    made = pc.if_else(pc.equal(args[1], 0), pa.scalar(""), one)
    return as_array(null_where(pc.is_null(args[0]), made), rows)


def cut(args: Sequence[Value], call: Call) -> Value:
    """`x[first:last]`, both included; an end that is left out is NULL in the plan and does not bound."""
    rows = rows_of(args)
    if is_text(args[0].type):
        return _cut_text(args, call)
    starts, sizes, elements = spread(args[0], rows)
    first = _end(args[1], call.args[1], np.ones(rows, np.int64), sizes, rows)
    last = _end(args[2], call.args[2], sizes, sizes, rows)
    first = np.maximum(first, 1)
    count = np.maximum(0, np.minimum(last, sizes) - first + 1)
    ends = np.cumsum(count)
    index = np.arange(ends[-1] if rows else 0) - np.repeat(ends - count, count) + np.repeat(starts + first - 1, count)
    offsets = pa.array(np.concatenate([[0], ends]), pa.int32())
    made = pa.ListArray.from_arrays(offsets, elements.take(pa.array(index)))
    unknown = [pc.is_null(as_array(arg, rows)) for arg, given in zip(args, call.args, strict=True) if not _open(given)]
    missing = unknown[0]
    for one in unknown[1:]:
        missing = pc.or_(missing, one)
    return as_given(args, pc.if_else(missing, pa.scalar(None, made.type), made).cast(call.type))


def _cut_text(args: Sequence[Value], call: Call) -> Value:
    """`s[2:3]`, by way of a list of characters."""
    characters = pieces(as_text(args[0]), "")
    made = cut([characters, *args[1:]], replace(call, type=pa.list_(pa.string())))
    return pc.binary_join(made, "")


def _open(given: Any) -> bool:
    """An end that was not written."""
    return isinstance(given, Literal) and given.value is None and pa.types.is_null(given.type)


def _end(value: Value, given: Any, otherwise: Int64s, sizes: Int64s, rows: int) -> Int64s:
    if _open(given):
        return otherwise
    places = np.broadcast_to(numpy_of(value, 1), rows).astype(np.int64)
    return np.where(places < 0, sizes + places + 1, places)


FUNCTIONS: dict[str, Function] = {"element": element}
# An end of a slice that was not written is no NULL.
LENIENT: dict[str, Function] = {"slice": cut}
