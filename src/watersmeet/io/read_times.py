"""Event times as they come, numbers or text, made the timestamps they are in queries. Column by column, exactly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.dataclass import dataclass
from watersmeet.errors import DataError
from watersmeet.io.csv_errors import NULL_WORDS
from watersmeet.io.formats import Format
from watersmeet.model.casts.decimals import DOWN, rounded, to_integers, unscaled
from watersmeet.model.time import FOREVER_US, ROUND_DOWN, UNIT_NAMES, Times
from watersmeet.model.time_format import ISO, time_format
from watersmeet.model.time_reading import MOST_DIGITS, PER_SECOND, TIMESTAMP, TimeReading, day_of, likely_unit, year_of
from watersmeet.model.time_text import SKIPPED, formats_of, read_text
from watersmeet.model.types import is_number, is_text
from watersmeet.warning import DataWarning, warn

Mask = npt.NDArray[np.bool_]
# Times must leave room for windows to be added to them.
LATEST_US = FOREVER_US // 4
_US_PER_SECOND = 1_000_000
_NS_PER_US = 1_000
_MONTHS_US = 100 * 86_400 * _US_PER_SECOND
# Numbers as text and decimals are taken apart at this many digits behind the point.
_DIGITS = MOST_DIGITS
_WHOLE = 19
_EXACT = pa.decimal128(_WHOLE + _DIGITS, _DIGITS)
_NUMBER = rf"^[+-]?\d{{1,{_WHOLE}}}(?:\.\d{{0,{_DIGITS}}})?$"
_LONGEST = 60
_LAST_DOUBLE = 2**63 - 1024  # that is an int64


@dataclass(frozen=True)
class Place:
    """Where some rows stand: so many rows before them, of such a file. Where nobody knows, `before` is None."""

    before: int | None = 0
    file: str | None = None

    def of(self, index: int) -> str:
        row = "" if self.before is None else f" in row {self.before + index + 1:,}"
        return f"{row} of {self.file}" if row and self.file else f" in {self.file}" if self.file else row


@dataclass(frozen=True)
class Read:
    """Microseconds since 1970, anything where a row has none; which rows are finer than that; which are no times at
    all, and why."""

    times: Times
    finer: Mask
    wrong: Mask
    why: Callable[[int], tuple[str, str | None]]


def stored_type(found: pa.DataType, reading: TimeReading, format_: Format) -> pa.DataType:
    """The type in which a file's event times are read, before they are made times: what Parquet has, of CSV the text
    itself, and of JSON, where numbers are no text, what was declared, or else found in the first rows."""
    if format_.has_footer:
        return found
    if format_.kind == "csv":
        return pa.string()
    kind = reading.kind or found
    if pa.types.is_null(kind) and reading.unit is not None:
        return pa.int64()
    return kind if is_number(kind) else pa.string()


def read_batch(batch: pa.RecordBatch, reading: TimeReading, place: Place) -> pa.RecordBatch:
    """The same rows with their event times as timestamps. Raises DataError."""
    index = batch.schema.get_field_index(reading.column)
    if index < 0:
        return batch
    return batch.set_column(
        index, batch.schema.field(index).with_type(TIMESTAMP), read_times(batch.column(index), reading, place)
    )


def read_table(table: pa.Table, reading: TimeReading) -> pa.Table:
    """The same of a whole table."""
    index = table.schema.get_field_index(reading.column)
    made, before = [], 0
    for chunk in table.column(index).chunks:
        made.append(read_times(chunk, reading, Place(before)))
        before += len(chunk)
    field = table.schema.field(index).with_type(TIMESTAMP)
    return table.set_column(index, field, pa.chunked_array(made, TIMESTAMP))


def read_times(column: pa.Array, reading: TimeReading, place: Place) -> pa.Array:
    """An event-time column as timestamps; NULLs stay. Raises DataError that says which value of which row is none."""
    plain = _plain_times(column, reading)
    if plain is not None:
        return plain
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    nulls = pc.is_null(column).to_numpy(zero_copy_only=False)
    if nulls.all():
        return pa.nulls(len(column), TIMESTAMP)
    read = _read(column, reading, place)
    _refuse_wrong(column, read, nulls, reading, place)
    if reading.rounding == "error":
        _refuse_finer(column, read.finer & ~nulls, reading, place)
    return pa.array(read.times, pa.int64(), mask=nulls).cast(TIMESTAMP)


def _plain_times(column: pa.Array, reading: TimeReading) -> pa.Array | None:
    """Whole numbers of which all are times, as most are, in a few steps: a handful of rows is read often. None if there
    is more to look at."""
    if reading.unit in (None, "ns") or not pa.types.is_int64(column.type) or column.null_count or not len(column):
        return None
    assert reading.unit is not None
    whole = column.to_numpy()
    most = min(LATEST_US * PER_SECOND[reading.unit] // _US_PER_SECOND, 2**63 - 1)
    if whole.min() < -most or whole.max() > most:
        return None
    return pa.array(whole * (_US_PER_SECOND // PER_SECOND[reading.unit]), pa.int64()).view(TIMESTAMP)


def _read(column: pa.Array, reading: TimeReading, place: Place) -> Read:
    kind = column.type
    if reading.unit is None:
        text = pc.cast(column, pa.string())
        assert reading.format is not None
        times, finer, wrong, why = read_text(text, reading.format, reading.zone)
        return Read(times, finer, wrong, lambda index: _no_time(why(index), text, index, reading, place))
    if is_text(kind) or pa.types.is_decimal(kind):
        return _from_digits(column, reading.unit)
    if pa.types.is_floating(kind):
        return _from_floats(column, reading.unit)
    return _from_integers(column, reading.unit)


def _from_integers(column: pa.Array, unit: str) -> Read:
    far = _beyond(column, unit)
    whole = pc.cast(pc.fill_null(column, 0), pa.int64(), safe=False).to_numpy(zero_copy_only=False)
    return _whole(np.where(far, 0, whole), unit, far, column)


def _whole(whole: Times, unit: str, far: Mask, column: pa.Array) -> Read:
    if unit == "ns":
        times, finer = whole // _NS_PER_US, whole % _NS_PER_US != 0
    else:
        times, finer = whole * (_US_PER_SECOND // PER_SECOND[unit]), np.zeros(len(whole), np.bool_)
    return Read(times, finer, far, lambda index: _far_off(column[index].as_py(), unit))


def _beyond(column: pa.Array, unit: str) -> Mask:
    """Which numbers are no years that can be counted."""
    most = LATEST_US * PER_SECOND[unit] // _US_PER_SECOND
    if most >= 2**63:
        # The least int64 is not a time: many libraries write NULL so, and no other number of its size is one.
        least = pa.types.is_int64(column.type)
        return _mask(pc.equal(column, -(2**63))) if least else np.zeros(len(column), np.bool_)
    if pa.types.is_integer(column.type) and column.type.bit_width < 64:
        column = pc.cast(column, pa.int64())
    far = pc.greater(column, pa.scalar(most, column.type))
    if not pa.types.is_unsigned_integer(column.type):
        far = pc.or_(far, pc.less(column, pa.scalar(-most, column.type)))
    return _mask(far)


def _from_floats(column: pa.Array, unit: str) -> Read:
    """A number in floating point stands for the microsecond that is nearest, if that microsecond is written so."""
    given = column.to_numpy(zero_copy_only=False)
    values = given.astype(np.float64)
    with np.errstate(invalid="ignore"):
        wrong = ~(np.abs(values) <= min(LATEST_US * PER_SECOND[unit] // _US_PER_SECOND, _LAST_DOUBLE))
    values = np.where(wrong, 0.0, values)
    if unit == "ns":
        units = np.floor(values).astype(np.int64)
        near = (units + _NS_PER_US // 2) // _NS_PER_US
        exact = (near * _NS_PER_US).astype(given.dtype) == np.where(wrong, 0, given)
        times = np.where(exact, near, units // _NS_PER_US)
    else:
        # Apart, as together they may have more digits than a double: what is before the point, and what is behind it.
        per_unit, whole = _US_PER_SECOND // PER_SECOND[unit], np.trunc(values)
        behind = (values - whole) * per_unit
        nearest, below = np.rint(behind), np.floor(behind)
        exact = (whole + nearest / per_unit).astype(given.dtype) == np.where(wrong, 0, given)
        below -= whole + below / per_unit > values
        times = whole.astype(np.int64) * per_unit + np.where(exact, nearest, below).astype(np.int64)
    return Read(times, ~exact & ~wrong, wrong, lambda index: _far_off(column[index].as_py(), unit))


def _from_digits(column: pa.Array, unit: str) -> Read:
    """Numbers as text, and decimals: no digit goes through floating point."""
    whole_numbers = _whole_numbers(column) if is_text(column.type) else None
    if whole_numbers is not None:
        return _from_integers(whole_numbers, unit)
    if is_text(column.type):
        text = pc.utf8_trim_whitespace(pc.cast(column, pa.string()))
        ok = _mask(pc.match_substring_regex(text, pattern=_NUMBER))
        number = pc.cast(pc.if_else(pa.array(ok), text, "0"), _EXACT)
    else:
        ok = np.ones(len(column), np.bool_)
        zero = pa.scalar(0, column.type)
        number = pc.cast(pc.if_else(pa.array(_too_long(column)), zero, pc.fill_null(column, zero)), _EXACT)
    floor, _ = rounded(number, 0, pa.decimal128(_WHOLE + 1, 0), DOWN)
    rests = unscaled(pc.cast(pc.subtract(number, floor), pa.decimal128(_DIGITS + 1, _DIGITS)))
    whole, too_long = to_integers(floor, pa.int64())
    far = _beyond(whole, unit)
    if too_long is not None:
        far |= too_long
    if pa.types.is_decimal(column.type):
        far |= _too_long(column)
    read = _whole(np.where(far, 0, whole.to_numpy(zero_copy_only=False)), unit, far, column)
    if unit == "ns":
        times, finer = read.times, read.finer | (rests != 0)
    else:
        scaled = rests * (_US_PER_SECOND // PER_SECOND[unit])
        times, finer = read.times + scaled // 10**_DIGITS, scaled % 10**_DIGITS != 0

    def why(index: int) -> tuple[str, str | None]:
        if ok[index]:
            return _far_off(float(column[index].as_py()), unit)
        return f"is not a number of {UNIT_NAMES[unit]}s", _stands_for_null(column[index].as_py()) or (
            "mend it, make it NULL, or say time_format if it is a date"
        )

    return Read(times, finer & ok, far | ~ok, why)


def _whole_numbers(text: pa.Array) -> pa.Array | None:
    """Text of nothing but integers as such, which is what most are; Arrow would take 0x10 for one too."""
    if pc.any(pc.match_substring(text, "x", ignore_case=True)).as_py():
        return None
    try:
        return pc.cast(text, pa.int64())
    except pa.ArrowInvalid:
        return None


def _too_long(column: pa.Array) -> Mask:
    """Which decimals have more digits before the point than any time."""
    if column.type.precision - column.type.scale <= _WHOLE:
        return np.zeros(len(column), np.bool_)
    bound = 10**_WHOLE
    beyond = pc.greater_equal(column, pa.scalar(bound, column.type))
    return _mask(pc.or_(beyond, pc.less_equal(column, pa.scalar(-bound, column.type))))


def _mask(column: Any) -> Mask:
    found: Mask = pc.fill_null(column, False).to_numpy(zero_copy_only=False)
    return found


def _far_off(value: float, unit: str) -> tuple[str, str | None]:
    if not np.isfinite(value):
        return "is no time", "give NULL for rows without a time, and say on_null = 'skip' to leave them out"
    meant = likely_unit(value, but=unit)
    if meant is None:
        return f"in {UNIT_NAMES[unit]}s is further off than this system can count", None
    doubt = f"would be about the year {year_of(value, unit)} in {UNIT_NAMES[unit]}s"
    return doubt, f"did you mean time_unit='{meant}'? It is then {day_of(value, meant)}"


def _refuse_wrong(column: pa.Array, read: Read, nulls: Mask, reading: TimeReading, place: Place) -> None:
    wrong = np.flatnonzero(read.wrong & ~nulls)
    if wrong.size:
        index = int(wrong[0])
        why, hint = read.why(index)
        more = "" if wrong.size == 1 else f" ({wrong.size:,} of {len(column):,} rows are like that)"
        raise DataError(
            f"the event time {reading.column!r} is {_shown(column, index)}{place.of(index)}, which {why}{more}",
            hint=hint,
        )


def _refuse_finer(column: pa.Array, finer: Mask, reading: TimeReading, place: Place) -> None:
    found = np.flatnonzero(finer)
    if found.size:
        index = int(found[0])
        more = "" if found.size == 1 else f" ({found.size:,} of {len(column):,} rows are like that)"
        raise DataError(
            f"the event time {reading.column!r} is {_shown(column, index)}{place.of(index)}, which is finer than a "
            f"microsecond{more}",
            hint=ROUND_DOWN,
        )


def _shown(column: pa.Array, index: int) -> str:
    value = column[index].as_py()
    shown = repr(value) if isinstance(value, str) else str(value)
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}…"


def _stands_for_null(value: str) -> str | None:
    if value.strip().lower() not in NULL_WORDS:
        return None
    word = value.strip()
    return (
        f"null_values = '{word}' in WITH (…) reads it as NULL where files are CSV; on_null = 'skip' leaves it out then"
    )


def _no_time(why: str, texts: pa.Array, index: int, reading: TimeReading, place: Place) -> tuple[str, str]:
    """Why a text is no time, and what to do about it."""
    value = texts[index].as_py()
    if meant := _stands_for_null(value):
        return why, meant
    mend = "mend the row, or make it NULL and say on_null = 'skip' to leave out rows without a time"
    other = None if SKIPPED in why else _other_format(value, texts, reading, place)
    if other is None:
        return why, mend
    return why, f"say time_format = '{other}', which reads all of these rows; if others are written otherwise, {mend}"


def _other_format(value: str, texts: pa.Array, reading: TimeReading, place: Place) -> str | None:
    """A format that reads a text and all others that were seen: these, and maybe some before them, which were written
    as was said."""
    assert reading.format is not None
    seen = pa.concat_arrays([pa.array([value]), texts.drop_null()])
    before_are_iso = reading.format != ISO and time_format(reading.format).fixed is not None
    found = (form for form in formats_of(seen) if form != reading.format)
    return next((form for form in found if place.before == 0 or (form == ISO and before_are_iso)), None)


def doubt_unit(times: pa.Array, reading: TimeReading, name: str) -> None:
    """Warn of times in the first months of 1970 that would be of these days in a coarser unit."""
    ends = pc.min_max(times)
    if reading.unit is None or not ends["min"].is_valid or ends["min"].value < 0 or ends["max"].value >= _MONTHS_US:
        return
    first = ends["min"].value * PER_SECOND[reading.unit] / _US_PER_SECOND
    meant = likely_unit(first, but=reading.unit)
    if meant is not None:
        warn(
            DataWarning(
                "time_unit",
                f"event times of stream {name!r} such as {int(first)} are {day_of(first, reading.unit)} in "
                f"{UNIT_NAMES[reading.unit]}s; did you mean time_unit='{meant}'? That is {day_of(first, meant)}",
            )
        )
