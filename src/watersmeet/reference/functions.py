"""The named scalar functions on plain values, none of them NULL. plan.functions says which types they take."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_UP, Context, Decimal, InvalidOperation

import pyarrow as pa

from watersmeet.errors import DataError
from watersmeet.model.time import UNITS_US
from watersmeet.model.types import is_instant, is_text, sql_type
from watersmeet.reference import number_functions, text_functions
from watersmeet.reference.values import Value, coerce, tick_ns
from watersmeet.reference.zones import first_past, first_shown, moment, nanoseconds, offset_text, shown

_EXACT = Context(prec=100)
_US = 1_000  # nanoseconds
Rule = Callable[[list[Value], pa.DataType], Value]


def matches_like(text: str, pattern: str) -> bool:
    """`%` stands for any text, `_` for any one character."""
    wild = {"%": ".*", "_": "."}
    regex = "".join(wild.get(character) or re.escape(character) for character in pattern)
    return re.fullmatch(regex, text, re.DOTALL) is not None


def rounded(value: Value, mode: str, digits: int, kind: pa.DataType) -> Value:
    """A number at so many decimal digits, by a rounding mode of the decimal module."""
    if isinstance(value, int) and digits >= 0:
        return value
    if isinstance(value, float) and not math.isfinite(value):
        return value
    # The digits that people see: 2.675 rounds up, though the double behind it is a little less.
    exact = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    result = exact.quantize(Decimal(1).scaleb(-digits), rounding=mode, context=_EXACT)
    return int(result) if isinstance(value, int) else coerce(result, kind)


def substring(text: str, start: int, length: int | None = None) -> str:
    """Characters from position `start`: the first is 1, the last -1; positions before the text hold nothing."""
    start = start if start >= 0 else len(text) + start + 1
    end = len(text) + 1 if length is None else start + length
    return text[max(start, 1) - 1 : max(end, 1) - 1]


def date_trunc(unit: str, instant_ns: int, zone: str | None) -> int:
    """The start of a unit by the clocks of a zone. An hour is one of the hours that go by, also if clocks show it
    twice; a day starts when its first time is shown."""
    reading = shown(instant_ns, zone)
    start = _start(unit, reading)
    if zone is None or UNITS_US.get(unit.lower(), UNITS_US["day"]) < UNITS_US["day"]:
        # The hour is measured back from the instant, as the reading alone may stand for two.
        return instant_ns - (reading - start)
    return first_past(start, zone)


def _start(unit: str, instant_ns: int) -> int:
    unit = unit.lower()
    if unit == "week":
        monday = UNITS_US["day"] * 4  # 1970-01-05
        size_us = UNITS_US["week"]
        return ((instant_ns // _US - monday) // size_us * size_us + monday) * _US
    if unit in UNITS_US:
        return instant_ns // (UNITS_US[unit] * _US) * (UNITS_US[unit] * _US)
    at = moment(instant_ns)
    month = {"month": at.month, "quarter": (at.month - 1) // 3 * 3 + 1, "year": 1}[unit]
    return nanoseconds(datetime(at.year, month, 1, tzinfo=UTC))


def cast(value: Value, source: pa.DataType, target: pa.DataType) -> Value:
    """CAST: towards integers cuts the fraction off, towards decimals rounds, dates forget the time of day."""
    try:
        if is_text(target):
            return as_text(value, source)
        if is_text(source):
            return _parse(value, target)
        if is_instant(source) and is_instant(target):
            value = _between_zones(value, source, target)
        return _convert(value // _US if pa.types.is_duration(source) else value, target)
    except (ValueError, KeyError, InvalidOperation, OverflowError):
        raise DataError(f"{value!r} cannot be cast to {sql_type(target)}") from None


def zone_of(kind: pa.DataType) -> str | None:
    return getattr(kind, "tz", None)


def _between_zones(value: int, source: pa.DataType, target: pa.DataType) -> int:
    """An instant becomes what clocks show, a date the instant at which they show its midnight; a timestamp is UTC."""
    if zone_of(target) is None:
        return shown(value, zone_of(source))
    return first_shown(value, zone_of(target)) if pa.types.is_date(source) else value


def as_text(value: Value, source: pa.DataType) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if pa.types.is_date(source):
        return moment(value).date().isoformat()
    if is_instant(source):
        zone = zone_of(source)
        text = moment(shown(value, zone)).replace(tzinfo=None).isoformat(sep=" ")
        return (text.rstrip("0") if "." in text else text) + (offset_text(value, zone) if zone else "")
    return str(value)


def _parse(text: str, target: pa.DataType) -> Value:
    text = text.strip()
    if pa.types.is_boolean(target):
        return {"true": True, "false": False, "t": True, "f": False, "1": True, "0": False}[text.lower()]
    if pa.types.is_date(target):
        return nanoseconds(datetime.combine(date.fromisoformat(text), datetime.min.time()))
    if is_instant(target):
        read = datetime.fromisoformat(text)
        return nanoseconds(read) if read.tzinfo else first_shown(nanoseconds(read), zone_of(target))
    return _convert(float(text) if pa.types.is_floating(target) else Decimal(text), target)


def _convert(value: Value, target: pa.DataType) -> Value:
    if pa.types.is_boolean(target):
        return value != 0
    if pa.types.is_integer(target):
        return int(value if isinstance(value, int) else Decimal(value).to_integral_value(ROUND_DOWN))
    if pa.types.is_decimal(target):
        exact = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
        return exact.quantize(Decimal(1).scaleb(-target.scale), rounding=ROUND_HALF_UP, context=_EXACT)
    if tick := tick_ns(target):
        return value // tick * tick
    return coerce(value, target)


FUNCTIONS: dict[str, Rule] = {
    **text_functions.FUNCTIONS,
    **number_functions.FUNCTIONS,
    "like": lambda v, kind: matches_like(*v),
    "concat": lambda v, kind: "".join(v),
    "lower": lambda v, kind: v[0].lower(),
    "upper": lambda v, kind: v[0].upper(),
    "length": lambda v, kind: len(v[0]),
    "substring": lambda v, kind: substring(*v),
    "starts_with": lambda v, kind: v[0].startswith(v[1]),
    "contains": lambda v, kind: v[1] in v[0],
    # Python would put it between all characters.
    "replace": lambda v, kind: v[0].replace(v[1], v[2]) if v[1] else v[0],
    "floor": lambda v, kind: rounded(v[0], ROUND_FLOOR, 0, kind),
    "ceil": lambda v, kind: rounded(v[0], ROUND_CEILING, 0, kind),
    "round": lambda v, kind: rounded(v[0], ROUND_HALF_UP, v[1] if len(v) > 1 else 0, kind),
    "year": lambda v, kind: moment(v[0]).year,
    "month": lambda v, kind: moment(v[0]).month,
    "day": lambda v, kind: moment(v[0]).day,
    "hour": lambda v, kind: moment(v[0]).hour,
    "minute": lambda v, kind: moment(v[0]).minute,
    "second": lambda v, kind: moment(v[0]).second,
    "epoch_us": lambda v, kind: v[0] // _US,
}
