"""Times counted and made by the calendar: differences in units, ends of months, days from their numbers, buckets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.model.time import UNITS_US
from watersmeet.model.types import common_type
from watersmeet.operators.scalar.instants import date_trunc, reading
from watersmeet.operators.scalar.values import (
    Function,
    Value,
    convert,
    from_numpy,
    known_everywhere,
    numpy_of,
    per_constant,
)
from watersmeet.plan.expressions import Call
from watersmeet.plan.time_functions import unit_named

_LONG, _DAY_US = pa.int64(), UNITS_US["day"]
_MONDAY_US = 946_857_600_000_000  # 2000-01-03, from which TIME_BUCKET counts, as in DuckDB
_BY_CALENDAR = {"month": 1, "quarter": 3, "year": 12}


def date_diff(args: Sequence[Value], call: Call) -> Value:
    """How many starts of a unit lie between two times; weeks are seven days."""
    unit = None if args[0].as_py() is None else unit_named(args[0].as_py())
    if unit is None:
        return pa.scalar(None, _LONG)
    kind = common_type(args[1].type, args[2].type)
    kind = kind if pa.types.is_timestamp(kind) else pa.timestamp("us")
    start, end = (convert(arg, kind) for arg in args[1:])
    if unit in _BY_CALENDAR:
        before, after = (_months(one) // _BY_CALENDAR[unit] for one in (start, end))
        return from_numpy(np.asarray(after - before), [start, end], _LONG)
    if unit in ("day", "week"):
        before, after = (_us(reading(one)) // _DAY_US for one in (start, end))
        days = after - before
        return from_numpy(np.asarray(days if unit == "day" else _toward_zero(days, 7)), [start, end], _LONG)
    truncated = Call("date_trunc", (), kind)
    before, after = (_us(date_trunc([pa.scalar(unit), one], truncated)) for one in (start, end))
    # Toward zero, so that both ways count alike where clocks are set back by half an hour.
    return from_numpy(np.asarray(_toward_zero(after - before, UNITS_US[unit])), [start, end], _LONG)


def _toward_zero(distance: Any, size: int) -> Any:
    return np.sign(distance) * (np.abs(distance) // size)


def _us(value: Value) -> Any:
    return numpy_of(pc.cast(convert(value, pa.timestamp("us")), _LONG), 0)


def _months(value: Value) -> Any:
    """Months since the year 0."""
    shown = reading(value)
    return numpy_of(pc.year(shown), 1) * 12 + numpy_of(pc.month(shown), 1) - 1


def last_day(args: Sequence[Value], call: Call) -> Value:
    months = np.asarray(_months(args[0]) - 1970 * 12).astype("datetime64[M]")
    days = ((months + 1).astype("datetime64[D]") - np.timedelta64(1, "D")).astype(np.int64)
    return _dates(np.asarray(days), args)


def _dates(days: Any, args: Sequence[Value]) -> Value:
    return pc.cast(from_numpy(np.asarray(days, np.int32), args, pa.int32()), pa.date32())


def date_plus_days(args: Sequence[Value], call: Call) -> Value:
    """The day so many days later; a time loses its hours."""
    day = pc.cast(pc.cast(reading(args[0]), pa.date32(), safe=False), pa.int32())
    moved = pc.add_checked(convert(day, _LONG), convert(args[1], _LONG))
    return pc.cast(pc.cast(moved, pa.int32()), pa.date32())


_MOST_MONTHS = 12 * 200_000


def plus_months(args: Sequence[Value], call: Call) -> Value:
    """The same day and time of day so many months later, or of the last day if that month has no such day, as clocks
    show it. Of what they show twice it is the first, and what they skip is by as much later."""
    shown = reading(convert(args[0], call.type))
    us, months = np.asarray(_us(shown)), np.asarray(numpy_of(convert(args[1], _LONG), 0))
    if bool((np.abs(months) > _MOST_MONTHS).any()):
        raise pa.ArrowInvalid("so many months are more than can be counted")
    days = us.astype("M8[us]").astype("M8[D]")
    before, after = days.astype("M8[M]"), days.astype("M8[M]") + months
    last = (after + 1).astype("M8[D]") - np.timedelta64(1, "D")
    later = np.minimum(after.astype("M8[D]") + (days - before.astype("M8[D]")), last)
    of_day = us - days.astype("M8[us]").astype(np.int64)
    moved = pc.cast(from_numpy(later.astype("M8[us]").astype(np.int64) + of_day, args, _LONG), pa.timestamp("us"))
    if call.type.tz is None:
        return moved
    near = pc.assume_timezone(moved, call.type.tz, ambiguous="earliest", nonexistent="earliest")
    return pc.add(near, pc.subtract(moved, pc.local_timestamp(near)))


def make_date(args: Sequence[Value], call: Call) -> Value:
    year, month, day = (np.asarray(numpy_of(convert(arg, _LONG), 1)) for arg in args)
    return _dates(_days(year, month, day, known_everywhere(args)), args)


def _days(year: Any, month: Any, day: Any, known: Any) -> Any:
    """Days since 1970. Raises ArrowInvalid if there is no such day where it is known."""
    right = (month >= 1) & (month <= 12) & (np.abs(year) <= 290_000)
    months = ((np.where(right, year, 1970) - 1970) * 12 + np.where(right, month, 1) - 1).astype("datetime64[M]")
    first = months.astype("datetime64[D]")
    length = ((months + 1).astype("datetime64[D]") - first).astype(np.int64)
    right = (right & (day >= 1) & (day <= length)) | ~known
    if not np.all(right):
        wrong = [int(np.broadcast_to(part, right.shape)[~right].flat[0]) for part in (year, month, day)]
        raise pa.ArrowInvalid(f"there is no day {wrong[0]}-{wrong[1]}-{wrong[2]}")
    return first.astype(np.int64) + day - 1


def make_timestamp(args: Sequence[Value], call: Call) -> Value:
    if len(args) == 1:
        return pc.cast(convert(args[0], _LONG), call.type)
    year, month, day, hour, minute = (np.asarray(numpy_of(convert(arg, _LONG), 1)) for arg in args[:5])
    second = np.asarray(numpy_of(convert(args[5], pa.float64()), 0.0))
    midnight = (hour == 24) & (minute == 0) & (second == 0)
    right = (hour >= 0) & ((hour < 24) | midnight) & (minute >= 0) & (minute < 60) & (second >= 0) & (second <= 60)
    known = known_everywhere(args)
    right |= ~known
    if not np.all(right):
        wrong = [np.broadcast_to(part, right.shape)[~right].flat[0] for part in (hour, minute, second)]
        raise pa.ArrowInvalid(f"there is no time {wrong[0]}:{wrong[1]}:{wrong[2]}")
    of_day = (hour * 60 + minute) * 60_000_000 + np.round(second * 1e6).astype(np.int64)
    us = _days(year, month, day, known) * _DAY_US + of_day
    return pc.cast(from_numpy(np.asarray(us), args, _LONG), call.type)


def time_bucket(args: Sequence[Value], call: Call) -> Value:
    """The start of the period of a width that holds a time, counted from an origin."""
    width = numpy_of(pc.cast(convert(args[0], pa.duration("us")), _LONG), 1)
    if np.any(np.asarray(width) <= 0):
        raise pa.ArrowInvalid("a period must be longer than nothing")
    origin = _us(args[2]) if len(args) > 2 else _MONDAY_US
    start = (_us(args[1]) - origin) // width * width + origin
    return pc.cast(from_numpy(np.asarray(start), args, _LONG), call.type)


FUNCTIONS: dict[str, Function] = {
    "date_diff": per_constant(0, date_diff),
    "last_day": last_day,
    "date_plus_days": date_plus_days,
    "plus_months": plus_months,
    "make_date": make_date,
    "make_timestamp": make_timestamp,
    "time_bucket": time_bucket,
}
