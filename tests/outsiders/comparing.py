"""Bags of rows: equal but for the last digits of floating numbers."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

Rows = list[tuple[Any, ...]]


def plain(value: Any) -> Any:
    """A value by which equal ones are found: NaN equals itself, and -0 is 0."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    if isinstance(value, Decimal):
        return value.normalize() + 0
    if isinstance(value, list):
        return tuple(plain(each) for each in value)
    if isinstance(value, dict):
        return tuple((name, plain(each)) for name, each in value.items())
    if isinstance(value, bool):
        return str(value)  # not the number 1
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=None)
    return value


def plain_rows(rows: Iterable[Iterable[Any]]) -> Rows:
    return [tuple(plain(value) for value in row) for row in rows]


def difference(expected: Rows, got: Rows) -> tuple[Rows, Rows]:
    """What is missing, and what is too much."""
    left, right = Counter(expected), Counter(got)
    missing, extra = list((left - right).elements()), list((right - left).elements())
    for row in list(missing):
        near = next((other for other in extra if _near_rows(row, other)), None)
        if near is not None:
            missing.remove(row)
            extra.remove(near)
    return missing, extra


def _near_rows(left: tuple[Any, ...], right: tuple[Any, ...]) -> bool:
    return len(left) == len(right) and all(map(_near, left, right))


def _near(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-9)
    return type(left) is type(right) and bool(left == right)
