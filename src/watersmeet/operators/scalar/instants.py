"""Parts of timestamps and dates. An instant is read in the zone of its type, which is the query's; a timestamp
without a zone as it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.model.casts.instants import at_clocks
from watersmeet.operators.scalar.values import Function, Value, convert, from_numpy, numpy_of, over_rows, per_constant
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


def at_time_zone(args: Sequence[Value], call: Call) -> Value:
    """What clocks of a zone show at an instant; and of what they show the first instant at which they do."""
    zoned = pa.timestamp("us", tz=args[1].as_py())
    if call.type.tz is None:
        return pc.local_timestamp(pc.cast(args[0], zoned))
    reading = convert(args[0], pa.timestamp("us"))
    return pc.cast(over_rows(reading, lambda shown: at_clocks(shown, zoned).checked(shown)), call.type)


def _epoch(per: int) -> Function:
    """Whole units since 1970, rounded down, of so many microseconds."""

    def apply(args: Sequence[Value], call: Call) -> Value:
        us = numpy_of(_us(args[0]), 0)
        return from_numpy(np.asarray(us // per), args, pa.int64())

    return apply


def epoch_ms(args: Sequence[Value], call: Call) -> Value:
    """Milliseconds since 1970, rounded, halves away from zero, as in DuckDB."""
    us = np.asarray(numpy_of(_us(args[0]), 0))
    return from_numpy(np.asarray(np.sign(us) * ((np.abs(us) + 500) // 1000)), args, pa.int64())


def epoch(args: Sequence[Value], call: Call) -> Value:
    """Seconds since 1970, with their fraction."""
    return pc.divide(convert(epoch_us(args, call), pa.float64()), 1e6)


def epoch_ns(args: Sequence[Value], call: Call) -> Value:
    return pc.multiply_checked(epoch_us(args, call), 1000)


def reading(value: Value) -> Value:
    """What clocks show at an instant, as a timestamp; a date is its midnight."""
    if pa.types.is_date(value.type) or value.type.tz is None:
        return convert(value, pa.timestamp("us"))
    return convert(pc.local_timestamp(value), pa.timestamp("us"))


def _number(part: Callable[[Value], Value]) -> Function:
    return lambda args, call: pc.cast(part(reading(args[0])), pa.int64())


def _below_a_minute(value: Value, ticks: int) -> Value:
    """Seconds and their fraction, counted in ticks of so many microseconds."""
    us = numpy_of(pc.cast(value, pa.int64()), 0)
    return from_numpy(np.asarray(us % 60_000_000 // ticks), [value], pa.int64())


def _years_above(value: Value, years: int, first: int) -> Value:
    """Decades count from the year 0, centuries and millennia from the year 1."""
    of_year = numpy_of(pc.year(value), 1)
    return from_numpy(np.asarray((of_year - first) // years + first), [value], pa.int64())


def _yearweek(value: Value) -> Value:
    return pc.add(pc.multiply(pc.iso_year(value), 100), pc.iso_week(value))


def epoch_us(args: Sequence[Value], call: Call) -> Value:
    return _us(args[0])


def _us(value: Value) -> Value:
    """Microseconds since 1970, or in an interval."""
    kind = pa.duration("us") if pa.types.is_duration(value.type) else pa.timestamp("us")
    return pc.cast(convert(value, kind), pa.int64())


FUNCTIONS: dict[str, Function] = {
    "year": _part(pc.year),
    "month": _part(pc.month),
    "day": _part(pc.day),
    "hour": _clock(pc.hour),
    "minute": _clock(pc.minute),
    "second": _clock(pc.second),
    "millisecond": _number(lambda value: _below_a_minute(value, 1000)),
    "microsecond": _number(lambda value: _below_a_minute(value, 1)),
    "quarter": _number(pc.quarter),
    "week": _number(pc.iso_week),
    "isoyear": _number(pc.iso_year),
    "yearweek": _number(_yearweek),
    "dayofweek": _number(lambda value: pc.day_of_week(value, count_from_zero=True, week_start=7)),
    "isodow": _number(lambda value: pc.day_of_week(value, count_from_zero=False, week_start=1)),
    "dayofyear": _number(pc.day_of_year),
    "decade": _number(lambda value: _years_above(value, 10, 0)),
    "century": _number(lambda value: _years_above(value, 100, 1)),
    "millennium": _number(lambda value: _years_above(value, 1000, 1)),
    "date_trunc": per_constant(0, date_trunc),
    "at_time_zone": at_time_zone,
    "epoch": epoch,
    "unix_seconds": _epoch(1_000_000),
    "unix_millis": _epoch(1000),
    "epoch_ms": epoch_ms,
    "epoch_ns": epoch_ns,
    "epoch_us": epoch_us,
}
