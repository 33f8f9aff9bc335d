"""Kinds of types that any database has under some name, and which of them a column may be kept as."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

ANY = "any"
# Into which others values go without a loss; any goes into its own.
_ALSO: Mapping[str, tuple[str, ...]] = {"integer": ("decimal", "float"), "date": ("timestamp",)}


def family_of(kind: pa.DataType) -> str | None:
    """The family of a type of rows; None for types of several values."""
    types = pa.types
    if types.is_integer(kind):
        return "integer"
    if types.is_floating(kind):
        return "float"
    if types.is_timestamp(kind):
        return "timestamp" if kind.tz is None else "instant"
    for name, belongs in _TESTS.items():
        if belongs(kind):
            return name
    return None


_TESTS = {
    "truth": pa.types.is_boolean,
    "decimal": pa.types.is_decimal,
    "date": pa.types.is_date,
    "time": pa.types.is_time,
    "duration": pa.types.is_duration,
    "text": lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind),
    "bytes": lambda kind: (
        pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)
    ),
    ANY: pa.types.is_null,
}


def fits(rows: str, column: str) -> bool:
    """Whether values of one family can be kept in a column of another."""
    return rows == column or ANY in (rows, column) or column in _ALSO.get(rows, ())
