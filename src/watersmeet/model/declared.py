"""Columns as users declare them in Python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from watersmeet.errors import CatalogError
from watersmeet.model.types import arrow_type


def declared_schema(name: str, schema: Any) -> pa.Schema:
    """The columns of a stream, from a pyarrow schema or from names with types.

    >>> declared_schema("s", {"k": "BIGINT", "ts": pa.timestamp("us")}).names
    ['k', 'ts']
    """
    if isinstance(schema, pa.Schema):
        fields = list(schema)
    elif isinstance(schema, Mapping):
        fields = [pa.field(str(column), _type(name, column, kind)) for column, kind in schema.items()]
    else:
        raise CatalogError(
            f"the schema of stream {name!r} is a {type(schema).__name__}",
            hint="give a pyarrow schema, or names with SQL types: {'k': 'BIGINT', 'ts': 'TIMESTAMP'}",
        )
    twice = sorted({one.name for one in fields if sum(one.name == other.name for other in fields) > 1})
    if twice:
        raise CatalogError(f"the schema of stream {name!r} has two columns named {twice[0]!r}")
    return pa.schema(fields)


def _type(name: str, column: object, kind: Any) -> pa.DataType:
    found = kind if isinstance(kind, pa.DataType) else arrow_type(kind) if isinstance(kind, str) else None
    if found is None:
        raise CatalogError(
            f"column {column!r} of stream {name!r} is declared {kind!r}, which is no type",
            hint="write SQL types such as 'BIGINT', 'DOUBLE', 'STRING', 'TIMESTAMP', or pyarrow's",
        )
    return found
