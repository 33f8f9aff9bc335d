"""Text as the value that it says. What Arrow reads is read by Arrow; else each text that occurs by itself."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.model.casts.decimals import integer_limits, rescaled
from watersmeet.model.casts.instants import at_clocks, instants
from watersmeet.model.casts.outcome import Mask, Outcome, mask_of
from watersmeet.model.types import is_bytes, is_text, sql_type

_TEXT, _PLAIN, _UTC = pa.string(), pa.timestamp("us"), pa.timestamp("us", tz="UTC")
_TRUTH = {**dict.fromkeys(("true", "t", "yes", "y", "1"), True), **dict.fromkeys(("false", "f", "no", "n", "0"), False)}
_ANY_DECIMAL = pa.decimal256(76, 38)
_EXACTLY = Context(prec=1000)
_NUMBER = re.compile(r"[+-]?(\d+(_\d+)*\.?(\d+(_\d+)*)?|\.\d+(_\d+)*)([eE][+-]?\d+)?", re.ASCII)
_NO_NUMBER = re.compile(r"[+-]?(nan|inf|infinity)", re.IGNORECASE)
_BITS = re.compile(r"0[xX][0-9a-fA-F]+|0[bB][01]+")
_LONGEST = 100  # digits that a number may have before the point, and be looked at
_OFFSET = r"(?:[Zz]|[+-]\d\d(?::?\d\d)?)$"
_TIME = re.compile(
    r"(\d{4})([-/])(\d{1,2})\2(\d{1,2})"
    r"(?:(?:T|\s+)(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?)?\s*(Z|UTC|[+-]\d\d(?::?\d\d)?)?)?",
    re.ASCII,
)
_YEAR_1 = datetime(1, 1, 1)  # no scalar: Arrow loads pandas for the first one, and not every process reads a text


def read(text: pa.Array, target: pa.DataType) -> Outcome:
    """Blanks around a text do not matter, except in bytes and in text."""
    if is_bytes(target) or is_text(target):
        return Outcome(pc.cast(text, target))
    text = pc.ascii_trim_whitespace(text)
    if pa.types.is_timestamp(target):
        return _timestamps(text, target)
    reason = f"is not a {sql_type(target)}"
    if pa.types.is_date(target):
        made = _timestamps(text, _PLAIN)
        return Outcome(instants(made.values, target).values, made.wrong, reason)
    if pa.types.is_decimal(target):
        return _decimals(text, target, reason)
    quick = _by_arrow(text, target)
    if quick is not None:
        return Outcome(quick)
    return _one_by_one(text, target, _reader(target), reason)


def _by_arrow(text: pa.Array, target: pa.DataType) -> pa.Array | None:
    # Arrow takes the bits that are written as 0x… for those of a negative number.
    if pa.types.is_integer(target) and pc.any(pc.match_substring(text, "x", ignore_case=True)).as_py():
        return None
    try:
        return pc.cast(text, target)
    except pa.ArrowInvalid:
        return None


def _one_by_one(text: pa.Array, target: pa.DataType, one: Callable[[str], Any], reason: str) -> Outcome:
    encoded = text.dictionary_encode()
    values = pa.array([one(word) for word in encoded.dictionary.to_pylist()], target).take(encoded.indices)
    return Outcome(values, _unread(text, values), reason)


def _unread(text: pa.Array, *read: pa.Array) -> Mask:
    return mask_of(pc.and_(text.is_valid(), pc.coalesce(*read).is_null()))


def _reader(target: pa.DataType) -> Callable[[str], Any]:
    if pa.types.is_boolean(target):
        return lambda word: _TRUTH.get(word.lower())
    if pa.types.is_integer(target):
        return lambda word: _integer(word, *integer_limits(target))
    return lambda word: _float(word, target)


def _integer(word: str, lowest: int, highest: int) -> int | None:
    if _BITS.fullmatch(word):
        number = int(word, 0)
    else:
        exact = _number(word)
        if exact is None:
            return None
        number = int(exact.to_integral_value(ROUND_HALF_UP, _EXACTLY))
    return number if lowest <= number <= highest else None


def _number(word: str) -> Decimal | None:
    """The number that is written, unless it is too large for any type. Below what any type holds it is 0."""
    if not _NUMBER.fullmatch(word):
        return None
    exact = Decimal(word.replace("_", ""))
    if exact and not -_LONGEST < exact.adjusted() < _LONGEST:
        return None if exact.adjusted() > 0 else Decimal(0)
    return exact


def _float(word: str, target: pa.DataType) -> float | None:
    if not (_NUMBER.fullmatch(word) or _NO_NUMBER.fullmatch(word)):
        return None
    # By Arrow, as Python knows no floats of 32 bits and would round twice.
    made: float = pc.cast(pa.scalar(word.replace("_", "")), target).as_py()
    return made


def _decimals(text: pa.Array, target: pa.DataType, reason: str) -> Outcome:
    try:
        # Read with all its digits and rounded afterwards: Arrow refuses digits that do not fit.
        return Outcome(*rescaled(pc.cast(text, _ANY_DECIMAL), target), reason)
    except pa.ArrowInvalid:
        return _one_by_one(text, target, lambda word: _decimal(word, target), reason)


def _decimal(word: str, target: pa.DataType) -> Decimal | None:
    exact = _number(word)
    if exact is None:
        return None
    made = exact.quantize(Decimal(1).scaleb(-target.scale), ROUND_HALF_UP, _EXACTLY)
    return made if made.copy_abs() < 10 ** (target.precision - target.scale) else None


def _timestamps(text: pa.Array, target: pa.DataType) -> Outcome:
    """Zone offsets are honoured where they are written; without one the text is in the target's zone, or as it is."""
    plain, zoned = _times_by_arrow(text) or _times_one_by_one(text)
    unread = _unread(text, pc.cast(plain, _UTC), zoned)
    here = Outcome(pc.cast(plain, _UTC)) if target.tz is None else at_clocks(plain, target)
    made = pc.cast(pc.coalesce(pc.cast(here.values, _UTC), zoned), target)
    if unread is not None:
        return Outcome(made, unread if here.wrong is None else unread | here.wrong, f"is not a {sql_type(target)}")
    return Outcome(made, here.wrong, here.reason)


def _times_by_arrow(text: pa.Array) -> tuple[pa.Array, pa.Array] | None:
    """Times without an offset, and those with one in UTC; each NULL where the other is not."""
    # Arrow reads a column of texts if all have a zone or none has, so they are read apart.
    zoned = pc.match_substring_regex(text, r":\S*" + _OFFSET)
    none = pa.scalar(None, _TEXT)
    try:
        plain = pc.cast(pc.if_else(zoned, none, text), _PLAIN)
        instant = pc.cast(pc.if_else(zoned, text, none), _UTC)
    except pa.ArrowInvalid:
        return None
    years = pc.coalesce(plain, pc.cast(instant, _PLAIN))
    return None if pc.any(pc.less(years, pa.scalar(_YEAR_1, _PLAIN))).as_py() else (plain, instant)


def _times_one_by_one(text: pa.Array) -> tuple[pa.Array, pa.Array]:
    encoded = text.dictionary_encode()
    moments = [moment(word) for word in encoded.dictionary.to_pylist()]
    plain = pa.array([one if one is not None and one.tzinfo is None else None for one in moments], _PLAIN)
    zoned = pa.array([one if one is not None and one.tzinfo is not None else None for one in moments], _UTC)
    return plain.take(encoded.indices), zoned.take(encoded.indices)


def moment(word: str) -> datetime | None:
    """The time that a text without blanks around it says: a year of four digits, a month and a day, and a time of
    day if there is one; digits finer than a microsecond are cut off. Also whatever else ISO 8601 has."""
    found = _TIME.fullmatch(word)
    try:
        if found is None:
            read = datetime.fromisoformat(word)
        else:
            year, _, month, day, hour, minute, second, fraction, offset = found.groups("")
            us = int(fraction[:6].ljust(6, "0"))
            read = datetime(int(year), int(month), int(day), int(hour or 0), int(minute or 0), int(second or 0), us)
            read -= _offset(offset)
            read = read.replace(tzinfo=UTC) if offset else read
        return read if read.tzinfo is None else read.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _offset(word: str) -> timedelta:
    if word in ("", "Z", "UTC"):
        return timedelta()
    hours, minutes = int(word[1:3]), int(word[3:].lstrip(":") or 0)
    if hours > 23 or minutes > 59:
        raise ValueError(word)
    size = timedelta(hours=hours, minutes=minutes)
    return -size if word[0] == "-" else size
