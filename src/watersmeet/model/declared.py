"""Columns as users declare them in Python."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from watersmeet.errors import CatalogError
from watersmeet.model.types import arrow_type


def declared_schema(name: str, given: object) -> pa.Schema:
    """The columns of a stream or table, from a pyarrow schema or from types by the names of columns.

    >>> declared_schema("s", {"k": "BIGINT", "price": "decimal(10, 2)", "ts": pa.timestamp("us")}).names
    ['k', 'price', 'ts']
    """
    if isinstance(given, pa.Schema):
        names = list(given.names)
        twice = next((one for one in names if names.count(one) > 1), None)
        if twice is not None:
            raise CatalogError(f"the schema of {name!r} has two columns named {twice!r}")
        return given
    if not isinstance(given, Mapping) or not given:
        raise CatalogError(
            f"the schema of {name!r} is {given!r}, not columns with their types",
            hint="give a pyarrow schema, or a mapping such as {'k': 'BIGINT', 'ts': 'TIMESTAMP'}",
        )
    return pa.schema([pa.field(str(column), _type(name, str(column), kind)) for column, kind in given.items()])


def _type(name: str, column: str, kind: object) -> pa.DataType:
    found = kind if isinstance(kind, pa.DataType) else arrow_type(kind) if isinstance(kind, str) else None
    if found is None:
        raise CatalogError(
            f"the schema of {name!r}: {kind!r} is not a type that column {column!r} can have",
            hint="types are BIGINT, INT, DOUBLE, DECIMAL(10, 2), STRING, BOOLEAN, DATE, TIMESTAMP, TIMESTAMPTZ, "
            "BINARY, or those of pyarrow",
        )
    return found
