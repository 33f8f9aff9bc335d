"""How the event times of a stream are written where they come from, if they are no timestamps there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.errors import CatalogError
from watersmeet.model.names import column_named
from watersmeet.model.time import UNIT_NAMES
from watersmeet.model.time_format import ISO, time_format
from watersmeet.model.types import is_number, is_text, sql_type

UTC = "UTC"
TIMESTAMP = pa.timestamp("us")
PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
# Digits behind the point of a number that are taken: of a second, picoseconds.
MOST_DIGITS = 12
# Years in which a number is thought to lie that nobody gave a unit.
_LIKELY_S = (631_152_000, 4_102_444_800)  # 1990 to 2100


@dataclass(frozen=True)
class TimeReading:
    """The event times of a column: numbers of a unit since 1970, or text of a format in a zone. With neither a unit nor
    a format only the zone was said, which is for times that a file holds as text. `kind` is the type that was declared
    for the column, if that is what it holds and not what it means."""

    column: str
    unit: str | None = None
    format: str | None = None
    zone: str = UTC
    rounding: str = "error"
    kind: pa.DataType | None = None

    @property
    def says_how(self) -> bool:
        return self.unit is not None or self.format is not None

    def __str__(self) -> str:
        if self.unit is not None:
            return f"{UNIT_NAMES[self.unit]}s since 1970"
        form = self.format or ISO
        return f"text as {form}" if form != ISO and time_format(form).has_zone else f"text as {form}, {self.zone}"

    def declared_in(self, schema: pa.Schema | None) -> TimeReading:
        """The same with the type that was declared, if columns were."""
        column = None if schema is None else column_named(self.column, schema.names)
        kind = None if schema is None or column is None else schema.field(column).type
        return self if kind is None or pa.types.is_timestamp(kind) else replace(self, kind=kind)

    def of(self, name: str, schema: pa.Schema, *, is_text_file: bool = False) -> TimeReading | None:
        """The same for the columns that a stream has; None if this is none of them, which the stream itself tells."""
        column = column_named(self.column, schema.names)
        if column is None:
            return None
        made = replace(self, column=column)
        if not self.says_how:
            made = replace(made, format=ISO)
            if not is_text_file:
                raise self._zone_alone(name, column, schema.field(column).type)
            return made
        made.check(name, schema.field(column).type, is_text_file=is_text_file)
        return made

    def check(self, name: str, kind: pa.DataType, *, is_text_file: bool = False) -> None:
        """Refuse a column that cannot be read so."""
        if is_text_file or pa.types.is_null(kind) or self._fits(kind):
            return
        said = f"time_unit = '{self.unit}'" if self.unit is not None else f"time_format = '{self.format}'"
        what = f"the event time {self.column!r} of stream {name!r} is {sql_type(kind)}"
        if pa.types.is_timestamp(kind):
            raise CatalogError(f"{what}, for which {said} means nothing", hint=f"leave {said} out")
        way = f"leave {said} out and declare it TIMESTAMP" if pa.types.is_date(kind) else "name another column as time"
        raise CatalogError(f"{what}, which {said} cannot read", hint=way)

    def _fits(self, kind: pa.DataType) -> bool:
        if pa.types.is_dictionary(kind):
            return self._fits(kind.value_type)
        if pa.types.is_decimal(kind) and kind.scale > MOST_DIGITS:
            return False
        text = is_text(kind)
        return text or (is_number(kind) if self.unit is not None else bool(pa.types.is_integer(kind)))

    def _zone_alone(self, name: str, column: str, kind: pa.DataType) -> CatalogError:
        what = f"the event time {column!r} of stream {name!r} is {sql_type(kind)}"
        if is_text(kind):
            return CatalogError(
                f"{what}, and time_zone alone does not say how it is written",
                hint="say that too: time_format = 'iso' for any form of ISO 8601, or else as '%d.%m.%Y %H:%M:%S'",
            )
        return CatalogError(
            f"{what}, for which time_zone = '{self.zone}' means nothing: it is for event times that are text",
            hint="leave time_zone out; OPTIONS (timezone = '…') is the zone in which a query reads instants",
        )

    def shown(self, schema: pa.Schema) -> pa.Schema:
        """The columns as queries see them."""
        column = column_named(self.column, schema.names)
        if column is None:
            return schema
        index = schema.get_field_index(column)
        return schema.set(index, schema.field(index).with_type(TIMESTAMP))

    def held(self, schema: pa.Schema, kind: pa.DataType) -> pa.Schema:
        """The columns as they are where they come from, where the event time has this type."""
        if self.column not in schema.names:
            return schema
        index = schema.get_field_index(self.column)
        return schema.set(index, schema.field(index).with_type(kind))


def time_reading(time: str | None, parsed: Mapping[str, Any]) -> TimeReading | None:
    """The reading that options say, by name and read already; None if they say nothing of it. Raises ValueError."""
    unit, form, zone = (parsed.get(name) for name in ("time_unit", "time_format", "time_zone"))
    if time is None or (unit is None and form is None and zone is None):
        return None
    if unit is not None and form is not None:
        raise ValueError("time_unit is for numbers and time_format for text: say one of them")
    if unit is not None and zone is not None:
        raise ValueError("time_unit counts from 1970 in UTC, so time_zone means nothing: leave it out")
    if form is not None and zone is not None and form != ISO and time_format(form).has_zone:
        raise ValueError(f"text as {form!r} has an offset of its own (%z), so time_zone means nothing: leave it out")
    return TimeReading(time, unit, form, zone or UTC, parsed.get("rounding") or "error")


def in_schema(reading: TimeReading, name: str, schema: pa.Schema) -> tuple[TimeReading, pa.Schema]:
    """A reading by the column's own name, and the columns as queries see them; they may be so already."""
    column = column_named(reading.column, schema.names)
    if column is None:  # which the stream itself tells
        return reading, schema
    made = replace(reading, column=column, format=reading.format if reading.says_how else ISO)
    kind = schema.field(column).type
    if not pa.types.is_timestamp(kind):
        made.check(name, kind)
    return made, made.shown(schema)


def likely_unit(value: float, *, but: str | None = None) -> str | None:
    """The unit in which a number since 1970 would be a time of these days; None if there is none.

    >>> likely_unit(1_712_345_678), likely_unit(1_712_345_678_123), likely_unit(17)
    ('s', 'ms', None)
    """
    first, last = _LIKELY_S
    for unit, per_second in PER_SECOND.items():
        if unit != but and first <= value / per_second < last:
            return unit
    return None


def year_of(value: float, unit: str) -> int:
    """About which year so many units since 1970 are."""
    return 1970 + int(value / PER_SECOND[unit] / (365.2425 * 86_400))


def day_of(value: float, unit: str) -> str:
    """The second that so many units since 1970 are, as text."""
    return str(np.datetime64(int(value // PER_SECOND[unit]), "s")).replace("T", " ")
