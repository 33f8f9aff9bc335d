"""Functions of times on plain values, none of them NULL: instants are nanoseconds."""

from __future__ import annotations

import calendar
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal

from watersmeet.errors import DataError
from watersmeet.model.time import UNITS_US
from watersmeet.plan.expressions import Call
from watersmeet.reference.casts import cast, zone_of
from watersmeet.reference.functions import date_trunc
from watersmeet.reference.values import Value
from watersmeet.reference.zones import first_shown, moment, nanoseconds, shown, with_offset_before

Rule = Callable[[list[Value], Call], Value]
_US = 1_000
_DAY_US = UNITS_US["day"]
_FORMATS = {"%c": "%Y-%m-%d %H:%M:%S", "%x": "%Y-%m-%d", "%X": "%H:%M:%S", "%F": "%Y-%m-%d", "%T": "%H:%M:%S"}


def _clock(values: list[Value], call: Call) -> datetime:
    return moment(shown(values[0], zone_of(call.args[0].type)))


def _read(part: Callable[[datetime], Value]) -> Rule:
    return lambda values, call: part(_clock(values, call))


def _unit(unit: str) -> Callable[[int, str | None], int]:
    """How many of a unit have begun at an instant."""

    def count(instant_ns: int, zone: str | None) -> int:
        at = moment(shown(instant_ns, zone))
        months = at.year * 12 + at.month - 1
        match unit:
            case "year" | "quarter" | "month":
                return months // {"year": 12, "quarter": 3, "month": 1}[unit]
            case "day":
                return at.toordinal()
        return date_trunc(unit, instant_ns, zone) // _US // UNITS_US[unit]

    return count


def _date_diff(values: list[Value], call: Call) -> int:
    unit, start, end = values
    zone = zone_of(call.args[1].type) or zone_of(call.args[2].type)
    if unit == "week":
        days = _unit("day")(end, zone) - _unit("day")(start, zone)
        return _toward_zero(days, 7)
    if UNITS_US.get(unit, _DAY_US) <= UNITS_US["hour"]:
        return _toward_zero(date_trunc(unit, end, zone) - date_trunc(unit, start, zone), UNITS_US[unit] * _US)
    return _unit(unit)(end, zone) - _unit(unit)(start, zone)


def _toward_zero(distance: int, size: int) -> int:
    return abs(distance) // size * (1 if distance > 0 else -1)


def _midnight(day: date) -> int:
    return nanoseconds(datetime(day.year, day.month, day.day, tzinfo=UTC))


def _last_day(values: list[Value], call: Call) -> int:
    at = _clock(values, call)
    return _midnight(date(at.year, at.month, calendar.monthrange(at.year, at.month)[1]))


def _make_date(values: list[Value], call: Call) -> int:
    try:
        return _midnight(date(*values))
    except (ValueError, OverflowError):
        raise DataError(f"there is no day {values}") from None


def _make_timestamp(values: list[Value], call: Call) -> int:
    if len(values) == 1:
        return int(values[0]) * _US
    year, month, day, hour, minute, second = values
    whole = hour == 24 and minute == 0 and second == 0
    if not (0 <= hour < 24 or whole) or not 0 <= minute < 60 or not 0 <= second <= 60:
        raise DataError(f"there is no time {hour}:{minute}:{second}")
    us = (hour * 60 + minute) * 60_000_000 + round(float(second) * 1e6)
    return int(_make_date([year, month, day], call) + us * _US)


def _plus_days(values: list[Value], call: Call) -> int:
    return _midnight(_clock(values, call).date() + timedelta(days=values[1]))


def _at_time_zone(values: list[Value], call: Call) -> int:
    change = first_shown if zone_of(call.args[0].type) is None else shown
    return change(*values)


def _plus_months(values: list[Value], call: Call) -> int:
    at = _clock(values, call)
    year, month = divmod(at.year * 12 + at.month - 1 + values[1], 12)
    try:
        day = min(at.day, calendar.monthrange(year, month + 1)[1])
        moved = nanoseconds(at.replace(year=year, month=month + 1, day=day, tzinfo=UTC))
    except (ValueError, OverflowError):
        raise DataError("so many months are more than can be counted") from None
    zone = getattr(call.type, "tz", None)
    return moved if zone is None else with_offset_before(moved, zone)


def _time_bucket(values: list[Value], call: Call) -> int:
    width, at = values[0], values[1]
    if width <= 0:
        raise DataError("a period must be longer than nothing")
    origin = values[2] if len(values) > 2 else nanoseconds(datetime(2000, 1, 3, tzinfo=UTC))
    return int(at - (at - origin) % width)


def _strftime(values: list[Value], call: Call) -> str:
    at, form = _clock(values, call), values[1]
    made, position = "", 0
    while position < len(form):
        word = form[position : position + 2]
        if not word.startswith("%"):
            made, position = made + word[0], position + 1
        elif word == "%-":
            digits = at.strftime("%" + form[position + 2])
            made, position = made + (digits.lstrip("0") or "0"), position + 3
        else:
            made, position = made + _word(at, word), position + 2
    return made


def _word(at: datetime, word: str) -> str:
    if word in _FORMATS:
        return "".join(_word(at, f"%{part[0]}") + part[1:] for part in _FORMATS[word].split("%")[1:])
    if word in ("%Y", "%G"):
        return f"{at.year if word == '%Y' else at.isocalendar().year:04}"
    return f"{at.microsecond // 1000:03}" if word == "%g" else at.strftime(word)


def _strptime(values: list[Value], call: Call) -> int:
    text, form = values
    for short, long in _FORMATS.items():
        form = form.replace(short, long)
    try:
        return nanoseconds(datetime.strptime(text.strip(" "), form))
    except ValueError as error:
        raise DataError(str(error)) from None


def _try_strptime(values: list[Value], call: Call) -> Value:
    try:
        return _strptime(values, call)
    except DataError:
        return None


def _try_cast(values: list[Value], call: Call) -> Value:
    try:
        return cast(values[0], call.args[0].type, call.type)
    except DataError:
        return None


def _rounded_ms(us: int) -> int:
    return int((Decimal(us) / 1000).quantize(Decimal(1), ROUND_HALF_UP))


FUNCTIONS: dict[str, Rule] = {
    "millisecond": _read(lambda at: at.second * 1000 + at.microsecond // 1000),
    "microsecond": _read(lambda at: at.second * 1_000_000 + at.microsecond),
    "quarter": _read(lambda at: (at.month + 2) // 3),
    "week": _read(lambda at: at.isocalendar().week),
    "isoyear": _read(lambda at: at.isocalendar().year),
    "yearweek": _read(lambda at: at.isocalendar().year * 100 + at.isocalendar().week),
    "dayofweek": _read(lambda at: at.isoweekday() % 7),
    "isodow": _read(lambda at: at.isoweekday()),
    "dayofyear": _read(lambda at: at.timetuple().tm_yday),
    "decade": _read(lambda at: at.year // 10),
    "century": _read(lambda at: (at.year + 99) // 100),
    "millennium": _read(lambda at: (at.year + 999) // 1000),
    "epoch": lambda values, call: values[0] // _US / 1e6,
    "unix_seconds": lambda values, call: values[0] // _US // 1_000_000,
    "unix_millis": lambda values, call: values[0] // _US // 1000,
    "epoch_ms": lambda values, call: _rounded_ms(values[0] // _US),
    "epoch_ns": lambda values, call: values[0] // _US * 1000,
    "date_diff": _date_diff,
    "date_plus_days": _plus_days,
    "plus_months": _plus_months,
    "at_time_zone": _at_time_zone,
    "last_day": _last_day,
    "make_date": _make_date,
    "make_timestamp": _make_timestamp,
    "time_bucket": _time_bucket,
    "strftime": _strftime,
    "strptime": _strptime,
    "try_strptime": _try_strptime,
    "dayname": _read(lambda at: calendar.day_name[at.weekday()]),
    "monthname": _read(lambda at: calendar.month_name[at.month]),
    "try_cast": _try_cast,
}
