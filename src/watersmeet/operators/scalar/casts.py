"""CAST: numbers are cut towards zero for integers and rounded for decimals; text is read and written as in SQL.

An instant becomes a date, a timestamp or text by what clocks show in the zone of its type, which is the query's. A
date, and text without a zone, become instants by the same clocks; a timestamp is taken as UTC.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.model.types import is_instant, is_number, is_text
from watersmeet.operators.scalar.values import Function, Value, as_array, as_text, convert, rescale
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
    if is_instant(value.type) and is_instant(target):
        return _as_instant(value, target)
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
        # Read with all its digits and rounded afterwards: Arrow refuses digits that do not fit.
        return rescale(pc.cast(text, _ANY_DECIMAL), target)
    if pa.types.is_timestamp(target):
        return _read_timestamp(text, target)
    if pa.types.is_integer(target):
        # Arrow reads no plus sign before integers.
        text = pc.replace_substring_regex(text, r"^\+", "")
    return pc.cast(text, target)


def _read_timestamp(text: Value, target: pa.DataType) -> Value:
    """Zone offsets are honoured where they are written; without one the text is in the target's zone, or as it is."""
    # Arrow reads a column of texts if all have a zone or none has, so they are read apart.
    zoned = pc.match_substring_regex(text, _ZONE)
    none = pa.scalar(None, pa.string())
    utc = pa.timestamp(target.unit, tz="UTC")
    plain = pc.cast(pc.if_else(zoned, none, text), pa.timestamp(target.unit))
    with_zone = pc.cast(pc.if_else(zoned, text, none), utc)
    without = pc.cast(plain, utc) if target.tz is None else pc.cast(_instants(plain, target.tz), utc)
    return pc.cast(pc.coalesce(without, with_zone), target)


def _as_instant(value: Value, target: pa.DataType) -> Value:
    if pa.types.is_date(value.type):
        midnight = convert(value, pa.timestamp("us"))
        zone = getattr(target, "tz", None)
        return convert(midnight if zone is None else _instants(midnight, zone), target)
    if value.type.tz is not None and getattr(target, "tz", None) is None:
        value = pc.local_timestamp(value)
    return convert(value, target)


def _instants(readings: Value, zone: str) -> Value:
    """The first instants at which clocks of a zone show these times."""
    try:
        return pc.assume_timezone(readings, zone, ambiguous="earliest", nonexistent="raise")
    except pa.ArrowInvalid as error:
        # Only Arrow's message tells which time it was.
        skipped = re.search(r"(\d{4,}-\d\d-\d\d \d\d:\d\d:\d\d)[.0-9]* is in a gap", str(error))
        if skipped is None:
            raise
        raise pa.ArrowInvalid(f"{skipped[1]} does not exist in {zone}: clocks skip it there") from None


def _written(value: Value) -> Value:
    text = pc.cast(value, pa.string())
    if pa.types.is_floating(value.type):
        # Arrow writes 1.0 as 1.
        return pc.replace_substring_regex(text, r"^(-?\d+)$", r"\1.0")
    if is_instant(value.type) and not pa.types.is_date(value.type):
        # Arrow writes every digit that the unit has, and offsets without a colon.
        cut = pc.replace_substring_regex(text, r"(\.\d*?)0+(Z|[+-]\d{4})?$", r"\1\2")
        cut = pc.replace_substring_regex(cut, r"\.(Z|[+-]\d{4})?$", r"\1")
        offset = pc.replace_substring_regex(cut, r"([+-]\d\d)(\d\d)$", r"\1:\2")
        return offset if value.type.tz is None else pc.replace_substring_regex(offset, "Z$", "+00:00")
    return text


def try_cast(args: Sequence[Value], call: Call) -> Value:
    """CAST, with NULL for what does not fit. Values are tried one by one only if not all of them fit."""
    try:
        return convert(cast(args, call), call.type)
    except pa.ArrowInvalid:
        if isinstance(args[0], pa.Scalar):
            return pa.scalar(None, call.type)
    encoded = args[0].dictionary_encode()
    if len(encoded.dictionary) < 2:
        return pa.scalar(None, call.type)
    each = [encoded.dictionary.slice(place, 1) for place in range(len(encoded.dictionary))]
    return pa.concat_arrays([as_array(try_cast([one], call), 1) for one in each]).take(encoded.indices)


FUNCTIONS: dict[str, Function] = {"cast": cast, "try_cast": try_cast}
