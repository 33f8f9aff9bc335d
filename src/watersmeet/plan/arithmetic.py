"""Result types of + - * / and %: numbers, and event times with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from watersmeet.model.types import common_type, is_instant, is_number, sql_type

_SYMBOLS = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "modulo": "%"}
_DURATION = pa.duration("us")


def promoted(t: pa.DataType) -> pa.DataType:
    """The type arithmetic is done in: int64 for integers, double for floats, decimals as they are."""
    if pa.types.is_decimal(t):
        return t
    # uint64 too: what does not fit is an overflow, which is an error when it happens.
    return pa.float64() if pa.types.is_floating(t) else pa.int64()


def arithmetic_type(function: str, args: Sequence[pa.DataType]) -> pa.DataType:
    left, right = args
    temporal = _temporal(function, left, right)
    if temporal is not None:
        return temporal
    for t in args:
        if not (is_number(t) or pa.types.is_null(t)):
            raise TypeError(_refusal(function, left, right))
    return _numeric(function, *_without_null(left, right))


def _without_null(left: pa.DataType, right: pa.DataType) -> tuple[pa.DataType, pa.DataType]:
    # A NULL takes the type of the other side.
    left = right if pa.types.is_null(left) else left
    right = left if pa.types.is_null(right) else right
    return promoted(left), promoted(right)


def _numeric(function: str, left: pa.DataType, right: pa.DataType) -> pa.DataType:
    if function == "divide" or pa.types.is_floating(left) or pa.types.is_floating(right):
        return pa.float64()
    if pa.types.is_integer(left) and pa.types.is_integer(right):
        return pa.int64()
    a, b = _decimal(left), _decimal(right)
    if function == "multiply":
        scale = min(38, a.scale + b.scale)
        return pa.decimal128(min(38, a.precision + b.precision), scale)
    shared: Any = common_type(a, b)
    # One digit more for what a sum carries over; a remainder is never longer.
    widened = shared.precision if function == "modulo" else min(38, shared.precision + 1)
    return pa.decimal128(widened, shared.scale)


def _decimal(t: pa.DataType) -> Any:
    # The digits of int64, as promoted() has made every integer one.
    return t if pa.types.is_decimal(t) else pa.decimal128(19, 0)


def _temporal(function: str, left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The rules for event times and intervals, or None if neither is involved in a way that has a meaning."""
    spans = pa.types.is_duration(left), pa.types.is_duration(right)
    match function:
        case "add" | "subtract" if all(spans):
            return _DURATION
        case "add" | "subtract" if is_instant(left) and spans[1]:
            return _instant(left)
        case "add" if spans[0] and is_instant(right):
            return _instant(right)
        case "subtract" if is_instant(left) and is_instant(right):
            return _DURATION
        case "multiply" if (spans[0] and pa.types.is_integer(right)) or (pa.types.is_integer(left) and spans[1]):
            return _DURATION
    return None


def _instant(t: pa.DataType) -> pa.DataType:
    return t if pa.types.is_timestamp(t) else pa.timestamp("us")


def _refusal(function: str, left: pa.DataType, right: pa.DataType) -> str:
    text = f"{sql_type(left)} {_SYMBOLS[function]} {sql_type(right)} has no meaning"
    if is_instant(left) and is_number(right):
        return f"{text}; to move a time write for example + INTERVAL 5 SECONDS"
    if is_instant(left) and is_instant(right):
        return f"{text}; the difference of two times is written with -"
    return text
