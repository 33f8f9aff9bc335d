"""When values are the same, and which comes first: what groups, sets and the first n rows go by.

NULL is the same as NULL and NaN as NaN. In order, NaN stands above every number and NULL after everything; text goes by
code points, rows by their columns from left to right, and so do lists and structs by what they hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isnan
from typing import Any

from watersmeet.reference.values import Value

Row = tuple[Value, ...]


def same(values: Sequence[Value]) -> Row:
    """A key that two rows share when their values are the same."""
    return tuple(map(_hashable, values))


def _hashable(value: Value) -> Value:
    """NaN is not equal to itself in Python, so a word stands for it; nested values are known by what is in them."""
    if isinstance(value, dict):
        return tuple((name, _hashable(one)) for name, one in value.items())
    if isinstance(value, list | tuple):
        return tuple(map(_hashable, value))
    return "NaN" if is_nan(value) else value


def is_nan(value: Value) -> bool:
    return isinstance(value, float) and isnan(value)


def rank(value: Value) -> tuple[Any, ...]:
    """A value as something Python can compare with any other of its column."""
    if value is None:
        return (2,)
    if isinstance(value, list | tuple | dict):
        return (0, rank_of_row(value.values() if isinstance(value, dict) else value))
    return (1,) if is_nan(value) else (0, value)


def in_order(rows: list[Any], keys: Sequence[Value], *, descending: bool, nulls_first: bool) -> list[Any]:
    """Rows by their keys; equal ones as they stood."""
    keyed = list(zip(keys, rows, strict=True))
    known = [each for each in keyed if each[0] is not None]
    # Also with reverse=True equals keep their order, so NULLs must not be sorted with them.
    known.sort(key=lambda each: rank(each[0]), reverse=descending)
    given, unknown = [row for _, row in known], [row for key, row in keyed if key is None]
    return unknown + given if nulls_first else given + unknown


def rank_of_row(row: Iterable[Value]) -> tuple[Any, ...]:
    return tuple(map(rank, row))
