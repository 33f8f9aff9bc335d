"""Event time as int64 microseconds, and the intervals people write."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.errors import DataError

Times = npt.NDArray[np.int64]

# Beyond any real event time, yet far enough from the int64 limits that adding a window cannot overflow.
FOREVER_US = 2**61
BEGINNING_US = -FOREVER_US

ROUND_DOWN = "say rounding = 'down' for it to cut them off, or round them before they enter"
UNIT_NAMES = {"s": "second", "ms": "millisecond", "us": "microsecond", "ns": "nanosecond"}
UNIT_ORDER = tuple(UNIT_NAMES)

UNITS_US = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
ABBREVIATIONS = {
    "us": "microsecond",
    "µs": "microsecond",
    "ms": "millisecond",
    "s": "second",
    "sec": "second",
    "min": "minute",
    "m": "minute",
    "h": "hour",
    "hr": "hour",
    "d": "day",
    "w": "week",
}
_MONTHS_DAYS_NS = np.dtype([("months", np.int32), ("days", np.int32), ("ns", np.int64)])  # as Arrow lays them out
_MOST_DAYS = FOREVER_US // UNITS_US["day"]
_TERM = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*([a-zA-Zµ]+)\s*(,|and\b)?", re.IGNORECASE)


def unit_us(word: str) -> int | None:
    """Microseconds in a unit as people write it ('SECONDS', 'ms', 'hour'), or None."""
    lowered = word.lower()
    # As written first: the s of 'us' and 'ms' is no plural.
    name = ABBREVIATIONS.get(lowered) or ABBREVIATIONS.get(lowered.removesuffix("s")) or lowered.removesuffix("s")
    return UNITS_US.get(name)


def parse_interval(text: str) -> int:
    """Microseconds in an interval such as '30 seconds' or '1 hour 30 minutes'.

    >>> parse_interval("1 hour 30 minutes")
    5400000000
    >>> parse_interval("250 ms")
    250000

    Raises ValueError with a sentence that says what would do.
    """
    position, total = 0, 0
    stripped = text.strip()
    while position < len(stripped):
        match = _TERM.match(stripped, position)
        size = unit_us(match.group(2)) if match else None
        if match is None or size is None or (match.group(3) and match.end() == len(stripped)):
            raise ValueError(f"{text!r} is not an interval; write for example '30 seconds' or '1 hour 30 minutes'")
        total += scale_to_us(match.group(1), size)
        position = match.end()
    if not stripped:
        raise ValueError("an interval is empty; write for example '30 seconds'")
    if abs(total) >= FOREVER_US:
        raise ValueError(f"{text!r} is longer than this system can count, which is about 70 000 years")
    return total


def interval_us(given: str | timedelta) -> int:
    """Microseconds of an interval as text or as Python has it. Raises ValueError with a sentence.

    >>> interval_us("2 seconds"), interval_us(timedelta(minutes=1))
    (2000000, 60000000)
    """
    if isinstance(given, timedelta):
        return given // timedelta(microseconds=1)
    if not isinstance(given, str):
        raise ValueError(f"{given!r} is not an interval; write for example '30 seconds', or give a datetime.timedelta")
    return parse_interval(given)


def scale_to_us(number: str, unit_size_us: int) -> int:
    """A decimal number of units in whole microseconds, without going through floating point."""
    whole, _, fraction = number.partition(".")
    # From the text: the whole part of -0.5 is a zero without a sign.
    sign = -1 if whole.startswith("-") else 1
    us = abs(int(whole or "0")) * unit_size_us
    if fraction:
        numerator = int(fraction) * unit_size_us
        if numerator % 10 ** len(fraction):
            raise ValueError(f"{number} is finer than one microsecond")
        us += numerator // 10 ** len(fraction)
    return sign * us


def format_interval(us: int) -> str:
    """An interval in its largest exact units.

    >>> format_interval(5_400_000_000)
    '1 h 30 min'
    >>> format_interval(-1)
    '-1 µs'
    """
    if us >= FOREVER_US:
        return "forever"
    if us <= BEGINNING_US:
        return "-forever"
    if us == 0:
        return "0 s"
    parts, rest = [], abs(us)
    for symbol, size in (("d", UNITS_US["day"]), ("h", UNITS_US["hour"]), ("min", UNITS_US["minute"]),
                         ("s", UNITS_US["second"]), ("ms", 1_000), ("µs", 1)):  # fmt: skip
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count} {symbol}")
    return ("-" if us < 0 else "") + " ".join(parts)


def format_instant(us: int) -> str:
    """An event time as UTC text, for progress lines and messages."""
    if us >= FOREVER_US:
        return "end of input"
    if us <= BEGINNING_US:
        return "none yet"
    return str(np.datetime64(us, "us")).replace("T", " ")


def normalized_time_type(data_type: pa.DataType) -> pa.DataType:
    """The type an event-time column has inside the system: microseconds, zone kept."""
    return pa.timestamp("us", tz=data_type.tz)


def normalize_time_column(column: pa.Array) -> pa.Array:
    """Cast a timestamp column to microseconds; an instant between two of them becomes the earlier."""
    return cast_timestamps(column, normalized_time_type(column.type))


def cast_timestamps(column: Any, target: pa.DataType, rounding: str = "down") -> Any:
    """Timestamps in another unit or zone. Digits that the unit does not have are cut off, also before 1970, or with
    rounding='error' refused with a DataError; so are times too far off."""
    if column.type == target:
        return column
    source = column.type.unit
    # Arrow's own cast divides towards zero, which before 1970 is up; floor_temporal cuts down everywhere.
    if UNIT_ORDER.index(source) > UNIT_ORDER.index(target.unit):
        # Without its zone, as floor_temporal would go by the clocks of a zone. The last cast puts it back: to Arrow a
        # time without a zone is UTC.
        in_utc = pc.cast(column, pa.timestamp(source))
        cut = pc.floor_temporal(in_utc, unit=UNIT_NAMES[target.unit])
        if rounding == "error":
            refuse_finer(in_utc, cut)
        column = cut
    try:
        return pc.cast(column, target)
    except pa.ArrowInvalid:
        raise DataError("a timestamp lies beyond the years this system can count") from None


def cast_intervals(column: Any, target: pa.DataType, rounding: str) -> Any:
    """Intervals, or times of day, in another unit, by the same rule."""
    # Arrow floors times but not durations, so they are cut as times since 1970.
    since_1970 = pc.cast(pc.cast(column, pa.int64()), pa.timestamp(column.type.unit))
    return pc.cast(pc.cast(cast_timestamps(since_1970, pa.timestamp(target.unit), rounding), pa.int64()), target)


def cast_calendar_intervals(column: Any, rounding: str) -> Any:
    """Intervals of months, days and nanoseconds, as DuckDB has them, in microseconds: a day is 24 hours, and months,
    which have no fixed length, are refused."""
    parts = np.frombuffer(column.buffers()[1] or b"", _MONTHS_DAYS_NS)[column.offset : column.offset + len(column)]
    nulls = column.is_null().to_numpy(zero_copy_only=False)
    has_months = (parts["months"] != 0) & ~nulls
    if has_months.any():
        raise DataError(
            f"an interval of months has no fixed length: {_parts_text(parts[has_months][0])}",
            hint="give days, or the two times between which it lies",
        )
    us, rest = np.divmod(parts["ns"], 1_000)
    finer = (rest != 0) & ~nulls
    if rounding == "error" and finer.any():
        raise DataError(f"an interval is finer than a microsecond: {_parts_text(parts[finer][0])}", hint=ROUND_DOWN)
    days = parts["days"].astype(np.int64)
    # Days of 32 bits may be more than an int64 has microseconds for.
    if bool((np.abs(days[~nulls]) > _MOST_DAYS).any()):
        raise DataError("an interval is longer than this system can count")
    return pa.array(days * UNITS_US["day"] + us, mask=nulls).cast(pa.duration("us"))


def _parts_text(parts: Any) -> str:
    return f"{parts['months']} months, {parts['days']} days, {parts['ns']} ns"


def refuse_finer(exact: Any, cut: Any) -> None:
    """Refuse times of which something would be cut off."""
    finer = pc.fill_null(pc.not_equal(exact, cut), False)
    count = pc.sum(finer).as_py() or 0
    if count:
        first = pc.filter(exact, finer)[0].cast(pa.string()).as_py()
        rows = "1 row has a time" if count == 1 else f"{count} rows have times"
        raise DataError(f"{rows} finer than a microsecond, the first is {first}", hint=ROUND_DOWN)


def times_of(column: pa.Array) -> Times:
    """The int64 microseconds of a normalized, NULL-free event-time column (no copy)."""
    rows = len(column)
    if rows == 0:
        return np.empty(0, np.int64)
    # Arrow's own view takes several times as long, which a batch of a few rows feels.
    values: Times = np.frombuffer(column.buffers()[1], np.int64, rows, 8 * column.offset)
    values.flags.writeable = False
    return values
