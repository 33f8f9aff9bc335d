"""Constants, and the few conversions a constant undergoes to meet a column: never a column to meet a constant."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from operator import add, mul, sub
from typing import Any

import pyarrow as pa

from watersmeet.model import casts
from watersmeet.model.casts.reading import moment as read_moment
from watersmeet.model.time import parse_interval
from watersmeet.model.types import common_type, comparable, is_instant, is_number, is_text, sql_type
from watersmeet.model.zones import instant_of, moved
from watersmeet.plan.expressions import Expression, Literal

NULL = Literal(None, pa.null())
_SPECIAL = re.compile(r"[\\.^$|()\[\]{}*+?]")  # in regular expressions
_EXACT: dict[str, Callable[[Decimal, Decimal], Decimal]] = {"add": add, "subtract": sub, "multiply": mul}


def number(text: str) -> Literal:
    """`3` is an integer, `3.5` and `3e2` are doubles."""
    # Python refuses to read a whole number of thousands of digits.
    if text.isdecimal() and len(text) <= 38 and int(text) < 2**63:
        return Literal(int(text), pa.int64())
    # Beyond int64 a decimal is exact, a double is not.
    if text.isdecimal() and len(text) <= 38:
        return Literal(Decimal(text), pa.decimal128(len(text), 0))
    return Literal(float(text), pa.float64())


def written(text: str) -> Literal:
    """A number as it stands in a CAST: with a point it is the decimal that is written, not the double nearest to it."""
    digits, behind = len(text) - text.count("."), len(text.partition(".")[2])
    if "." in text and text.replace(".", "").isdecimal() and digits <= 38:
        return Literal(Decimal(text), pa.decimal128(digits, behind))
    return number(text)


def interval(us: int) -> Literal:
    return Literal(us, pa.duration("us"))


def months_later(literal: Literal, months: int) -> Literal:
    """A date or a TIMESTAMP so many months later, or at the end of that month if it has no such day. Raises ValueError
    beyond the years that can be counted."""
    start = literal.value
    year, month = divmod(start.year * 12 + start.month - 1 + months, 12)
    day = min(start.day, monthrange(year, month + 1)[1])
    time = start.time() if isinstance(start, datetime) else datetime.min.time()
    return Literal(datetime.combine(date(year, month + 1, day), time), pa.timestamp("us"))


def negated(literal: Literal) -> Literal:
    return Literal(-literal.value, literal.type)


def computed(function: str, args: Sequence[Expression]) -> Literal | None:
    """What two numbers with a point make, exactly: 0.06 + 0.01 is 0.07, which no sum of the nearest doubles is."""
    # Intervals and truths are whole numbers in Python, too.
    numbers = [
        arg.value
        for arg in args
        if isinstance(arg, Literal) and is_number(arg.type) and isinstance(arg.value, int | float)
    ]
    if function not in _EXACT or len(numbers) != 2 or not any(isinstance(one, float) for one in numbers):
        return None
    return Literal(float(_EXACT[function](*(Decimal(repr(one)) for one in numbers))), pa.float64())


def like_pattern(pattern: str, mark: str) -> str:
    """A pattern of LIKE with an escape as a regular expression. Raises ValueError if nothing follows the escape.

    >>> like_pattern("50!%_", "!")
    '50%.'
    """
    made, marks = "", iter(pattern)
    for one in marks:
        if one == mark:
            one = next(marks, "")
            if not one:
                raise ValueError(f"the pattern {pattern!r} ends with its escape")
            made += _SPECIAL.sub(r"\\\g<0>", one)
        else:
            made += {"%": ".*", "_": "."}.get(one) or _SPECIAL.sub(r"\\\g<0>", one)
    return made


def meet(args: list[Expression]) -> list[Expression]:
    """Fit the constants among values that are compared with each other to the types of the rest.

    Raises ValueError if a text constant cannot be read as the time or interval it is compared with.
    """
    # Loose constants take the type of what they meet; the others take part in deciding it.
    firm = [arg.type for arg in args if not isinstance(arg, Literal) or not _is_loose(arg)]
    if not firm or not all(comparable(firm[0], t) for t in firm):
        return args
    target = firm[0]
    for t in firm[1:]:
        target = common_type(target, t)
    return [fitted(arg, target) if isinstance(arg, Literal) else arg for arg in args]


def _is_loose(literal: Literal) -> bool:
    return is_text(literal.type) or pa.types.is_null(literal.type) or pa.types.is_floating(literal.type)


def fitted(literal: Literal, target: pa.DataType) -> Literal:
    """The constant in the type it meets, where SQL's users expect that; otherwise as it is."""
    value = literal.value
    if value is None and pa.types.is_null(literal.type):
        return Literal(None, target)
    if is_text(literal.type) and is_instant(target):
        return instant(value, target)
    if is_text(literal.type) and pa.types.is_duration(target):
        return interval(parse_interval(value))
    if pa.types.is_floating(literal.type) and pa.types.is_decimal(target):
        return _decimal(value) or literal
    return literal


def instant(text: str, target: pa.DataType) -> Literal:
    """A timestamp or date constant. Text without a zone is as written beside a TIMESTAMP, and in the query's zone,
    which the target carries, beside an instant. Raises ValueError if it cannot be read, or is skipped."""
    moment = read_moment(text.strip())
    if moment is None:
        raise ValueError(f"{text!r} is not a {sql_type(target)}; write for example '2024-05-01 12:30:00'")
    # A text with a time of day is no date, also beside one: it stays a time, and the date becomes its midnight.
    if pa.types.is_date(target) and (moment.time() == datetime.min.time() and moment.tzinfo is None):
        return Literal(date(moment.year, moment.month, moment.day), pa.date32())
    zone = target.tz if pa.types.is_timestamp(target) else None
    if zone is None:
        utc = moved(moment, "UTC") if moment.tzinfo is not None else moment
        return Literal(utc.replace(tzinfo=None), pa.timestamp("us"))
    utc = moved(moment, "UTC") if moment.tzinfo is not None else instant_of(moment, zone)
    return Literal(utc, pa.timestamp("us", tz=zone))


def _decimal(value: float) -> Literal | None:
    # repr gives the digits that were written: 0.1 is 0.1, not the double nearest to it.
    exact = Decimal(repr(value))
    exponent = exact.as_tuple().exponent
    if not isinstance(exponent, int):
        return None
    scale = max(0, -exponent)
    # Zeros behind the point are digits too (0.001 has three), and so are those before it (1e22 has 23).
    digits = max(len(exact.as_tuple().digits) + max(0, exponent), scale, 1)
    return Literal(exact, pa.decimal128(digits, scale)) if digits <= 38 else None


def cast(literal: Literal, target: pa.DataType) -> Literal:
    """A constant cast now rather than for every row, as columns are cast. Raises ValueError if it does not fit."""
    try:
        made = casts.cast(pa.scalar(literal.value, literal.type), target)
        return Literal(_value(made), target)
    except pa.ArrowInvalid as error:
        raise ValueError(str(error)) from None


def _value(scalar: pa.Scalar) -> Any:
    # Intervals are numbers of microseconds.
    return scalar.value if pa.types.is_duration(scalar.type) else scalar.as_py()
