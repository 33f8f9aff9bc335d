"""What clocks of a zone show at an instant, and at which instant they show it, one value at a time.

Instants and what is shown are ints of nanoseconds; what is shown is counted as if it were UTC.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from watersmeet.errors import DataError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_US = 1_000  # nanoseconds


def moment(instant_ns: int) -> datetime:
    return _EPOCH + timedelta(microseconds=instant_ns // _US)


def nanoseconds(at: datetime) -> int:
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return (at - _EPOCH) // timedelta(microseconds=1) * _US


def shown(instant_ns: int, zone: str | None) -> int:
    """What clocks show; without a zone the instant itself."""
    if zone is None:
        return instant_ns
    local = moment(instant_ns).astimezone(ZoneInfo(zone))
    return nanoseconds(local.replace(tzinfo=UTC)) + instant_ns % _US


def first_shown(shown_ns: int, zone: str | None) -> int:
    """The first instant at which clocks show this; it is an error if they skip it."""
    if zone is None:
        return shown_ns
    instant = with_offset_before(shown_ns, zone)
    if shown(instant, zone) != shown_ns:
        reading = moment(shown_ns).replace(tzinfo=None)
        raise DataError(f"{reading} does not exist in {zone}: clocks skip it there")
    return instant


def first_past(shown_ns: int, zone: str) -> int:
    """The first instant at which clocks show this, or if they skip it, what comes after."""
    high = with_offset_before(shown_ns, zone)
    if shown(high, zone) == shown_ns:
        return high
    low = high - 86_400 * 10**9  # a gap is at most a day
    while high - low > _US:
        middle = (low + high) // 2 // _US * _US
        low, high = (middle, high) if shown(middle, zone) < shown_ns else (low, middle)
    return high


def offset_text(instant_ns: int, zone: str) -> str:
    """How far clocks are ahead of UTC, as `+05:30`."""
    minutes = abs(shown(instant_ns, zone) - instant_ns) // (60 * 10**9)
    sign = "-" if shown(instant_ns, zone) < instant_ns else "+"
    return f"{sign}{minutes // 60:02}:{minutes % 60:02}"


def with_offset_before(shown_ns: int, zone: str) -> int:
    """By the offset that held before a change of clocks, which for a time shown twice gives the first."""
    reading = moment(shown_ns).replace(tzinfo=ZoneInfo(zone), fold=0)
    return nanoseconds(reading.astimezone(UTC))
