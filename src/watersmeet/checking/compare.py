"""Two bags of rows, and whether they are the same. Floating numbers may differ in their last digits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from math import isclose, isnan
from types import NoneType
from typing import Any

Row = tuple[Any, ...]
RELATIVE, ABSOLUTE = 1e-9, 1e-9
COMPARABLE = frozenset({NoneType, bool, int, str, bytes, Decimal, date, datetime, timedelta})


def surplus(rows: Iterable[Row], others: Iterable[Row]) -> list[Row]:
    """The rows that have no partner among the others."""
    exact = Counter(map(key_of, others))
    unmatched: list[Row] = []
    for row in rows:
        key = key_of(row)
        if exact[key]:
            exact[key] -= 1
        else:
            unmatched.append(row)
    return unmatched


def same_rows(left: Sequence[Row], right: Sequence[Row]) -> bool:
    """Whether two bags are the same."""
    if len(left) != len(right):
        return False
    only_left, only_right = differences(left, right)
    return not only_left and not only_right


def differences(left: Sequence[Row], right: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """What stands only on either side."""
    if dict.__eq__(*(Counter(map(key_of, rows)) for rows in (left, right))):
        return [], []
    # Equal rows are taken out by their hash first, so the search for near ones is among few.
    only_left, only_right = surplus(left, right), surplus(right, left)
    for row in list(only_left):
        partner = next((other for other in only_right if _near(row, other)), None)
        if partner is not None:
            only_left.remove(row)
            only_right.remove(partner)
    return only_left, only_right


def key_of(row: Row) -> Row:
    """The row as something that is equal to itself and has a hash: NaN and nested values are neither."""
    return tuple([value if value.__class__ in COMPARABLE else _comparable(value) for value in row])


def _comparable(value: Any) -> Any:
    if isinstance(value, float) and isnan(value):
        return "NaN"
    return repr(value) if isinstance(value, list | dict) else value


def _near(left: Row, right: Row) -> bool:
    return all(_is_near(a, b) for a, b in zip(key_of(left), key_of(right), strict=True))


def _is_near(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return isclose(left, right, rel_tol=RELATIVE, abs_tol=ABSOLUTE)
    return bool(left == right)
