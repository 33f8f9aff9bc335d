"""The named scalar functions on plain values, none of them NULL. plan.functions says which types they take."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP

import pyarrow as pa

from watersmeet.errors import DataError
from watersmeet.model.time import UNITS_US
from watersmeet.reference import number_functions, text_functions
from watersmeet.reference.number_functions import rounded
from watersmeet.reference.values import Value
from watersmeet.reference.zones import first_past, moment, nanoseconds, shown

_US = 1_000  # nanoseconds
Rule = Callable[[list[Value], pa.DataType], Value]


def matches_like(text: str, pattern: str) -> bool:
    """`%` stands for any text, `_` for any one character."""
    wild = {"%": ".*", "_": "."}
    regex = "".join(wild.get(character) or re.escape(character) for character in pattern)
    return re.fullmatch(regex, text, re.DOTALL) is not None


def substring(text: str, start: int, length: int | None = None) -> str:
    """Characters from position `start`: the first is 1, the last -1; positions before the text hold nothing."""
    if length is not None and length < 0:
        raise DataError(f"the length {length} is negative")
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
