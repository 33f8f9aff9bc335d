"""When values are the same, and which comes first: what groups, sets and the first n rows go by.

NULL is the same as NULL and NaN as NaN. In order, NaN stands above every number and NULL after everything; text goes by
code points, rows by their columns from left to right.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import Any

from watersmeet.reference.values import Value

Row = tuple[Value, ...]


def same(values: Sequence[Value]) -> Row:
    """A key that two rows share when their values are the same."""
    # NaN is not equal to itself in Python, so a word stands for it.
    return tuple("NaN" if is_nan(value) else value for value in values)


def is_nan(value: Value) -> bool:
    return isinstance(value, float) and isnan(value)


def rank(value: Value) -> tuple[Any, ...]:
    """A value as something Python can compare with any other of its column."""
    if value is None:
        return (2,)
    if isinstance(value, list | dict):
        return (0, repr(value))  # nested values have no order of their own; any will do
    return (1,) if is_nan(value) else (0, value)


def rank_of_row(row: Sequence[Value]) -> tuple[Any, ...]:
    return tuple(map(rank, row))
