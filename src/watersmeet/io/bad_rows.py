"""Rows that cannot enter a stream, as BAD_RECORDS: told apart from the others where the stream says on_bad."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.errors import DataError
from watersmeet.io.broken_text import broken_rows, holds_text, is_sound, readable_values
from watersmeet.io.connectors.bad_reasons import NOT_TEXT, NULL_TIME, TIME_OUT_OF_RANGE, UNREADABLE_TIME
from watersmeet.io.connectors.contract import BAD_RECORDS
from watersmeet.io.read_times import LATEST_US
from watersmeet.model.catalog import Stream
from watersmeet.model.time import normalize_time_column, times_of

# Takes records that could not be read.
OnBad = Callable[[pa.RecordBatch], None]
# Hears how many rows there are that are no part of a stream.
OnCounted = Callable[[int], None]


def bad_records(
    stream: str,
    reasons: Sequence[str],
    details: Sequence[str],
    place: str,
    offsets: Sequence[int | None],
    raw: Sequence[bytes],
) -> pa.RecordBatch:
    count = len(reasons)
    return pa.RecordBatch.from_arrays(
        [
            pa.array([stream] * count, pa.string()),
            pa.array(reasons, pa.string()),
            pa.array(details, pa.string()),
            pa.array([place] * count, pa.string()),
            pa.nulls(count, pa.int32()),
            pa.array(offsets, pa.int64()),
            pa.array(raw, pa.binary()),
        ],
        schema=BAD_RECORDS,
    )


def without_bad_rows(
    stream: Stream,
    batch: pa.RecordBatch,
    before: int,
    place: str,
    raw: Sequence[bytes] | None = None,
    numbers: Sequence[int] | None = None,
) -> tuple[pa.RecordBatch, pa.RecordBatch | None]:
    """The rows that can be read, with an event time which can be counted and text in UTF-8, and the others as bad
    records, where the stream says what becomes of those. So many rows came before these, in that place; raw, numbers:
    what they were made of, and which of that they are, if that is known."""
    if not stream.arrival.keeps_going or not batch.num_rows:
        return batch, None
    reasons = _reasons(stream, batch)
    wrong = reasons != 0
    if not bool(wrong.any()):
        return batch, None
    places: list[int] = np.flatnonzero(wrong).tolist()
    left = batch.take(pa.array(places, pa.int64()))
    words = [_WORDS[reason] for reason in reasons[wrong].tolist()]
    found = bad_records(
        stream.name,
        [reason for reason, _ in words],
        [detail.format(time=stream.time) for _, detail in words],
        place,
        [before + one + 1 if numbers is None else numbers[one] for one in places],
        rows_as_json(left) if raw is None else [raw[one] for one in places],
    )
    return batch.filter(pa.array(~wrong)), found


_NULL, _FAR, _BROKEN = 1, 2, 3
_WORDS = {
    _NULL: (NULL_TIME, "{time} is NULL"),
    _FAR: (TIME_OUT_OF_RANGE, "{time} is beyond the years that can be counted"),
    _BROKEN: (NOT_TEXT, "it holds text that is not UTF-8"),
}


def _reasons(stream: Stream, batch: pa.RecordBatch) -> npt.NDArray[np.int8]:
    """Why each row is bad; 0 for those that are not."""
    found = np.zeros(batch.num_rows, np.int8)
    if (broken := broken_rows(batch)) is not None:
        found[broken] = _BROKEN
    if stream.by_arrival:
        return found
    column = batch.column(stream.time)
    found[_beyond(column)] = _FAR
    if column.null_count and not stream.arrival.skips_nulls:  # else they are counted as skipped
        found[pc.is_null(column).to_numpy(zero_copy_only=False)] = _NULL
    return found


def converted(
    stream: str, batch: pa.RecordBatch, convert: Callable[[pa.RecordBatch], pa.RecordBatch], before: int, place: str
) -> tuple[list[pa.RecordBatch], list[pa.RecordBatch]]:
    """Rows made others, and those as bad records that make it fail: rows are halved until those stand alone."""
    try:
        return [convert(batch)], []
    except DataError as error:
        if batch.num_rows > 1:
            half = batch.num_rows // 2
            good, bad = converted(stream, batch.slice(0, half), convert, before, place)
            more, worse = converted(stream, batch.slice(half), convert, before + half, place)
            return good + more, bad + worse
        return [], [bad_records(stream, [UNREADABLE_TIME], [error.message], place, [before + 1], rows_as_json(batch))]


def _beyond(column: pa.Array) -> npt.NDArray[np.bool_]:
    """Which times are too far off to be counted; NULLs are not."""
    known = column.drop_null() if column.null_count else column
    try:
        times = times_of(normalize_time_column(known))
        far = (times > LATEST_US) | (times < -LATEST_US)
    except DataError:  # as microseconds they are no int64 any more: seconds show which
        seconds = pc.cast(known, pa.timestamp("s"), safe=False).cast(pa.int64()).to_numpy()
        far = np.abs(seconds) > LATEST_US // 1_000_000
    if not column.null_count:
        return far
    found = np.zeros(len(column), bool)
    found[pc.is_valid(column).to_numpy(zero_copy_only=False)] = far
    return found


def rows_as_json(batch: pa.RecordBatch) -> list[bytes]:
    """Rows whose bytes are not at hand, as one JSON object each."""
    names = batch.schema.names
    rows = zip(*(_shown(column) for column in batch.columns), strict=True)
    return [
        json.dumps(dict(zip(names, row, strict=True)), default=_as_text, ensure_ascii=False).encode() for row in rows
    ]


def _shown(column: pa.Array) -> list[Any]:
    if holds_text(column.type) and not is_sound(column):
        return readable_values(column)
    if not pa.types.is_timestamp(column.type):
        return column.to_pylist()  # type: ignore[no-any-return]
    # Times may be beyond what Python can hold.
    try:
        return pc.cast(column, pa.string()).to_pylist()  # type: ignore[no-any-return]
    except pa.ArrowInvalid:
        return pc.cast(column, pa.int64()).to_pylist()  # type: ignore[no-any-return]


def _as_text(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)
