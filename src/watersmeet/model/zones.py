"""Time zones: their names, and the types that columns of instants have in a query.

A TIMESTAMP is a reading without a zone, taken as UTC. A TIMESTAMP WITH TIME ZONE is an instant; inside a query every
such column has the query's zone, whatever zone its type carried where it came from.
"""

from __future__ import annotations

from datetime import datetime
from difflib import get_close_matches
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.errors import OptionError
from watersmeet.model.plain_types import plain_type

_MICROSECONDS = "us"
# They name a file, not a zone: what they mean depends on the machine.
_NOT_ZONES = frozenset(("localtime", "factory", "posixrules"))


@cache
def check_zone(name: str) -> str:
    """The name, if it is that of a zone. Raises OptionError with a hint that names the nearest one."""
    try:
        if name.lower() in _NOT_ZONES:
            raise ValueError
        ZoneInfo(name)
    # A folder of zones such as 'America' is an OSError, a path that leaves the zones' folder a ValueError.
    except (ValueError, KeyError, OSError):
        near = nearest_zone(name)
        meant = f"did you mean {near!r}?" if near else "write for example 'America/New_York' or 'UTC'"
        raise OptionError(f"timezone: {name!r} is not the name of a time zone", hint=meant, option="timezone") from None
    # Python may have its zones from the package tzdata, Arrow has them from the system.
    try:
        pc.local_timestamp(pa.scalar(0, pa.timestamp(_MICROSECONDS, tz=name)))
    except pa.ArrowInvalid:
        raise OptionError(
            f"timezone: Arrow finds no data for the time zone {name!r} here",
            hint="install the system's tzdata",
            option="timezone",
        ) from None
    return name


def nearest_zone(name: str) -> str | None:
    """The known zone whose name, or whose city, is nearest."""
    known = sorted(available_timezones())
    plain = name.strip().lower().replace(" ", "_")
    whole = {zone.lower(): zone for zone in known}
    # Of zones with the same city the first in the alphabet stays, so the list is walked backwards.
    cities = {zone.rsplit("/", 1)[-1].lower(): zone for zone in reversed(known)}
    for names in (whole, cities):
        if near := get_close_matches(plain, names, n=1, cutoff=0.7):
            return names[near[0]]
    return None


def instant_of(reading: datetime, zone: str) -> datetime:
    """The instant at which clocks of a zone show this reading, the first if they show it twice.

    Raises ValueError for a reading that they skip.
    """
    there = reading.replace(tzinfo=ZoneInfo(zone), fold=0)
    instant = moved(there, "UTC")
    # A reading that clocks skip comes back moved by as much as they skipped.
    if moved(instant, zone).replace(tzinfo=None) != reading:
        raise ValueError(f"{reading} does not exist in {zone}: clocks skip it there")
    return instant


def moved(instant: datetime, zone: str) -> datetime:
    """The same instant by the clocks of a zone. Raises ValueError where that is no year from 1 to 9999."""
    try:
        return instant.astimezone(ZoneInfo(zone))
    except OverflowError:
        raise ValueError(f"{instant} is not between the years 1 and 9999 in {zone}") from None


def entering_type(kind: pa.DataType) -> pa.DataType:
    """The type a column has inside the system: one of the plain ones, with times and intervals in microseconds, dates
    in days, zones kept."""
    plain = plain_type(kind)
    # What holds no months is so many microseconds; those that hold some are refused when they come.
    return pa.duration(_MICROSECONDS) if pa.types.is_interval(plain) else _with_times(plain, None)


def zoned_type(kind: pa.DataType, zone: str) -> pa.DataType:
    """The same with the zone of a query in every instant."""
    return _with_times(kind, zone)


def zoned_schema(schema: pa.Schema, zone: str) -> pa.Schema:
    return pa.schema([column.with_type(zoned_type(column.type, zone)) for column in schema], schema.metadata)


def entering_schema(schema: pa.Schema) -> pa.Schema:
    return pa.schema([column.with_type(entering_type(column.type)) for column in schema], schema.metadata)


def _with_times(kind: pa.DataType, zone: str | None) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.timestamp(_MICROSECONDS, tz=None if kind.tz is None else zone or kind.tz)
    if pa.types.is_duration(kind):
        return pa.duration(_MICROSECONDS)
    if pa.types.is_time(kind):
        return pa.time64(_MICROSECONDS)
    if pa.types.is_date64(kind):
        return pa.date32()
    if pa.types.is_map(kind):
        return pa.map_(_with_times(kind.key_type, zone), _with_times(kind.item_type, zone))
    if pa.types.is_struct(kind):
        return pa.struct([part.with_type(_with_times(part.type, zone)) for part in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_with_times(kind.value_type, zone)))
    if pa.types.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(_with_times(kind.value_type, zone)))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(kind.value_field.with_type(_with_times(kind.value_type, zone)), kind.list_size)
    return kind
