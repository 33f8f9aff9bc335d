"""CAST: numbers are cut towards zero for integers and rounded for decimals; text is read and written as in SQL."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.model.types import is_instant, is_number, is_text
from watersmeet.operators.scalar.values import Function, Value, as_text, convert, rescale
from watersmeet.plan.expressions import Call

_ANY_DECIMAL = pa.decimal256(76, 38)
_ZONE = r"(?:[Zz]|[+-]\d\d:?\d\d)$"


def cast(args: Sequence[Value], call: Call) -> Value:
    value, target = args[0], call.type
    if value.type == target:
        return value
    if is_text(value.type):
        return _read(pc.utf8_trim_whitespace(as_text(value)), target)
    if is_text(target):
        return _written(value)
    if pa.types.is_integer(target) and not pa.types.is_boolean(value.type):
        return pc.cast(_whole(value), target)
    if pa.types.is_boolean(target) and is_number(value.type):
        return pc.not_equal(value, pc.cast(pa.scalar(0), value.type))
    if pa.types.is_decimal(target):
        return _as_decimal(value, target)
    return convert(value, target)


def _whole(value: Value) -> Value:
    return pc.trunc(value) if pa.types.is_floating(value.type) or pa.types.is_decimal(value.type) else value


def _as_decimal(value: Value, target: pa.DataType) -> Value:
    if pa.types.is_boolean(value.type):
        value = pc.cast(value, pa.int64())
    if pa.types.is_floating(value.type):
        value = pc.round(value, target.scale, "half_towards_infinity")
    return convert(value, target)


def _read(text: Value, target: pa.DataType) -> Value:
    if pa.types.is_decimal(target):
        return rescale(pc.cast(text, _ANY_DECIMAL), target)
    if pa.types.is_timestamp(target):
        return _read_timestamp(text, target)
    if pa.types.is_integer(target):
        text = pc.replace_substring_regex(text, r"^\+", "")
    return pc.cast(text, target)


def _read_timestamp(text: Value, target: pa.DataType) -> Value:
    """Zone offsets are honoured where they are written; without one the text is UTC."""
    zoned = pc.match_substring_regex(text, _ZONE)
    none = pa.scalar(None, pa.string())
    utc = pa.timestamp(target.unit, tz="UTC")
    plain = pc.cast(pc.if_else(zoned, none, text), pa.timestamp(target.unit))
    with_zone = pc.cast(pc.if_else(zoned, text, none), utc)
    return pc.cast(pc.coalesce(pc.cast(plain, utc), with_zone), target)


def _written(value: Value) -> Value:
    text = pc.cast(value, pa.string())
    if pa.types.is_floating(value.type):
        return pc.replace_substring_regex(text, r"^(-?\d+)$", r"\1.0")
    if is_instant(value.type) and not pa.types.is_date(value.type):
        cut = pc.replace_substring_regex(text, r"(\.\d*?)0+(Z?)$", r"\1\2")
        return pc.replace_substring_regex(cut, r"\.(Z?)$", r"\1")
    return text


FUNCTIONS: dict[str, Function] = {"cast": cast}
