"""Instants as applications have them, in microseconds."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.errors import DataError
from watersmeet.io.read_times import LATEST_US
from watersmeet.model.time import cast_timestamps

_EXAMPLES = "give a datetime, or a text such as '2026-01-31 12:00:00'"


def instant_us(time: Any) -> int:
    """Microseconds since 1970 in UTC, which is also the zone of a time that says none.

    >>> from datetime import UTC
    >>> instant_us("1970-01-01 00:00:01"), instant_us(datetime(1970, 1, 1, 0, 1, tzinfo=UTC))
    (1000000, 60000000)
    """
    us = _read(time)
    if us is None:
        raise DataError(f"{time!r} is no time to advance to", hint=_EXAMPLES)
    if abs(us) > LATEST_US:
        raise DataError(f"{time!r} lies beyond the years this system can count")
    return us


def _read(time: Any) -> int | None:
    if isinstance(time, str):
        try:
            time = datetime.fromisoformat(time.strip())
        except ValueError:
            return None
    if isinstance(time, date) and not isinstance(time, datetime):
        time = datetime(time.year, time.month, time.day)
    if isinstance(time, datetime | np.datetime64):
        time = pa.scalar(time)
    if isinstance(time, pa.Scalar) and pa.types.is_timestamp(time.type) and time.is_valid:
        column = cast_timestamps(pa.array([time]), pa.timestamp("us", tz=time.type.tz), "down")
        return int(column.view(pa.int64())[0].as_py())
    return None


def datetime_of(us: int) -> datetime:
    """An instant as people compare it: those beyond the years that Python can count are its first and last.

    >>> datetime_of(1_000_000), datetime_of(2**61) == datetime.max
    (datetime.datetime(1970, 1, 1, 0, 0, 1), True)
    """
    try:
        return datetime(1970, 1, 1) + timedelta(microseconds=us)
    except OverflowError:
        return datetime.max if us > 0 else datetime.min
