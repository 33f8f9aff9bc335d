"""What a declaration may tell of a stream before its rows are seen: how fast it is, how many values a column has,
whether each comes once."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, SupportsFloat

from watersmeet.model.time import UNITS_US, parse_interval

_RATE = re.compile(r"\s*(?P<count>\d[\d_,]*(?:\.\d+)?)\s*(?:rows?\s*)?(?:/|per)\s*(?P<unit>\w+)\s*", re.IGNORECASE)


def parse_rate(given: str | float) -> float:
    """Rows a second, of `100/s`, `5,000 per minute` or a plain number.

    >>> parse_rate("100/s"), parse_rate("30 rows per minute"), parse_rate(2.5)
    (100.0, 0.5, 2.5)
    """
    text = str(given)
    try:
        return _positive(float(text.strip()), text)
    # Zero and negative numbers come here too: the sentence below is right for them.
    except ValueError:
        pass
    written = _RATE.fullmatch(text)
    if written is None:
        raise ValueError(f"{text!r} is no rate; write '100/s', '30 per minute' or a number of rows a second")
    per_us = parse_interval(f"1 {written['unit']}")
    count = float(written["count"].replace(",", "").replace("_", ""))
    return _positive(count * UNITS_US["second"] / per_us, text)


def parse_distinct(given: str | Mapping[str, Any]) -> dict[str, float]:
    """The number of values of each column named.

    >>> parse_distinct("k: 5000, city: 40"), parse_distinct({"k": 5000})
    ({'k': 5000.0, 'city': 40.0}, {'k': 5000.0})
    """
    if isinstance(given, Mapping):
        return {column: _count(column, number) for column, number in given.items()}
    counts: dict[str, float] = {}
    for part in filter(None, map(str.strip, str(given).split(","))):
        column, colon, count = part.rpartition(":")
        number = count.strip().replace("_", "")
        if not colon or not column.strip() or not number.isdecimal() or int(number) < 1:
            raise ValueError(f"{part!r} is no column with its number of values; write 'k: 5000, city: 40'")
        counts[column.strip()] = float(number)
    return counts


def _count(column: str, given: Any) -> float:
    if not isinstance(given, SupportsFloat) or not 1 <= float(given) < math.inf:
        raise ValueError(f"{given!r} is no number of values of {column}; write distinct={{'k': 5000}}")
    return float(given)


def parse_unique(given: str | Sequence[str]) -> tuple[str, ...]:
    """The columns of which each value comes once.

    >>> parse_unique("id, code"), parse_unique(["id", "code"])
    (('id', 'code'), ('id', 'code'))
    """
    columns = tuple(filter(None, map(str.strip, given.split(",") if isinstance(given, str) else given)))
    if not columns:
        raise ValueError(f"{given!r} names no column; write 'id', or several that each are unique: 'id, code'")
    return columns


def _positive(rate: float, text: str) -> float:
    if not 0 < rate < math.inf:
        raise ValueError(f"{text!r} is no rate; it must be above zero")
    return rate
