"""What an application pushes or gives, whatever it has it in, as batches with the columns of their stream."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.errors import DataError, SourceError
from watersmeet.io.broken_text import check_names, holds_text, is_sound
from watersmeet.io.conform import check_columns, enter
from watersmeet.io.frames import frame_as_table
from watersmeet.io.read_times import Place, doubt_unit, read_batch, read_times
from watersmeet.io.time_column import format_hint, unit_hint
from watersmeet.model.casts.decimals import integer_limits
from watersmeet.model.catalog import Relation, Stream
from watersmeet.model.names import columns_hint, nearest
from watersmeet.model.time import cast_timestamps
from watersmeet.model.time_reading import TimeReading
from watersmeet.model.time_text import formats_of
from watersmeet.model.types import is_instant, is_text, sql_type, type_for

KINDS = "a pyarrow Table or RecordBatch, a pandas or polars frame, a list of dicts, or a dict of columns"
_Fit = Callable[[str, pa.DataType, pa.Array], pa.Array]  # a part by its name, as the type that is declared for it
_LONGEST = 60  # of a value in a sentence
_ZONED = r"[T ].*(?:[Zz]|[+-]\d\d(?::?\d\d)?)$"  # a text with a zone behind its time


class PushedRows:
    """Takes the rows of one stream in any form. Whatever does not fit is refused before anything of it is used."""

    def __init__(self, stream: Relation, verb: str = "pushed", reading: TimeReading | None = None) -> None:
        """verb: what was done with the rows, for sentences. reading: of a relation that does not say it itself."""
        self.stream = stream
        self._verb, self._what = verb, f"what was {verb}"
        self._is_first = True
        # The moment of arrival, where that is the event time, is not pushed.
        self._schema = stream.given_schema
        self._reading = stream.reading if isinstance(stream, Stream) else reading
        self._names = frozenset(self._schema.names)
        self._columns = [(field.name, field.type, field.nullable) for field in self._schema]
        # Where a stream says what becomes of bad records, they are told apart from the others, later.
        tells_apart = isinstance(stream, Stream) and stream.arrival.keeps_going
        self._texts = [] if tells_apart else [i for i, kind in enumerate(self._schema.types) if holds_text(kind)]

    def batches(self, rows: Any) -> list[pa.RecordBatch]:
        """The rows in the order they have, none of the batches empty."""
        if isinstance(rows, pa.RecordBatch):
            if self._reading is None and rows.schema.equals(self._schema):  # as most are, and batches may be small
                return [self._sound(rows)] if rows.num_rows else []
            return self._entered([rows])
        if isinstance(rows, pa.Table):
            return self._entered(rows.to_batches())
        if isinstance(rows, Mapping):
            return self._of_mapping(rows)
        if isinstance(rows, list | tuple):
            return self._of_list(rows)
        table = frame_as_table(rows, self.stream.name)
        if table is None:
            raise self._unknown(type(rows).__name__)
        return self._entered(table.to_batches())

    def _entered(self, batches: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
        if self._reading is not None:
            batches = self._with_times(batches, self._reading)
        return [self._enter(batch) for batch in batches if batch.num_rows or not self._fits(batch.schema)]

    def _enter(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return self._sound(batch) if self._fits(batch.schema) else enter(batch, self._schema, self.stream)

    def _sound(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """What need not be made anything else is only looked at: enter would."""
        for place in self._texts:
            if not is_sound(batch.column(place)):
                return enter(batch, self._schema, self.stream)
        return batch

    def _fits(self, schema: pa.Schema) -> bool:
        """Whether rows of such columns are as a query sees them; those that cannot be made so are refused."""
        if schema.equals(self._schema):
            return True
        check_names(schema, self._what)
        self._refuse_moments(schema.names)
        check_columns(schema, self._schema, self.stream.name, self._what)
        return False

    def _with_times(self, batches: Sequence[pa.RecordBatch], reading: TimeReading) -> list[pa.RecordBatch]:
        """Event times that are written as the stream says; timestamps may be pushed all the same."""
        made, before = [], 0
        for batch in batches:
            made.append(batch if _has_timestamps(batch, reading) else read_batch(batch, reading, Place(before)))
            before += batch.num_rows
            self._doubted(made[-1].column(reading.column), reading)
        return made

    def _doubted(self, times: pa.Array, reading: TimeReading) -> pa.Array:
        """The first that come tell whether their unit can be right."""
        if self._is_first and len(times):
            self._is_first = False
            doubt_unit(times, reading, self.stream.name)
        return times

    def _of_mapping(self, rows: Mapping[Any, Any]) -> list[pa.RecordBatch]:
        """Columns by name; or, if every value is a single one, one row."""
        self._check_names(rows)
        many = [name for name, value in rows.items() if _is_many(value)]
        if not many:
            return self._of_values({name: [rows.get(name)] for name in self._schema.names}, 1)
        if len(many) < len(rows):
            single = next(name for name in rows if name not in many)
            raise DataError(
                f"stream {self.stream.name!r} was {self._verb} a dict in which {many[0]!r} is a column and {single!r} "
                "a value",
                hint="give a list for every column, or a single value for every one",
            )
        missing = [name for name in self._schema.names if name not in rows]
        if missing:
            raise SourceError(
                f"stream {self.stream.name!r} has a column {missing[0]!r}, but {self._what} has none",
                hint=columns_hint([str(name) for name in rows]),
            )
        lengths = {name: len(rows[name]) for name in rows}
        if len(set(lengths.values())) > 1:
            shown = ", ".join(f"{name} {count:,}" for name, count in lengths.items())
            raise DataError(f"the columns {self._verb} to stream {self.stream.name!r} differ in length: {shown}")
        return self._of_values(rows, next(iter(lengths.values())))

    def _of_list(self, rows: Sequence[Any]) -> list[pa.RecordBatch]:
        if not rows:
            return []
        if isinstance(rows[0], pa.RecordBatch | pa.Table):
            return [batch for one in rows for batch in self.batches(one)]
        if not all(isinstance(row, Mapping) for row in rows):
            odd = next(row for row in rows if not isinstance(row, Mapping))
            raise self._unknown(f"{type(rows).__name__} of {type(odd).__name__}")
        for row in rows:
            if not row.keys() <= self._names:
                self._check_names(row)
        return self._of_values({name: [row.get(name) for row in rows] for name, _, _ in self._columns}, len(rows))

    def _check_names(self, row: Mapping[Any, Any]) -> None:
        """A misspelt name must not become a NULL."""
        unknown = [name for name in row if name not in self._names]
        if not unknown:
            return
        self._refuse_moments(unknown)
        meant = nearest(str(unknown[0]), self._names)
        raise SourceError(
            f"stream {self.stream.name!r} has no column {unknown[0]!r}, which was {self._verb}",
            hint=f"did you mean {meant!r}?" if meant else columns_hint(self._schema.names),
        )

    def _refuse_moments(self, names: Iterable[Any]) -> None:
        if isinstance(self.stream, Stream) and self.stream.by_arrival and self.stream.time in names:
            raise SourceError(
                f"column {self.stream.time!r} of stream {self.stream.name!r} is the moment at which rows are pushed, "
                "so it cannot be pushed itself",
                hint="leave it out; rows that bring their event time along are for a stream that says its column",
            )

    def _of_values(self, columns: Mapping[str, Any], rows: int) -> list[pa.RecordBatch]:
        if rows == 0:
            return []
        arrays = [self._column(name, kind, nullable, columns[name]) for name, kind, nullable in self._columns]
        return [pa.RecordBatch.from_arrays(arrays, schema=self._schema)]

    def _column(self, name: str, kind: pa.DataType, nullable: bool, values: Any) -> pa.Array:
        array = values if isinstance(values, pa.Array | pa.ChunkedArray) else self._guessed(name, kind, values)
        if isinstance(array, pa.ChunkedArray):
            array = array.combine_chunks()
        reading = self._reading
        if reading is not None and name == reading.column and not pa.types.is_timestamp(array.type):
            array = self._doubted(read_times(array, reading, Place()), reading)
        if array.type != kind or (array is values and holds_text(kind)):
            array = self._fitted(name, kind, array)
        if not nullable and array.null_count:
            raise DataError(
                f"column {name!r} of stream {self.stream.name!r} is declared NOT NULL, "
                f"but {array.null_count} of the rows {self._verb} have NULL there"
            )
        return array

    def _guessed(self, name: str, kind: pa.DataType, values: Any) -> pa.Array:
        """By what they are, not by what they are to be: Arrow would cut 1.5 to 1 and take 5 for a time."""
        if pa.types.is_decimal(kind):
            return self._decimals(name, kind, values)
        if pa.types.is_map(kind):  # which looks like a list, or like a struct
            return self._as_declared(name, kind, _pairs_of_dicts(values))
        try:
            return pa.array(values)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            # Integers from 2^63 on Arrow takes for signed ones unless it is told.
            unsigned = kind == pa.uint64() and all(value is None or type(value) is int for value in values)
            if unsigned or pa.types.is_nested(kind):
                return self._as_declared(name, kind, values)
            raise self._out_of_range(name, kind, values) or self._misfit(name, kind, error) from None

    def _decimals(self, name: str, kind: pa.DataType, values: Sequence[Any]) -> pa.Array:
        """Numbers, or text, as which they go out. A float is the number that is printed of it."""
        numbers = [_decimal(value) for value in values]
        try:
            made = pa.array(numbers, kind)
            if made.null_count == sum(value is None for value in values):
                return made
        except pa.ArrowInvalid:
            pass
        whys = (_unfit(value, number, kind) for value, number in zip(values, numbers, strict=True))
        row, why = next((row, why) for row, why in enumerate(whys) if why is not None)
        raise self._wrong_value(name, kind, values, row, why)

    def _out_of_range(self, name: str, kind: pa.DataType, values: Sequence[Any]) -> DataError | None:
        """What is wrong with the first integer that a column of integers cannot hold, if that is what is wrong."""
        if not pa.types.is_integer(kind):
            return None
        least, most = integer_limits(kind)
        wrong = (i for i, one in enumerate(values) if isinstance(one, int) and not least <= one <= most)
        row = next(wrong, None)
        if row is None:
            return None
        why = f"is {'larger' if values[row] > most else 'smaller'} than it can be"
        return self._wrong_value(name, kind, values, row, why, f"declare it {type_for(values[row])}")

    def _wrong_value(
        self, name: str, kind: pa.DataType, values: Sequence[Any], row: int, why: str, hint: str | None = None
    ) -> DataError:
        value = values[row]
        shown = repr(value) if isinstance(value, str) else str(value)
        shown = shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}…"
        where = f" in row {row + 1:,}" if len(values) > 1 else ""
        return DataError(
            f"column {name!r} of stream {self.stream.name!r} is declared {sql_type(kind)}, and {shown}{where} {why}",
            hint=hint or _decimals_way_out(kind, value),
        )

    def _as_declared(self, name: str, kind: pa.DataType, values: Any) -> pa.Array:
        """What Arrow cannot tell the type of it may still make of what is declared."""
        try:
            return pa.array(values, kind)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as misfit:
            raise self._misfit(name, kind, misfit) from None

    def _fitted(self, name: str, kind: pa.DataType, found: pa.Array) -> pa.Array:
        """Python has one kind of integer and one of float, and JSON writes times as text."""
        if (nested := _with_fitted_parts(name, kind, found, self._fitted)) is not None:
            return nested
        if pa.types.is_decimal(kind) and (is_text(found.type) or pa.types.is_floating(found.type)):
            return self._decimals(name, kind, found.to_pylist())
        if is_text(found.type) and is_instant(kind):
            found = self._read_times(name, kind, found)
        if _is_narrower_number(found.type, kind):
            try:
                return pc.cast(_as_widest(found, kind), kind)
            except pa.ArrowInvalid as error:
                raise self._out_of_range(name, kind, found.to_pylist()) or self._misfit(name, kind, error) from None
        part, wanted = pa.RecordBatch.from_arrays([found], [name]), pa.schema([pa.field(name, kind)])
        try:
            check_columns(part.schema, wanted, self.stream.name, self._what)
        except SourceError as error:
            raise SourceError(error.message, hint=self._unit_hint(name, found) or error.hint) from None
        return enter(part, wanted, self.stream).column(0)

    def _unit_hint(self, name: str, found: pa.Array) -> str | None:
        """What to write where event times are pushed as numbers."""
        known = found.drop_null()
        return unit_hint(known[0].as_py()) if self._is_event_time(name) and len(known) else None

    def _is_event_time(self, name: str) -> bool:
        return isinstance(self.stream, Stream) and name == self.stream.time

    def _read_times(self, name: str, kind: pa.DataType, texts: pa.Array) -> pa.Array:
        def reader(some: pa.Array) -> pa.Array | None:
            return _times_in(some) if pa.types.is_timestamp(kind) else _cast_or_none(some, kind)

        read = reader(texts)
        if read is None:
            example = "2026-01-31 12:00:00" if pa.types.is_timestamp(kind) else "2026-01-31"
            wrong = _first_unread(texts, reader)
            # Of what no format reads, only that it is wrong can be said.
            is_time = self._is_event_time(name) and any(formats_of(pa.array([wrong])))
            hint = format_hint(texts.drop_null().to_pylist()) if is_time else None
            raise self._misfit(name, kind, f"text such as {wrong!r} is not written as {example!r}", hint)
        return read

    def _misfit(self, name: str, kind: pa.DataType, error: Exception | str, hint: str | None = None) -> DataError:
        return DataError(
            f"column {name!r} of stream {self.stream.name!r} is declared {sql_type(kind)}, "
            f"and {self._what} does not fit: {str(error).splitlines()[0].rstrip('.')}",
            hint=hint,
        )

    def _unknown(self, what: str) -> SourceError:
        return SourceError(f"stream {self.stream.name!r} cannot be {self._verb} a {what}", hint=f"give {KINDS}")


def columns_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """The values of rows by column; what a row lacks is None."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def _decimal(value: Any) -> Decimal | None:
    """The number that a value says; None if it says none."""
    if isinstance(value, Decimal):
        return value if value.is_finite() else None
    try:
        made = None if value is None or isinstance(value, bool) else Decimal(str(value))
    except InvalidOperation:
        return None
    return made if made is not None and made.is_finite() else None


def _unfit(value: Any, number: Decimal | None, kind: pa.DataType) -> str | None:
    """Why a DECIMAL cannot hold a value, if it cannot."""
    if number is None:
        return None if value is None else "is no number"
    digits = "".join(map(str, number.as_tuple().digits))
    behind = -int(number.as_tuple().exponent) - (len(digits) - len(digits.rstrip("0")))
    if behind > kind.scale:
        return f"has {behind} digits behind the point"
    return "is larger than it can be" if number.adjusted() >= kind.precision - kind.scale else None


def _decimals_way_out(kind: pa.DataType, value: Any) -> str:
    number = _decimal(value)
    if number is None:
        return "give a number, 12.50, or its text, '12.50'"
    if number.adjusted() < kind.precision - kind.scale:
        more = f"DECIMAL(38, {min(37, kind.scale + 4)})"
        return f"round it to {kind.scale} digits, or declare more behind the point, as {more}"
    return f"declare more digits, up to DECIMAL(38, {kind.scale}), or DOUBLE"


def _has_timestamps(batch: pa.RecordBatch, reading: TimeReading) -> bool:
    index = batch.schema.get_field_index(reading.column)
    return index >= 0 and bool(pa.types.is_timestamp(batch.schema.field(index).type))


def _is_many(value: object) -> bool:
    return isinstance(value, list | tuple | np.ndarray | pa.Array | pa.ChunkedArray | range) or (
        isinstance(value, Iterable) and hasattr(value, "__len__") and not isinstance(value, str | bytes | Mapping)
    )


def _is_narrower_number(found: pa.DataType, kind: pa.DataType) -> bool:
    """Whether it is for the values to tell if a number fits."""
    if pa.types.is_integer(found):
        return bool(pa.types.is_integer(kind) or pa.types.is_decimal(kind))
    if pa.types.is_decimal(found):
        return bool(pa.types.is_decimal(kind))
    return bool(pa.types.is_floating(found) and pa.types.is_floating(kind))


def _as_widest(found: pa.Array, kind: pa.DataType) -> pa.Array:
    """Arrow takes integers only into decimals that hold them all, but a decimal into any that holds its values."""
    both = pa.types.is_integer(found.type) and pa.types.is_decimal(kind)
    return pc.cast(found, pa.decimal128(38, kind.scale)) if both else found


def _times_in(texts: pa.Array) -> pa.Array | None:
    """ISO texts as times, with or without a zone; without one they are UTC. In nanoseconds, so that what is finer than
    a microsecond is seen; years that these do not reach in microseconds."""
    plain = _cast_or_none(texts, pa.timestamp("ns"))
    if plain is not None:
        return plain
    for unit in ("ns", "us"):
        is_zoned = pc.match_substring_regex(texts, _ZONED)
        without = _cast_or_none(pc.if_else(is_zoned, None, texts), pa.timestamp(unit))
        zoned = _cast_or_none(pc.if_else(is_zoned, texts, None), pa.timestamp(unit, tz="UTC"))
        if without is not None and zoned is not None:
            return pc.coalesce(without, cast_timestamps(zoned, pa.timestamp(unit)))
    return None


def _first_unread(texts: pa.Array, reader: Callable[[pa.Array], pa.Array | None]) -> str:
    """The first text that cannot be read."""
    right, wrong = 0, len(texts)  # so many from the front can be read, and so many cannot
    while wrong - right > 1:
        middle = (right + wrong) // 2
        right, wrong = (right, middle) if reader(texts.slice(0, middle)) is None else (middle, wrong)
    return str(texts[wrong - 1])


def _cast_or_none(texts: pa.Array, kind: pa.DataType) -> pa.Array | None:
    try:
        return pc.cast(texts, kind)
    except pa.ArrowInvalid:
        return None


# ---- lists and structs: their parts are fitted as columns are, each by what it is ------------------------------------


def _with_fitted_parts(name: str, kind: pa.DataType, found: pa.Array, fit: _Fit) -> pa.Array | None:
    """The values with parts of the declared types; None if they are of another shape."""
    if pa.types.is_list(kind) and pa.types.is_list(found.type):
        whole = pa.concat_arrays([found])  # without what a slice leaves out
        parts = _fitted_part(f"{name}[]", kind.value_type, whole.values, fit)
        return pa.ListArray.from_arrays(whole.offsets, parts, type=kind, mask=whole.is_null())
    if pa.types.is_struct(kind) and pa.types.is_struct(found.type):
        _check_fields(name, kind, found.type)
        fields = [_fitted_field(name, field, found, fit) for field in kind]
        return pa.StructArray.from_arrays(fields, fields=list(kind), mask=found.is_null())
    return None


def _pairs_of_dicts(values: Iterable[Any]) -> list[Any]:
    """What a map is made of, where Python has it as a dict."""
    return [list(value.items()) if isinstance(value, Mapping) else value for value in values]


def _fitted_field(name: str, field: pa.Field, found: pa.StructArray, fit: _Fit) -> pa.Array:
    """A field of all structs; one that none of them has is NULL."""
    index = found.type.get_field_index(field.name)
    if index < 0:
        return pa.nulls(len(found), field.type)
    return _fitted_part(f"{name}.{field.name}", field.type, found.field(index), fit)


def _fitted_part(name: str, kind: pa.DataType, found: pa.Array, fit: _Fit) -> pa.Array:
    return found if found.type == kind else fit(name, kind, found)


def _check_fields(name: str, kind: pa.StructType, found: pa.StructType) -> None:
    """A misspelt name must not become a NULL."""
    known = [field.name for field in kind]
    for field in found:
        if field.name not in known:
            meant = nearest(field.name, known)
            raise SourceError(
                f"column {name!r} has no field {field.name!r}, which was pushed",
                hint=f"did you mean {meant!r}?" if meant else columns_hint(known),
            )
