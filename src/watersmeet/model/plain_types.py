"""The types that operators know. Arrow has several for one kind of value; a column that comes in one of the others is
made one of these at the door, or refused where its stream is declared.

Digits of times are not decided on here: that is for the stream to say (`model/zones.py`).
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from watersmeet.errors import CatalogError
from watersmeet.model.types import is_bytes, is_text

MOST_DIGITS = 38  # of decimal128
# Extensions that mean something else than what they are stored in; UUIDs are text, as DuckDB gives them too.
_MEANT = {"arrow.uuid": pa.string(), "arrow.bool8": pa.bool_()}


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The one layout of a type that operators see: no dictionaries or runs, no view layouts, no half floats.

    >>> plain_type(pa.dictionary(pa.int8(), pa.large_string()))
    DataType(string)
    >>> plain_type(pa.decimal64(15, 2))
    Decimal128Type(decimal128(15, 2))
    """
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return plain_type(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType):
        return _MEANT.get(kind.extension_name) or plain_type(kind.storage_type)
    if pa.types.is_list_view(kind):
        return pa.list_(_plain_field(kind))
    if pa.types.is_large_list_view(kind):
        return pa.large_list(_plain_field(kind))
    return _plain_inside(kind)


def _plain_inside(kind: pa.DataType) -> pa.DataType:
    """The same for what may stand inside others too, where Arrow casts less."""
    if pa.types.is_dictionary(kind):
        return _plain_inside(kind.value_type)
    if is_text(kind) or pa.types.is_null(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_float16(kind):
        return pa.float32()
    if pa.types.is_decimal(kind) and kind.precision <= MOST_DIGITS:
        return pa.decimal128(kind.precision, kind.scale)
    return _plain_holder(kind)


def _plain_holder(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_map(kind):
        return pa.map_(_plain_inside(kind.key_type), _plain_inside(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([part.with_type(_plain_inside(part.type)) for part in kind])
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(_plain_field(kind), kind.list_size)
    if pa.types.is_list(kind):
        return pa.list_(_plain_field(kind))
    if pa.types.is_large_list(kind):
        return pa.large_list(_plain_field(kind))
    return kind


def _plain_field(kind: pa.DataType) -> pa.Field:
    return kind.value_field.with_type(_plain_inside(kind.value_type))


def is_run_or_view(kind: pa.DataType) -> bool:
    """Whether values lie scattered, which few of Arrow's own functions can read."""
    views = pa.types.is_string_view(kind) or pa.types.is_binary_view(kind)
    return bool(views or _is_list_view(kind) or pa.types.is_run_end_encoded(kind))


def refuse_unknown(schema: pa.Schema, what: str) -> None:
    """Refuse columns of types that no operator knows. Raises CatalogError."""
    for column in schema:
        if not is_known(column.type):
            raise CatalogError(
                f"column {column.name!r} of {what} has the Arrow type {column.type}, which queries cannot read",
                hint="cast it where it comes from, or leave it out: declare the columns that are needed",
            )


def is_known(kind: pa.DataType) -> bool:
    """Whether operators know a type that columns have inside."""
    if pa.types.is_nested(kind):
        return not _is_foreign(kind) and all(is_known(part) for part in _parts(kind))
    if pa.types.is_decimal(kind):
        return bool(pa.types.is_decimal128(kind))
    whole = pa.types.is_integer(kind) or pa.types.is_boolean(kind)
    real = pa.types.is_float32(kind) or pa.types.is_float64(kind)
    temporal = pa.types.is_temporal(kind) and not pa.types.is_interval(kind)
    return bool(whole or real or temporal or is_text(kind) or is_bytes(kind))


def _is_foreign(kind: pa.DataType) -> bool:
    return bool(pa.types.is_union(kind) or pa.types.is_run_end_encoded(kind) or _is_list_view(kind))


def _is_list_view(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind))


def _parts(kind: pa.DataType) -> Iterator[pa.DataType]:
    return (kind.field(place).type for place in range(kind.num_fields))
