"""Parts of timestamps and dates. An instant is read in the zone of its type, which is the query's; a timestamp
without a zone as it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.operators.scalar.values import Function, Value, convert, per_constant
from watersmeet.plan.expressions import Call
from watersmeet.plan.functions import TRUNCATION_UNITS

_WITHIN_AN_HOUR = ("microsecond", "millisecond", "second", "minute", "hour")


def _part(kernel: Callable[[Value], Value]) -> Function:
    return lambda args, call: kernel(args[0])


def _clock(kernel: Callable[[Value], Value]) -> Function:
    """A part of the time of day; a date is its midnight."""
    return lambda args, call: kernel(_as_timestamp(args[0]))


def _as_timestamp(value: Value) -> Value:
    return convert(value, pa.timestamp("us")) if pa.types.is_date(value.type) else value


def date_trunc(args: Sequence[Value], call: Call) -> Value:
    """DATE_TRUNC(unit, instant): the start of the unit that holds the instant; weeks start on Monday.

    Of an hour that clocks show twice each has its own start. A day whose midnight is shown twice starts at the first,
    one whose midnight is skipped when its first time is shown.
    """
    unit = args[0].as_py()
    if unit is None:
        return pa.scalar(None, call.type)
    if unit.lower() not in TRUNCATION_UNITS:
        raise pa.ArrowInvalid(f"there is no unit {unit!r}; the units are {', '.join(TRUNCATION_UNITS)}")
    value = convert(args[1], call.type)
    if value.type.tz is None:
        return pc.floor_temporal(value, unit=unit.lower())
    reading = pc.local_timestamp(value)
    start = pc.floor_temporal(reading, unit=unit.lower())
    if unit.lower() in _WITHIN_AN_HOUR:
        # The instant goes back by what its clock is past the start, and so stays in its own of two equal hours.
        return pc.subtract(value, pc.subtract(reading, start))
    return pc.assume_timezone(start, value.type.tz, ambiguous="earliest", nonexistent="latest")


def epoch_us(args: Sequence[Value], call: Call) -> Value:
    return pc.cast(convert(args[0], pa.timestamp("us")), pa.int64())


FUNCTIONS: dict[str, Function] = {
    "year": _part(pc.year),
    "month": _part(pc.month),
    "day": _part(pc.day),
    "hour": _clock(pc.hour),
    "minute": _clock(pc.minute),
    "second": _clock(pc.second),
    "date_trunc": per_constant(0, date_trunc),
    "epoch_us": epoch_us,
}
