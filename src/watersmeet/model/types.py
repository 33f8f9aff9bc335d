"""SQL type names and Arrow types, both ways."""

from __future__ import annotations

import re
from collections.abc import Callable

import pyarrow as pa

from watersmeet.model.nested_types import nested_name, nested_type, together

# Of several names for a type the first is the one that messages use.
_PLAIN: dict[str, pa.DataType] = {
    "BOOLEAN": pa.bool_(), "BOOL": pa.bool_(),
    "TINYINT": pa.int8(), "BYTE": pa.int8(), "SMALLINT": pa.int16(), "SHORT": pa.int16(),
    "INT": pa.int32(), "INTEGER": pa.int32(), "BIGINT": pa.int64(), "LONG": pa.int64(),
    "UTINYINT": pa.uint8(), "USMALLINT": pa.uint16(), "UINTEGER": pa.uint32(), "UINT": pa.uint32(),
    "UBIGINT": pa.uint64(),
    "FLOAT": pa.float32(), "REAL": pa.float32(), "DOUBLE": pa.float64(),
    "STRING": pa.string(), "VARCHAR": pa.string(), "TEXT": pa.string(), "CHAR": pa.string(),
    "BINARY": pa.binary(), "VARBINARY": pa.binary(), "BLOB": pa.binary(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us"), "DATETIME": pa.timestamp("us"), "TIMESTAMP_NTZ": pa.timestamp("us"),
    "TIMESTAMPTZ": pa.timestamp("us", tz="UTC"), "TIMESTAMP_LTZ": pa.timestamp("us", tz="UTC"),
}  # fmt: skip
_TIMES = {
    "TIMESTAMP": "TIMESTAMP", "TIMESTAMP WITHOUT TIME ZONE": "TIMESTAMP",
    "TIMESTAMP WITH TIME ZONE": "TIMESTAMPTZ", "TIMESTAMP WITH LOCAL TIME ZONE": "TIMESTAMPTZ",
}  # fmt: skip
_SIZED = re.compile(r"^(\w+)\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)$")


def arrow_type(sql: str) -> pa.DataType | None:
    """The Arrow type of a SQL type name such as 'BIGINT' or 'DECIMAL(10, 2)', or None if unknown.

    >>> arrow_type("decimal(10, 2)")
    Decimal128Type(decimal128(10, 2))
    """
    if (nested := nested_type(sql, arrow_type)) is not None:
        return nested
    name = " ".join(sql.upper().split())
    # Microseconds are the only precision there is inside, so (6) says nothing; other digits make the name unknown.
    name = _TIMES.get(re.sub(r" ?\( ?6 ?\)", "", name), name)
    match = _SIZED.match(name)
    if match and match.group(1) in ("DECIMAL", "NUMERIC"):
        precision, scale = int(match.group(2)), int(match.group(3) or 0)
        return pa.decimal128(precision, scale) if 1 <= precision <= 38 and scale <= precision else None
    if match and match.group(1) in ("VARCHAR", "CHAR"):
        return pa.string()
    if name in ("DECIMAL", "NUMERIC"):
        # As in DuckDB.
        return pa.decimal128(18, 3)
    if name == "DOUBLE PRECISION":
        return pa.float64()
    return _PLAIN.get(name)


def sql_type(data_type: pa.DataType) -> str:
    """The SQL name of an Arrow type, for messages."""
    if (nested := nested_name(data_type, sql_type)) is not None:
        return nested
    if pa.types.is_decimal(data_type):
        return f"DECIMAL({data_type.precision}, {data_type.scale})"
    if pa.types.is_timestamp(data_type):
        return "TIMESTAMP" if data_type.tz is None else "TIMESTAMPTZ"
    if is_text(data_type):
        return "STRING"
    if is_bytes(data_type):
        return "BINARY"
    if pa.types.is_duration(data_type) or pa.types.is_interval(data_type):
        return "INTERVAL"
    if pa.types.is_time(data_type):
        return "TIME"
    for name, known in _PLAIN.items():
        if known == data_type:
            return name
    return str(data_type).upper()


def type_for(value: int) -> str:
    """The SQL name of a type that holds an integer, for hints.

    >>> type_for(2**31), type_for(2**63), type_for(10**20)
    ('BIGINT', 'UBIGINT', 'DECIMAL(38, 0)')
    """
    if -(2**63) <= value < 2**63:
        return "BIGINT"
    if 0 <= value < 2**64:
        return "UBIGINT"
    return "DECIMAL(38, 0)" if abs(value) < 10**38 else "STRING"


def is_text(t: pa.DataType) -> bool:
    return bool(pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_string_view(t))


def is_bytes(t: pa.DataType) -> bool:
    return bool(pa.types.is_binary(t) or pa.types.is_large_binary(t) or pa.types.is_fixed_size_binary(t))


def is_number(t: pa.DataType) -> bool:
    return bool(pa.types.is_integer(t) or pa.types.is_floating(t) or pa.types.is_decimal(t))


def is_instant(t: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(t) or pa.types.is_date(t))


_FAMILIES: dict[str, Callable[[pa.DataType], bool]] = {
    "number": is_number,
    "text": is_text,
    "bytes": is_bytes,
    "instant": is_instant,
    "boolean": pa.types.is_boolean,
    "interval": pa.types.is_duration,
    "null": pa.types.is_null,
}


def family(t: pa.DataType) -> str:
    """The group of types that may be compared with each other."""
    for name, belongs in _FAMILIES.items():
        if belongs(t):
            return name
    return str(t)


def comparable(left: pa.DataType, right: pa.DataType) -> bool:
    if pa.types.is_nested(left) and pa.types.is_nested(right):
        return together(left, right, lambda one, other: one if comparable(one, other) else None) is not None
    return family(left) == family(right) or "null" in (family(left), family(right))


def common_type(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """The type in which two comparable values are compared. Mixed integers and floats compare as doubles."""
    if left == right:
        return left
    if pa.types.is_null(left):
        return right
    if pa.types.is_null(right):
        return left
    kind = family(left)
    if kind == "number":
        return _common_number(left, right)
    if kind == "instant":
        return _common_instant(left, right)
    if kind == "text":
        return pa.string()
    if kind == "bytes":
        return pa.binary()
    return together(left, right, common_type) or left


def _common_number(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    if pa.types.is_floating(left) or pa.types.is_floating(right):
        return pa.float32() if left == right == pa.float32() else pa.float64()
    if pa.types.is_decimal(left) or pa.types.is_decimal(right):
        a, b = _as_decimal(left), _as_decimal(right)
        scale = max(a.scale, b.scale)
        whole = max(a.precision - a.scale, b.precision - b.scale)
        return pa.decimal128(min(38, whole + scale), scale)
    # Neither 64-bit type holds the other's values; 20 digits hold both.
    if pa.uint64() in (left, right):
        return pa.decimal128(20, 0) if left != right else left
    return pa.int64()


def _as_decimal(t: pa.DataType) -> pa.DataType:
    # The longest integers have 20 digits (uint64).
    return t if pa.types.is_decimal(t) else pa.decimal128(20, 0)


def _common_instant(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    # Of two zones either will do: a zone is only how an instant is shown.
    zone = getattr(left, "tz", None) or getattr(right, "tz", None)
    units = [t.unit for t in (left, right) if pa.types.is_timestamp(t)]
    return pa.timestamp("ns" if "ns" in units else "us", tz=zone)
