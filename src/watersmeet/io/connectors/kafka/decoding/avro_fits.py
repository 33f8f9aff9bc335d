"""Which columns a schema of Avro has, and what of it a declared column may hold.

A value is cast to the type of its column, and is told if that cannot hold it. Only what would be misread without a word
is told by the types alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import pyarrow as pa

from watersmeet.io.connectors.kafka.decoding.avro_types import has_name, kind_of
from watersmeet.model.types import is_text, sql_type


def kinds_of(schema: Mapping[str, Any]) -> dict[str, pa.DataType | None]:
    """The types of a record's fields; None where only its values tell, which they do everywhere if it is within itself:
    how it is read there, it is read at the top."""
    within = any(has_name(one["type"]) for one in schema["fields"])
    return {one["name"]: None if within else kind_of(one["type"]) for one in schema["fields"]}


def columns_of(schema: Mapping[str, Any]) -> pa.Schema | None:
    """The columns of a schema; None if it has a map or a type that only records tell."""
    kinds = kinds_of(schema)
    if any(kind is None or _has_map(kind) for kind in kinds.values()):
        return None
    return pa.schema([(name, pa.string() if pa.types.is_null(kind) else kind) for name, kind in kinds.items()])


def _has_map(kind: pa.DataType) -> bool:
    inner = [kind.field(place).type for place in range(kind.num_fields)]
    return bool(pa.types.is_map(kind)) or any(_has_map(one) for one in inner)


def misfit(kinds: Mapping[str, pa.DataType | None], wanted: pa.Schema) -> str | None:
    """A sentence on a column that would be misread: a number is no time, and a time no number."""
    for one in wanted:
        kind = kinds.get(one.name)
        if kind is not None and _is_misread(kind, one.type):
            return f"{one.name!r} is declared {sql_type(one.type)}, but its schema of Avro has {sql_type(kind)}"
    return None


def _is_misread(kind: pa.DataType, wanted: pa.DataType) -> bool:
    if pa.types.is_null(kind):
        return False
    if pa.types.is_nested(kind) or pa.types.is_nested(wanted):
        if kind.id != wanted.id:
            return True
        if pa.types.is_struct(kind):
            both = set(kind.names) & set(wanted.names)
            return any(_is_misread(kind.field(one).type, wanted.field(one).type) for one in both)
        inner = range(kind.num_fields)
        return any(_is_misread(kind.field(place).type, wanted.field(place).type) for place in inner)
    if is_text(kind) or is_text(wanted):
        return False
    return bool(pa.types.is_temporal(kind) != pa.types.is_temporal(wanted))


def as_one_of(value: Any, wanted: pa.DataType) -> Any:
    """A value of one of several types, as what it stands for. Raises TypeError for a number that would be a time."""
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, Mapping) and pa.types.is_struct(wanted):
        names = set(wanted.names) & set(value)
        return {name: as_one_of(value[name], wanted.field(name).type) for name in names}
    if isinstance(value, Mapping) and pa.types.is_map(wanted):
        return [(name, as_one_of(one, wanted.item_type)) for name, one in value.items()]
    if isinstance(value, list) and pa.types.is_list(wanted):
        return [as_one_of(one, wanted.value_type) for one in value]
    if isinstance(value, int | float) and pa.types.is_temporal(wanted):
        raise TypeError(f"{value} is a number")
    return value
