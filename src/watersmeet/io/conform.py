"""Making rows fit the columns a stream has: which types fit silently, and the cast that does it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.errors import DataError, SourceError
from watersmeet.io.broken_text import check_names, refuse_broken_text
from watersmeet.model.catalog import Relation, Stream
from watersmeet.model.names import column_named, columns_hint
from watersmeet.model.plain_columns import plain_column
from watersmeet.model.plain_types import plain_type
from watersmeet.model.time import ROUND_DOWN, cast_calendar_intervals, cast_intervals, cast_timestamps
from watersmeet.model.types import is_bytes, is_instant, is_number, sql_type
from watersmeet.model.zones import entering_type

# A double holds 53 bits exactly; of Arrow's integers those of 32 bits are the largest that always fit.
_EXACT_IN_DOUBLE_BITS = 32
_EXACT_IN_DOUBLE = f"{2**53:,}"


def plain_schema(schema: pa.Schema, what: str) -> pa.Schema:
    """The columns in their plain layouts; refuses two columns of one name."""
    check_names(schema, what)
    names = schema.names
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise SourceError(f"{what} has two columns named {twice[0]!r}", hint="rename one of them")
    return pa.schema([pa.field(field.name, plain_type(field.type)) for field in schema])


def fits(found: pa.DataType, declared: pa.DataType) -> bool:
    """Whether every value of the found type is a value of the declared one; digits of times below 1 µs and integers of
    64 bits that a DOUBLE is to hold aside, which `conform` looks at one by one."""
    if pa.types.is_null(found) or plain_type(found) == plain_type(declared):
        return True
    found = plain_type(found)
    if pa.types.is_decimal(declared):
        return _fits_decimal(found, declared)
    if pa.types.is_integer(found):
        return _integer_fits(found, declared)
    if pa.types.is_floating(found) and pa.types.is_floating(declared):
        return bool(found.bit_width <= declared.bit_width)
    if pa.types.is_duration(declared):
        return bool(pa.types.is_duration(found) or pa.types.is_interval(found))
    if pa.types.is_time(found) and pa.types.is_time(declared):
        return True
    if pa.types.is_nested(found) and pa.types.is_nested(declared):
        return bool(entering_type(found) == entering_type(declared))
    if pa.types.is_date(declared):
        return bool(pa.types.is_date(found))
    return (is_instant(found) and is_instant(declared)) or (is_bytes(found) and is_bytes(declared))


def _integer_fits(found: pa.DataType, declared: pa.DataType) -> bool:
    if pa.types.is_floating(declared):
        return bool(declared == pa.float64())
    if not pa.types.is_integer(declared):
        return False
    if pa.types.is_signed_integer(found):
        return bool(pa.types.is_signed_integer(declared) and found.bit_width <= declared.bit_width)
    # A signed type has one bit less for the value.
    spare_bit = 1 if pa.types.is_signed_integer(declared) else 0
    return bool(found.bit_width + spare_bit <= declared.bit_width)


def _fits_decimal(found: pa.DataType, declared: pa.DataType) -> bool:
    whole = declared.precision - declared.scale
    if pa.types.is_integer(found):
        # One digit too many at most, and never too few.
        return bool(whole >= len(str(2**found.bit_width)))
    if not pa.types.is_decimal(found):
        return False
    return bool(found.scale <= declared.scale and found.precision - found.scale <= whole)


def check_columns(found: pa.Schema, wanted: pa.Schema, name: str, where: str, *, value_by_value: bool = True) -> None:
    """Refuse data that lacks a wanted column or has it in another type. `value_by_value`: what fits by its values only
    is looked at by them later."""
    for field in wanted:
        index = found.get_field_index(field.name)
        if found.names.count(field.name) > 1:
            raise SourceError(f"{where} has two columns named {field.name!r}", hint="rename one of them")
        if index < 0:
            raise SourceError(
                f"{name!r} is declared with a column {field.name!r}, but {where} has none",
                hint=_in_its_case(field.name, found.names),
            )
        kind = found.field(index).type
        if not fits(kind, field.type) or not (value_by_value or fits_by_type(kind, field.type)):
            raise SourceError(
                f"column {field.name!r} of {name!r} is declared {sql_type(field.type)}, "
                f"but {where} has {sql_type(kind)}",
                hint=_declare(kind, field.type),
            )


def held_columns(found: pa.Schema, declared: pa.Schema, time: str | None) -> pa.Schema:
    """The declared columns as they are before they enter: times as fine as they come, and the event time, if its column
    is named, as it is written."""

    def held(column: pa.Field) -> pa.Field:
        if column.name not in found.names:
            return column
        kind = found.field(column.name).type
        written = column.name == time and pa.types.is_timestamp(column.type)
        both_times = pa.types.is_timestamp(kind) and pa.types.is_timestamp(column.type)
        return column.with_type(kind) if written or both_times else column

    return pa.schema([held(column) for column in declared])


def _in_its_case(name: str, columns: list[str]) -> str:
    alike = column_named(name, columns)
    return (
        columns_hint(columns) if alike is None else f"declare it as {alike}: columns of files are found by their case"
    )


def fits_by_type(found: pa.DataType, declared: pa.DataType) -> bool:
    """Whether a DOUBLE holds integers whatever they are."""
    wide = pa.types.is_integer(found) and found.bit_width > _EXACT_IN_DOUBLE_BITS
    return not (wide and pa.types.is_floating(declared))


def _declare(found: pa.DataType, declared: pa.DataType) -> str:
    if is_number(found) and pa.types.is_timestamp(declared):
        return (
            "if it is the event time, say what it counts since 1970: time_unit = 's', 'ms', 'us' or 'ns'; else declare "
            f"it {sql_type(plain_type(found))}, and write TIMESTAMP_MILLIS(…) of it in the query"
        )
    way = f"declare it {sql_type(plain_type(found))}, and CAST it in the query"
    if pa.types.is_integer(found) and pa.types.is_floating(declared):
        return f"{way}, if all files have it so; else write them anew with one type"
    return way


def entered(batches: Iterable[pa.RecordBatch], relation: Relation) -> Iterator[pa.RecordBatch]:
    """The rows of a stream or table as a query sees them, but for the moment of their arrival."""
    return (enter(batch, relation.given_schema, relation) for batch in batches)


def enter(batch: pa.RecordBatch, schema: pa.Schema, relation: Relation) -> pa.RecordBatch:
    """Some columns of a stream or table as a query sees them: times in microseconds and in the query's zone, text in
    UTF-8."""
    try:
        made = conform(batch, schema, relation.rounding)
        # Where a stream says what becomes of bad records, they are told apart from the others.
        if not (isinstance(relation, Stream) and relation.arrival.keeps_going):
            refuse_broken_text(made)
        return made
    except DataError as error:
        what = "stream" if isinstance(relation, Stream) else "table"
        raise DataError(f"{what} {relation.name!r}: {error.message}", hint=error.hint) from None


def conform(batch: pa.RecordBatch, schema: pa.Schema, rounding: str = "error") -> pa.RecordBatch:
    """The batch with exactly these columns, in these types. `rounding` is for times finer than their type."""
    # Types and nullability are the same: there is nothing to cast, and no NULL to look for.
    if batch.schema.equals(schema):
        return batch
    columns = [_fitted(batch.column(field.name), field, rounding) for field in schema]
    for field, column in zip(schema, columns, strict=True):
        if column.null_count and not field.nullable:
            raise DataError(f"column {field.name!r} is declared NOT NULL, but {column.null_count} rows have NULL there")
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _fitted(column: pa.Array, field: pa.Field, rounding: str) -> pa.Array:
    try:
        return _cast(column, field.type, rounding)
    except DataError as error:
        raise DataError(f"column {field.name!r}: {error.message}", hint=error.hint) from None


def _cast(column: pa.Array, target: pa.DataType, rounding: str) -> pa.Array:
    column = plain_column(column)
    if column.type == target:
        return column
    if pa.types.is_timestamp(column.type) and pa.types.is_timestamp(target):
        return cast_timestamps(column, target, rounding)
    if pa.types.is_duration(column.type) and pa.types.is_duration(target):
        return cast_intervals(column, target, rounding)
    if pa.types.is_interval(column.type):
        return cast_calendar_intervals(column, rounding)
    if pa.types.is_time(column.type) and column.type.unit == "ns":
        return cast_intervals(column, target, rounding)
    if pa.types.is_nested(target):
        return _cast_nested(column, target, rounding)
    if pa.types.is_integer(column.type) and pa.types.is_floating(target):
        return _as_doubles(column, target)
    return pc.cast(column, target, safe=not is_instant(target))


def _as_doubles(column: pa.Array, target: pa.DataType) -> pa.Array:
    try:
        return pc.cast(column, target)
    except pa.ArrowInvalid:
        raise DataError(
            f"it holds integers beyond {_EXACT_IN_DOUBLE}, which a {sql_type(target)} cannot hold exactly",
            hint=f"declare it {sql_type(column.type)}, and CAST it in the query",
        ) from None


def _cast_nested(column: pa.Array, target: pa.DataType, rounding: str) -> pa.Array:
    try:
        return pc.cast(column, target, safe=rounding == "error")
    except pa.ArrowInvalid as error:
        # Arrow's casts of nested types tell only by their words what went wrong.
        if "would lose data" not in str(error):
            raise
        raise DataError("it holds times finer than a microsecond", hint=ROUND_DOWN) from None
