"""Parts of timestamps and dates. A timestamp with a zone shows its own local time; one without is UTC."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.operators.scalar.values import Function, Value, convert, per_constant
from watersmeet.plan.expressions import Call
from watersmeet.plan.functions import TRUNCATION_UNITS


def _part(kernel: Callable[[Value], Value]) -> Function:
    return lambda args, call: kernel(args[0])


def _clock(kernel: Callable[[Value], Value]) -> Function:
    """A part of the time of day; a date is its midnight."""
    return lambda args, call: kernel(_as_timestamp(args[0]))


def _as_timestamp(value: Value) -> Value:
    return convert(value, pa.timestamp("us")) if pa.types.is_date(value.type) else value


def date_trunc(args: Sequence[Value], call: Call) -> Value:
    """DATE_TRUNC(unit, instant): the start of the unit that holds the instant; weeks start on Monday."""
    unit = args[0].as_py()
    if unit is None:
        return pa.scalar(None, call.type)
    if unit.lower() not in TRUNCATION_UNITS:
        raise pa.ArrowInvalid(f"there is no unit {unit!r}; the units are {', '.join(TRUNCATION_UNITS)}")
    return pc.floor_temporal(convert(args[1], call.type), unit=unit.lower())


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
