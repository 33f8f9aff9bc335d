"""Functions of timestamps and dates."""

from __future__ import annotations

import pyarrow as pa

from watersmeet.model.types import is_instant, is_text, sql_type
from watersmeet.plan.signatures import COUNTED, INSTANT, NUMBER, SPAN, TEXT, WHOLE, Signature, Types, check, gives

TRUNCATION_UNITS = (
    "microsecond", "millisecond", "second", "minute", "hour", "day", "week", "month", "quarter", "year",
)  # fmt: skip
# Whole numbers that are read off a clock and a calendar.
PARTS = (
    "year", "month", "day", "hour", "minute", "second", "millisecond", "microsecond", "quarter", "week", "isoyear",
    "yearweek", "dayofweek", "isodow", "dayofyear", "decade", "century", "millennium",
)  # fmt: skip
PART_ALIASES = {
    "years": "year", "yr": "year", "y": "year", "months": "month", "mon": "month", "days": "day", "d": "day",
    "dayofmonth": "day", "day_of_month": "day", "hours": "hour", "h": "hour", "minutes": "minute", "min": "minute",
    "m": "minute", "seconds": "second", "sec": "second", "s": "second", "milliseconds": "millisecond",
    "ms": "millisecond", "msec": "millisecond", "microseconds": "microsecond", "us": "microsecond",
    "usec": "microsecond", "quarters": "quarter", "weeks": "week", "w": "week", "weekofyear": "week",
    "dow": "dayofweek", "weekday": "dayofweek", "day_of_week": "dayofweek", "doy": "dayofyear",
    "day_of_year": "dayofyear", "decades": "decade", "centuries": "century", "millennia": "millennium",
    "millenium": "millennium",
}  # fmt: skip
_LONG, _DOUBLE, _TEXT, _TIME, _DATE = pa.int64(), pa.float64(), pa.string(), pa.timestamp("us"), pa.date32()


def _date_trunc(function: str, args: Types) -> pa.DataType:
    if not is_text(args[0]):
        raise TypeError("DATE_TRUNC needs a unit first, for example DATE_TRUNC('hour', ts)")
    if not (is_instant(args[1]) or pa.types.is_null(args[1])):
        raise TypeError(f"DATE_TRUNC needs a TIMESTAMP or DATE, not {sql_type(args[1])}")
    return pa.timestamp("us", tz=getattr(args[1], "tz", None))


def _time_bucket(function: str, args: Types) -> pa.DataType:
    check(function, 1, args[0], SPAN)
    check(function, 2, args[1], INSTANT)
    if len(args) > 2:
        check(function, 3, args[2], INSTANT)
    return pa.timestamp("us", tz=getattr(args[1], "tz", None))


def _plus_months(function: str, args: Types) -> pa.DataType:
    check(function, 1, args[0], INSTANT)
    check(function, 2, args[1], WHOLE)
    return pa.timestamp("us", tz=getattr(args[0], "tz", None))


def _at_time_zone(function: str, args: Types) -> pa.DataType:
    check(function, 1, args[0], INSTANT)
    return _TIME if getattr(args[0], "tz", None) is not None else pa.timestamp("us", tz="UTC")


def _make_timestamp(function: str, args: Types) -> pa.DataType:
    if len(args) not in (1, 6):
        raise TypeError(f"MAKE_TIMESTAMP takes year, month, day, hour, minute and second, or microseconds since 1970, "
                        f"not {len(args)} arguments")  # fmt: skip
    for position, t in enumerate(args):
        check(function, position + 1, t, WHOLE if position < 5 else NUMBER)
    return _TIME


FUNCTIONS: dict[str, Signature] = {
    **{name: gives(_LONG, INSTANT) for name in PARTS},
    "date_trunc": Signature(_date_trunc, 2, 2),
    "date_diff": gives(_LONG, TEXT, INSTANT, INSTANT),
    "date_plus_days": gives(_DATE, INSTANT, WHOLE),
    "plus_months": Signature(_plus_months, 2, 2),
    "at_time_zone": Signature(_at_time_zone, 2, 2),
    "last_day": gives(_DATE, INSTANT),
    "make_date": gives(_DATE, WHOLE, WHOLE, WHOLE),
    "make_timestamp": Signature(_make_timestamp, 1, 6),
    "time_bucket": Signature(_time_bucket, 2, 3),
    "epoch": gives(_DOUBLE, COUNTED),
    "unix_seconds": gives(_LONG, INSTANT),
    "unix_millis": gives(_LONG, INSTANT),
    "epoch_ms": gives(_LONG, COUNTED),
    "epoch_us": gives(_LONG, COUNTED),
    "epoch_ns": gives(_LONG, INSTANT),
    "strftime": gives(_TEXT, INSTANT, TEXT),
    "strptime": gives(_TIME, TEXT, TEXT),
    "try_strptime": gives(_TIME, TEXT, TEXT),
    "dayname": gives(_TEXT, INSTANT),
    "monthname": gives(_TEXT, INSTANT),
}
# Stand for what DATE_ADD(d, n) and DATE_SUB(d, n) say, and t + n * INTERVAL 1 MONTH.
OPERATORS = frozenset(("date_plus_days", "plus_months", "at_time_zone"))
ALIASES = {
    **{name: part for name, part in PART_ALIASES.items() if len(name) > 3 or name in ("dow", "doy")},
    "timestamp_micros": "make_timestamp", "unix_timestamp": "unix_seconds",
    "unix_micros": "epoch_us", "datetrunc": "date_trunc", "to_unixtime": "epoch",
    "day_name": "dayname", "month_name": "monthname",
}  # fmt: skip


def part_named(written: str) -> str | None:
    """The part of a time that a word of EXTRACT or DATE_PART stands for.

    >>> part_named("DOW"), part_named("fortnight")
    ('dayofweek', None)
    """
    word = written.lower()
    part = PART_ALIASES.get(word, word)
    return part if part in PARTS or part == "epoch" else None


def unit_named(written: str) -> str | None:
    """The unit that a word of DATE_TRUNC or DATE_DIFF stands for."""
    part = part_named(written)
    return part if part in TRUNCATION_UNITS else None
