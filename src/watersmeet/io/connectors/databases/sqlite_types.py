"""SQLite declares columns of any type and keeps numbers, texts and bytes. The names of types here are such that values
stay as they are put in, and that a table tells what they were."""

from __future__ import annotations

import re

import pyarrow as pa

from watersmeet.io.connectors.databases.families import ANY, family_of

# A DECIMAL of SQLite's would be a float; a type whose name has TEXT in it keeps every digit.
_NAMES = {
    "truth": "BOOLEAN",
    "integer": "BIGINT",
    "float": "DOUBLE",
    "date": "DATE",
    "time": "TIME",
    "timestamp": "TIMESTAMP",
    "instant": "TIMESTAMPTZ",
    "duration": "BIGINT",
    "text": "TEXT",
    "bytes": "BLOB",
    ANY: "TEXT",
}
_FAMILIES = {
    "BOOLEAN": "truth",
    "BOOL": "truth",
    "DATE": "date",
    "TIME": "time",
    "TIMESTAMP": "timestamp",
    "DATETIME": "timestamp",
    "TIMESTAMPTZ": "instant",
    "DECIMAL_TEXT": "decimal",
    "DECIMAL": "decimal",
    "NUMERIC": "decimal",
}
_DECIMAL = re.compile(r"(?:DECIMAL_TEXT|DECIMAL|NUMERIC)\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)")


def type_of(kind: pa.DataType) -> str | None:
    if pa.types.is_decimal(kind):
        return f"DECIMAL_TEXT({kind.precision}, {kind.scale})"
    return _NAMES.get(family_of(kind) or "")


def affinity_family(declared: str) -> str:
    """The family of a declared type: ours by their names, else as SQLite itself goes by parts of the name."""
    written = declared.upper()
    known = _FAMILIES.get(written.split("(")[0].strip())
    if known is not None:
        return known
    for part, family in (("INT", "integer"), ("CHAR", "text"), ("CLOB", "text"), ("TEXT", "text"), ("BLOB", "bytes")):
        if part in written:
            return family
    return "float" if any(part in written for part in ("REAL", "FLOA", "DOUB")) else ANY


def arrow_type(declared: str) -> pa.DataType | None:
    """The type of rows that a declared type is; None if only its values tell."""
    decimal = _DECIMAL.fullmatch(declared.upper().strip())
    if decimal is not None:
        return pa.decimal128(int(decimal[1]), int(decimal[2] or 0))
    return _ARROW.get(affinity_family(declared))


_ARROW = {
    "truth": pa.bool_(),
    "integer": pa.int64(),
    "float": pa.float64(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
    "instant": pa.timestamp("us", "UTC"),
    "text": pa.string(),
    "bytes": pa.binary(),
}
