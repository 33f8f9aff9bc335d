"""The event times of rows, checked: none is NULL, and all are in the years that can be counted."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.errors import DataError
from watersmeet.io.bad_rows import OnCounted
from watersmeet.io.read_times import LATEST_US
from watersmeet.model.arriving import stamped
from watersmeet.model.catalog import Stream
from watersmeet.model.time import Times, normalize_time_column, times_of
from watersmeet.operators.contract import Rows

# Of so few times Python's own numbers are looked at faster than an array is asked.
_FEW = 16
SKIP = (
    "every row of a stream needs an event time: say on_null = 'skip' to leave those rows out and count them, or filter "
    "them out before they enter"
)


def without_nulls(stream: Stream, batch: pa.RecordBatch, on_skipped: OnCounted | None = None) -> pa.RecordBatch:
    """The rows that have an event time, if the stream says that others are skipped."""
    nulls = batch.column(stream.time).null_count if stream.arrival.skips_nulls else 0
    if not nulls:
        return batch
    if on_skipped is not None:
        on_skipped(nulls)
    return batch.filter(pc.is_valid(batch.column(stream.time)))


def refuse_nulls(stream: Stream, nulls: int, rows: int, before: int | None, where: str | None = None) -> None:
    """So many rows came before these, if that is known, or they are of such a file."""
    if not nulls:
        return
    if where is not None:
        which = f"the one row in {where}" if rows == 1 else f"{nulls:,} of {rows:,} rows (in {where})"
    elif before is None:
        which = f"{nulls:,} of {rows:,} rows"
    else:
        among = f"{nulls:,} of {rows:,} rows (among rows {before + 1:,} to {before + rows:,})"
        which = f"row {before + 1:,} of the stream" if rows == 1 else among
    raise DataError(f"stream {stream.name!r}: the event time {stream.time!r} is NULL in {which}", hint=SKIP)


def in_microseconds(stream: Stream, column: pa.Array, before: int | None) -> pa.Array:
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


def event_times(stream: Stream, column: pa.Array, before: int | None) -> tuple[pa.Array, Times]:
    """The event-time column of some rows in microseconds, also as integers; so many rows came before them, if that is
    known."""
    as_it_is = column.null_count == 0 and column.type.unit == "us"
    normalized = column if as_it_is else in_microseconds(stream, column, before)
    times = times_of(normalized)
    if times.size and _furthest_us(times) > LATEST_US:
        raise DataError(f"stream {stream.name!r}: an event time lies beyond the years this system can count")
    return normalized, times


class TimedBatch(NamedTuple):
    """Rows that came, with their event times; apart from them the records that could not be read, and how many rows are
    skipped because they have no event time."""

    rows: Rows
    bad: pa.RecordBatch | None = None
    skipped: int = 0


def arrived_rows(stream: Stream, batch: pa.RecordBatch, before: int, now_us: int) -> Rows:
    """Rows whose event time is the moment of their arrival: now, or where they are at hand when they were first read.
    So many rows came before them."""
    assert stream.arrivals is not None
    is_kept = bool(getattr(stream.source, "at_hand", False))
    times = stream.arrivals.of(before, batch.num_rows, now_us) if is_kept else np.full(batch.num_rows, now_us)
    return Rows(stamped(batch, stream.schema.field(stream.time), times), times)


def timed_rows(stream: Stream, batch: pa.RecordBatch, before: int | None = None) -> Rows:
    """Rows of a stream with their event times."""
    column = batch.column(stream.time)
    normalized, times = event_times(stream, column, before)
    if normalized is column:  # as it mostly is
        return Rows(batch, times)
    index = batch.schema.get_field_index(stream.time)
    return Rows(batch.set_column(index, stream.schema.field(stream.time), normalized), times)
