"""CAST for one value, by exact arithmetic of Python's. Shares nothing with the casts that the engine has."""

from __future__ import annotations

import math
import re
from datetime import datetime
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa

from watersmeet.errors import DataError
from watersmeet.model.types import is_instant, is_text, sql_type
from watersmeet.reference.values import Value, tick_ns
from watersmeet.reference.zones import first_shown, moment, nanoseconds, offset_text, shown

_US, _DAY_NS = 1_000, 86_400 * 10**9
_EXACT = Context(prec=1_000)
_WORDS = {"true": True, "t": True, "yes": True, "y": True, "1": True,
          "false": False, "f": False, "no": False, "n": False, "0": False}  # fmt: skip
_SLASHES = re.compile(r"(\d{4})/(\d{1,2})/(\d{1,2})(?!\d)")


def cast(value: Value, source: pa.DataType, target: pa.DataType) -> Value:
    """The value in another type; DataError if it does not fit."""
    try:
        if is_text(target):
            return as_text(value, source)
        if is_text(source):
            return value.encode() if pa.types.is_binary(target) else _read(value.strip(" \t\n\r\v\f"), target)
        if is_instant(source) and is_instant(target):
            return _instant(value, source, target)
        if isinstance(value, bytes):
            return value
        return _number(value // _US if pa.types.is_duration(source) else value, target)
    except (ValueError, KeyError, ArithmeticError, UnicodeDecodeError):
        raise DataError(f"{value!r} cannot be cast to {sql_type(target)}") from None


def zone_of(kind: pa.DataType) -> str | None:
    return getattr(kind, "tz", None)


def _instant(value: int, source: pa.DataType, target: pa.DataType) -> int:
    """An instant becomes what clocks show, a date the instant at which they show its midnight; a timestamp is UTC."""
    if zone_of(target) is None:
        value = shown(value, zone_of(source))
    elif pa.types.is_date(source):
        value = first_shown(value, zone_of(target))
    tick = tick_ns(target)
    assert tick is not None
    return value // tick * tick


# -- numbers --------------------------------------------------------------------------------------------------------


def _number(value: Value, target: pa.DataType) -> Value:
    if pa.types.is_boolean(target):
        return value != 0
    if pa.types.is_float32(target):
        return single(value)
    if pa.types.is_floating(target):
        return float(value)
    if pa.types.is_decimal(target):
        return _decimal(value, target)
    return _integer(_to_even(value) if isinstance(value, float) else _away(Fraction(value)), target)


def _integer(number: int, target: pa.DataType) -> int:
    limits = np.iinfo(target.to_pandas_dtype())
    if not limits.min <= number <= limits.max:
        raise ValueError(number)
    return number


def _to_even(value: float) -> int:
    return round(Fraction(value))  # raises ValueError or OverflowError for what is not finite


def _away(exact: Fraction) -> int:
    """The nearest whole number, halves away from zero."""
    size = math.floor(abs(exact) + Fraction(1, 2))
    return size if exact > 0 else -size


def _decimal(value: Value, target: pa.DataType) -> Decimal:
    # Of floating numbers the product with the power of ten is a double, as in DuckDB.
    moved = Fraction(value * 10.0**target.scale) if isinstance(value, float) else Fraction(value) * 10**target.scale
    digits = _away(moved)
    # By the same doubles, where a power of ten is not always what is written.
    limit = 10.0**target.precision if isinstance(value, float) else 10**target.precision
    if abs(digits) >= limit:
        raise ValueError(value)
    return Decimal(digits).scaleb(-target.scale, _EXACT)


def single(value: Value) -> float:
    """The nearest float of 32 bits, of two equally near the even one."""
    if isinstance(value, float) and not (value and math.isfinite(value)):
        return value
    exact = Fraction(value)
    with np.errstate(over="ignore"):
        guess = np.float32(float(exact))
        near = [guess, np.nextafter(guess, np.float32(np.inf)), np.nextafter(guess, np.float32(-np.inf))]
    finite = [one for one in near if np.isfinite(one)]
    # Half a step above the largest the next power of two would be nearer.
    if abs(exact) >= Fraction(2**128) - Fraction(2**103):
        raise ValueError(value)
    return float(min(finite, key=lambda one: (abs(Fraction(float(one)) - exact), int(one.view(np.int32)) & 1)))


# -- text -----------------------------------------------------------------------------------------------------------


def as_text(value: Value, source: pa.DataType) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, float):
        return repr(value) if pa.types.is_float64(source) else _single_text(value)
    if pa.types.is_duration(source):
        return _interval_text(value // _US)
    if pa.types.is_date(source):
        return moment(value).date().isoformat()
    if is_instant(source):
        zone = zone_of(source)
        text = moment(shown(value, zone)).replace(tzinfo=None).isoformat(sep=" ")
        return (text.rstrip("0") if "." in text else text) + (offset_text(value, zone) if zone else "")
    if pa.types.is_time(source):
        text = str(value)
        return text.rstrip("0") if "." in text else text
    return str(value)


def _single_text(value: float) -> str:
    """The fewest digits that say this float of 32 bits, laid out as Python does it for doubles."""
    for digits in range(9):
        shorter = float(f"{value:.{digits}e}")
        if _float(repr(shorter), pa.float32()) == value:
            return repr(shorter)
    return repr(value)


def _interval_text(us: int) -> str:
    seconds, rest = divmod(abs(us), 1_000_000)
    text = f"{'-' if us < 0 else ''}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{text}.{rest:06}".rstrip("0") if rest else text


def _read(text: str, target: pa.DataType) -> Value:
    if pa.types.is_boolean(target):
        return _WORDS[text.lower()]
    if is_instant(target):
        return _time(text, target)
    if text.endswith("_") or "__" in text or "_." in text or "._" in text or text.startswith("_"):
        raise ValueError(text)
    if not text.isascii():  # Python reads digits of all scripts, and passes over blanks of all
        raise ValueError(text)
    if pa.types.is_floating(target):
        return _float(text, target)
    if pa.types.is_integer(target) and text[:2].lower() in ("0x", "0b"):
        return _integer(int(text, 0), target)
    exact = Decimal(text.replace("_", ""))
    if not exact.is_finite() or exact.adjusted() > 100:
        raise ValueError(text)
    digits = exact.quantize(Decimal(1).scaleb(-getattr(target, "scale", 0)), ROUND_HALF_UP, _EXACT)
    return _integer(int(digits), target) if pa.types.is_integer(target) else _decimal(digits, target)


def _float(text: str, target: pa.DataType) -> float:
    if pa.types.is_float64(target) or not math.isfinite(float(text)):
        return float(text)
    try:
        return single(Fraction(text)) if float(text) else float(text)
    except ValueError:  # beyond the largest, as it is when doubles are read
        return math.copysign(math.inf, float(text))


def _time(text: str, target: pa.DataType) -> int:
    """ISO 8601; months, days, hours and so on may have one digit, and dates slashes."""
    before, point, after = _SLASHES.sub(r"\1-\2-\3", text, count=1).removesuffix("UTC").strip().partition(".")
    padded = re.sub(r"(?<!\d)\d(?!\d)", lambda found: f"0{found[0]}", re.sub(r"\s+", " ", before))
    at = datetime.fromisoformat(padded + point + after)
    instant = nanoseconds(at) if at.tzinfo else first_shown(nanoseconds(at), zone_of(target))
    return instant // _DAY_NS * _DAY_NS if pa.types.is_date(target) else instant
