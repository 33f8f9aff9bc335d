"""The types of PostgreSQL, by name where tables are made, by number where they are read."""

from __future__ import annotations

import pyarrow as pa

from watersmeet.io.connectors.databases.families import ANY, family_of

_NAMES = {
    "truth": "boolean",
    "float": "double precision",
    "date": "date",
    "time": "time without time zone",
    "timestamp": "timestamp without time zone",
    "instant": "timestamp with time zone",
    "duration": "interval",
    "text": "text",
    "bytes": "bytea",
    ANY: "text",
}
_FAMILIES = {
    **{name: family for family, name in _NAMES.items() if family != ANY},
    **dict.fromkeys(("smallint", "integer", "bigint"), "integer"),
    **dict.fromkeys(("character varying", "character"), "text"),
    "real": "float",
    "numeric": "decimal",
}
NUMERIC, BYTES = 1700, 17
_ARROW = {
    16: pa.bool_(),
    20: pa.int64(),
    21: pa.int16(),
    23: pa.int32(),
    26: pa.int64(),
    700: pa.float32(),
    701: pa.float64(),
    1082: pa.date32(),
    1083: pa.time64("us"),
    1114: pa.timestamp("us"),
    1184: pa.timestamp("us", "UTC"),
}


def type_of(kind: pa.DataType) -> str | None:
    if pa.types.is_decimal(kind):
        return f"numeric({kind.precision}, {kind.scale})"
    if pa.types.is_uint64(kind):
        return "numeric(20)"
    if pa.types.is_float32(kind):
        return "real"
    if pa.types.is_integer(kind):
        bits = kind.bit_width + pa.types.is_unsigned_integer(kind)
        return "smallint" if bits <= 16 else "integer" if bits <= 32 else "bigint"
    return _NAMES.get(family_of(kind) or "")


def family_of_name(name: str) -> str:
    return _FAMILIES.get(name, ANY)


def arrow_type(number: int, precision: int | None, scale: int | None) -> pa.DataType | None:
    """The type of a column of a query; None of a number without a stated size. What rows have no type for is taken as
    the text that PostgreSQL writes."""
    if number == NUMERIC:
        return None if precision is None or precision > 38 else pa.decimal128(precision, scale or 0)
    return _ARROW.get(number, pa.string())
