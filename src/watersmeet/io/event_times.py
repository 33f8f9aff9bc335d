"""The event times of rows, checked: none is NULL, and all are in the years that can be counted."""

from __future__ import annotations

import pyarrow as pa

from watersmeet.errors import DataError
from watersmeet.model.catalog import Stream
from watersmeet.model.time import FOREVER_US, Times, normalize_time_column, times_of
from watersmeet.operators.contract import Rows

# Times must leave room for windows to be added to them.
LATEST_US = FOREVER_US // 4
# Of so few times Python's own numbers are looked at faster than an array is asked.
_FEW = 16


def refuse_nulls(stream: Stream, nulls: int, rows: int, before: int, where: str | None = None) -> None:
    """So many rows came before these, or they are of such a file."""
    if nulls:
        place = f"in {where}" if where else f"among rows {before + 1} to {before + rows}"
        raise DataError(
            f"stream {stream.name!r}: the event time {stream.time!r} is NULL in {nulls} of {rows} rows ({place})",
            hint="every row of a stream needs an event time; filter those rows out before they enter",
        )


def in_microseconds(stream: Stream, column: pa.Array, before: int) -> pa.Array:
    """An event-time column as it is inside the system."""
    refuse_nulls(stream, column.null_count, len(column), before)
    try:
        return normalize_time_column(column)
    except DataError as error:
        raise DataError(f"stream {stream.name!r}: {error.message}") from None


def is_sorted(times: Times) -> bool:
    if times.size <= _FEW:
        few: list[int] = times.tolist()
        return few == sorted(few)
    return bool((times[1:] >= times[:-1]).all())


def _furthest_us(times: Times) -> int:
    """How far from 1970 a time is, at most."""
    if times.size <= _FEW:
        few: list[int] = times.tolist()
        return max(max(few), -min(few))
    return max(int(times.max()), -int(times.min()))


def event_times(stream: Stream, column: pa.Array, before: int) -> tuple[pa.Array, Times]:
    """The event-time column of some rows in microseconds, also as integers; so many rows came before them."""
    normalized = in_microseconds(stream, column, before)
    times = times_of(normalized)
    if times.size and _furthest_us(times) > LATEST_US:
        raise DataError(f"stream {stream.name!r}: an event time lies beyond the years this system can count")
    return normalized, times


def timed_rows(stream: Stream, batch: pa.RecordBatch, before: int) -> Rows:
    """Rows of a stream with their event times."""
    index = batch.schema.get_field_index(stream.time)
    column = batch.column(index)
    normalized, times = event_times(stream, column, before)
    data = batch if normalized is column else batch.set_column(index, stream.schema.field(index), normalized)
    return Rows(data, times)
