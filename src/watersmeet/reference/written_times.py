"""Event times that are numbers or text, one by one and by the definition: exact fractions, and Python's own parsers."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa

from watersmeet.errors import DataError
from watersmeet.model.time_reading import TimeReading
from watersmeet.model.zones import instant_of

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_MICROSECOND = timedelta(microseconds=1)
_FINER = re.compile(r"([.,]\d{6})(\d{1,3})(?!\d)")


def written_times(column: pa.ChunkedArray, reading: TimeReading) -> pa.Array:
    """The column as timestamps, or the first value that is none as an error."""
    values = [None if value is None else _us(value, reading) for value in column.to_pylist()]
    return pa.array(values, pa.int64()).cast(pa.timestamp("us"))


def _us(value: Any, reading: TimeReading) -> int:
    try:
        ns = _number(value, reading.unit) if reading.unit is not None else _text(str(value), reading)
    except (ValueError, ArithmeticError) as error:
        raise DataError(f"the event time {reading.column!r} is {value!r}: {error}") from None
    us = ns / 1_000
    if us.denominator != 1 and reading.rounding == "error":
        raise DataError(f"the event time {reading.column!r} is {value!r}, which is finer than a microsecond")
    return us.__floor__()


def _number(value: Any, unit: str) -> Fraction:
    if not isinstance(value, float):
        return Fraction(Decimal(value)) * _NS[unit]
    # The microsecond that is written so in floating point, if there is one.
    near = Fraction(round(Fraction(value) * _NS[unit] / 1_000))
    return near * 1_000 if float(near * 1_000 / _NS[unit]) == value else Fraction(value) * _NS[unit]


def _text(value: str, reading: TimeReading) -> Fraction:
    finer = _FINER.search(value)
    nanoseconds = 0
    if finer is not None:  # which Python's times do not have
        nanoseconds = int(finer[2].ljust(3, "0"))
        value = value[: finer.start(2)] + value[finer.end(2) :]
    if reading.format in (None, "iso"):
        read = datetime.fromisoformat(value)
    else:
        assert reading.format is not None
        read = datetime.strptime(value, reading.format)
    instant = instant_of(read, reading.zone) if read.tzinfo is None else read
    return Fraction((instant - _EPOCH) // _MICROSECOND * 1_000 + nanoseconds)
