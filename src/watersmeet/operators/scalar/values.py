"""Arrow columns and constants, and the silent conversions between their types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.model.casts import cast
from watersmeet.model.types import is_number
from watersmeet.plan.expressions import Call

# A column, or a constant that stands for a column of equal values.
Value: TypeAlias = "pa.Array | pa.Scalar"
Function = Callable[[Sequence[Value], Call], Value]


def as_array(value: Value, length: int) -> pa.Array:
    """A value as a column of `length` rows."""
    if isinstance(value, pa.ChunkedArray):
        return value.combine_chunks()
    if isinstance(value, pa.Array):
        return value
    # Arrow does not repeat a list no times.
    return pa.repeat(value, length) if value.is_valid and length else pa.nulls(length, value.type)


def rows_of(args: Sequence[Value]) -> int:
    """How many rows there are; a constant is one."""
    return next((len(arg) for arg in args if not isinstance(arg, pa.Scalar)), 1)


def as_given(args: Sequence[Value], made: pa.Array) -> Value:
    """A constant, where all arguments are."""
    return made[0] if all(isinstance(arg, pa.Scalar) for arg in args) else made


def convert(value: Value, target: pa.DataType) -> Value:
    """A value in a type that may hold it: exact, except that numbers become the nearest double, decimals may lose
    digits behind the point, and instants and intervals those finer than their new unit."""
    source = value.type
    if source == target:
        return value
    if is_number(source) and is_number(target) and (pa.types.is_decimal(source) or pa.types.is_decimal(target)):
        return cast(value, target)
    return pc.cast(value, target, safe=not _rounds(source, target))


def _rounds(source: pa.DataType, target: pa.DataType) -> bool:
    if pa.types.is_floating(target):
        return True
    if pa.types.is_timestamp(target) or pa.types.is_date(target):
        return bool(pa.types.is_timestamp(source))
    return bool(pa.types.is_duration(target) and pa.types.is_duration(source))


def over_rows(value: Value, function: Callable[[pa.Array], pa.Array]) -> Value:
    """A function of columns, also of a constant."""
    if isinstance(value, pa.Scalar):
        return function(as_array(value, 1))[0]
    return function(value)


def as_text(value: Value) -> Value:
    """Text in the one layout that every string kernel takes."""
    return value if value.type == pa.string() else pc.cast(value, pa.string())


def null_where(condition: Value, value: Value) -> Value:
    """The value, or NULL where the condition is true."""
    return pc.if_else(pc.fill_null(condition, False), pa.scalar(None, value.type), value)


def per_constant(position: int, function: Function) -> Function:
    """A function whose kernel takes one argument only as a constant, made to take a column there too.

    Rows are grouped by that argument's value, and each group is one call.
    """

    def apply(args: Sequence[Value], call: Call) -> Value:
        if position >= len(args) or isinstance(args[position], pa.Scalar):
            return function(args, call)
        if not len(args[position]):
            return pa.scalar(None, call.type)
        # "encode" gives NULL a code, too, so that it is a group like any other.
        encoded = args[position].dictionary_encode("encode")
        codes = encoded.indices.to_numpy(zero_copy_only=False)
        order = np.argsort(codes, kind="stable")
        ends = np.append(np.flatnonzero(np.diff(codes[order])) + 1, len(order))
        sorted_args = [arg if isinstance(arg, pa.Scalar) else arg.take(pa.array(order)) for arg in args]
        pieces, start = [], 0
        for end in ends.tolist():
            group = [arg if isinstance(arg, pa.Scalar) else arg.slice(start, end - start) for arg in sorted_args]
            group[position] = group[position][0]
            pieces.append(as_array(convert(function(group, call), call.type), end - start))
            start = end
        return pa.concat_arrays(pieces).take(pa.array(np.argsort(order, kind="stable")))

    return apply


def over_unique(value: Value, function: Callable[[Any], Any], result: pa.DataType) -> Value:
    """A function that only Python has, called once for every value that occurs; NULL stays NULL."""
    if isinstance(value, pa.Scalar):
        return pa.scalar(function(value.as_py()) if value.is_valid else None, result)
    encoded = value.dictionary_encode()
    made = [function(one) for one in encoded.dictionary.to_pylist()]
    return pa.array(made, result).take(encoded.indices)


def numpy_of(value: Value, filler: Any) -> np.ndarray[Any, Any]:
    """The values of a column or constant as NumPy has them, with something in place of NULLs."""
    if isinstance(value, pa.Scalar):
        return np.asarray(value.as_py() if value.is_valid else filler)
    filled = value.fill_null(filler) if value.null_count else value
    return np.asarray(filled.to_numpy(zero_copy_only=False))


def from_numpy(made: np.ndarray[Any, Any], args: Sequence[Value], result: pa.DataType) -> Value:
    """What NumPy made of the arguments, NULL where one of them is."""
    if made.ndim == 0:
        known = all(arg.is_valid for arg in args)
        return pa.scalar(made.item() if known else None, result)
    values = pa.array(made, result)
    for arg in args:
        if isinstance(arg, pa.Scalar):
            if not arg.is_valid:
                return pa.scalar(None, result)
        elif arg.null_count:
            values = null_where(pc.is_null(arg), values)
    return values


def known_everywhere(args: Sequence[Value]) -> np.ndarray[Any, Any]:
    """Where no argument is NULL: what stands beside a NULL need not be right."""
    return np.asarray(reduce(np.logical_and, [numpy_of(pc.is_valid(arg), False) for arg in args]))


def refuse_where(condition: Value, reason: str) -> None:
    """An error if the condition holds anywhere."""
    found = condition if isinstance(condition, pa.Scalar) else pc.any(condition)
    if found.as_py():
        raise pa.ArrowInvalid(reason)
