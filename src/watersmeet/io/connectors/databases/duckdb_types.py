"""The types of DuckDB, by name."""

from __future__ import annotations

import pyarrow as pa

from watersmeet.io.connectors.databases.families import ANY, family_of

_NAMES = {
    "truth": "BOOLEAN",
    "float": "DOUBLE",
    "date": "DATE",
    "time": "TIME",
    "timestamp": "TIMESTAMP",
    "instant": "TIMESTAMP WITH TIME ZONE",
    "duration": "INTERVAL",
    "text": "VARCHAR",
    "bytes": "BLOB",
    ANY: "VARCHAR",
}
_FAMILIES = {
    **{name: family for family, name in _NAMES.items() if family != ANY},
    **dict.fromkeys(
        ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"),
        "integer",
    ),
    "FLOAT": "float",
    "TIMESTAMP_S": "timestamp",
    "TIMESTAMP_MS": "timestamp",
    "TIMESTAMP_NS": "timestamp",
}


def type_of(kind: pa.DataType) -> str | None:
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})" if kind.precision <= 38 else None
    if pa.types.is_uint64(kind):
        return "UBIGINT"
    family = family_of(kind)
    return "BIGINT" if family == "integer" else _NAMES.get(family or "")


def family_of_name(name: str) -> str:
    return "decimal" if name.startswith("DECIMAL") else _FAMILIES.get(name, ANY)
