"""Why a stream has no event time where the user said, as far as its data tells, and what to write instead; the catalog
says the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from watersmeet.errors import CatalogError, WatersmeetError
from watersmeet.io.files import FIRST_ROWS, FileSource
from watersmeet.model.names import column_named
from watersmeet.model.time_format import ISO
from watersmeet.model.time_reading import day_of, likely_unit
from watersmeet.model.time_text import formats_of, reads
from watersmeet.model.types import is_number, is_text, sql_type

_SHOWN = 40


def check_time_column(name: str, time: str, schema: pa.Schema, source: Any, data: object = None) -> None:
    """Refuse a column that is not there but in the index of a frame, and one of numbers or text, of which nothing says
    what times they are."""
    column = column_named(time, schema.names)
    if column is None and _is_index(data):
        raise CatalogError(
            f"stream {name!r} has no column {time!r} to take its event time from: the index of a frame is none",
            hint=f"give the frame with its index as a column, named {time}: frame.rename_axis('{time}').reset_index()",
        )
    if column is None:
        return
    kind = schema.field(column).type
    if not is_text(kind) and not is_number(kind):
        return
    misread = source.misread_as_time(column) if isinstance(source, FileSource) and is_text(kind) else None
    values = _first_values(source, column)
    hint = None if not values else unit_hint(values[0]) if is_number(kind) else format_hint(values)
    if misread is not None:
        raise CatalogError(
            f"the event time {column!r} of stream {name!r} was taken for text: {misread}",
            hint=hint or "times are written as 2026-01-31 12:00:00; mend what is none, or say time_format = '…'",
        )
    if hint is not None:
        raise CatalogError(
            f"the event time {column!r} of stream {name!r} is {sql_type(kind)}, not a timestamp", hint=hint
        )


def unit_hint(value: object) -> str | None:
    """What to write for numbers of which this is the first."""
    unit = likely_unit(float(value)) if isinstance(value, int | float) else None
    if unit is None:
        return None
    assert isinstance(value, int | float)
    return f"say time_unit = '{unit}': its first value, {value}, is then {day_of(value, unit)} (UTC)"


def format_hint(values: Sequence[object]) -> str | None:
    """What to write for text of which these are the first: a format that reads them all."""
    texts = [value for value in values if isinstance(value, str)]
    if not texts or not texts[0]:
        return None
    first, shown = texts[0], _shown(texts[0])
    unit = likely_unit(float(first)) if first.replace(".", "", 1).isdigit() else None
    found = list(formats_of(pa.array(texts)))
    if unit is not None and not found:
        return f"say time_unit = '{unit}': its first value, {shown!r}, is then {day_of(float(first), unit)} (UTC)"
    if found[:1] == [ISO]:
        return f"say time_format = 'iso': its first value is {shown!r}; without an offset it is UTC, or of time_zone"
    if not found:
        return f"say how it is written, time_format = '…' as in Python's strptime; {_ways_written(texts)}"
    ways = " or ".join(f"'{form}'" for form in found[:2])
    return f"say time_format = {ways}: its first value is {shown!r}; without an offset (%z) it is UTC, or of time_zone"


def _ways_written(texts: Sequence[str]) -> str:
    """How the first value is written, and one that no format reads along with it."""
    first = next(formats_of(pa.array(texts[:1])), None)
    other = None if first is None else next((one for one in texts if not reads(first, pa.array([one]))), None)
    if other is None:
        return f"its first value is {_shown(texts[0])!r}"
    return f"no one format reads both {_shown(texts[0])!r} and {_shown(other)!r}: write them alike"


def _shown(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _first_values(source: Any, column: str) -> Sequence[object]:
    """The first values of a column that are not NULL, for a hint; none if that cannot be told."""
    try:
        if hasattr(source, "first_values"):
            found: Sequence[object] = source.first_values(column)
            return found
        if getattr(source, "isStreaming", True):
            return ()
        return [row[0] for row in source.select(f"`{column}`").dropna().take(FIRST_ROWS)]  # a DataFrame of Spark's
    except WatersmeetError:
        return ()


def _is_index(data: object) -> bool:
    """Whether a pandas frame has an index of its own: of times, or with a name."""
    index: Any = getattr(data, "index", None)
    if type(data).__module__.split(".", 1)[0] != "pandas" or index is None:
        return False
    return type(index).__name__ == "DatetimeIndex" or any(one is not None for one in index.names)
