"""What a schema of Avro means: with its names written out, and which type of Arrow each of its types is.

A logical type that is not known here, or cannot be one (a decimal of 40 digits), is the plain type below it, as Avro
itself has it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import count
from typing import Any

import fastavro
import pyarrow as pa
from fastavro.schema import SchemaParseException, UnknownType

PLAIN = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_TIMES = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time64("ns"),
    ("long", "time-micros"): pa.time64("ns"),
    ("long", "timestamp-millis"): pa.timestamp("ms", "UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", "UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
}
_IN_NANOSECONDS = {"time-millis": 1_000_000, "time-micros": 1_000}
_MOST_DIGITS = 38
_NAMED = ("record", "enum", "fixed", "error")
WRONG_SCHEMA = (SchemaParseException, UnknownType, KeyError, TypeError, ValueError, RecursionError)


def in_words(error: BaseException) -> str:
    return f"it names a type {error}, which it has not" if isinstance(error, UnknownType) else str(error)


def settled(schema: Any, references: Sequence[Any] = ()) -> Any:
    """The schema with every type in its place, though it is written elsewhere in it or in one of the references, each
    of which may name those before it. Only within itself a type is still named. Raises one of WRONG_SCHEMA."""
    named: dict[str, Any] = {}
    for one in references:
        fastavro.parse_schema(one, named_schemas=named)
    parsed = fastavro.parse_schema(schema, named_schemas=named)
    return _written_out(parsed, named, {}, set(), count(2))


def _written_out(
    schema: Any, named: Mapping[str, Any], around: dict[str, str], used: set[str], new: Iterator[int]
) -> Any:
    """`around`: the names of the types around it, as they are now."""
    match schema:
        case str():
            if schema in PLAIN or schema in around:
                return around.get(schema, schema)
            return _written_out(named[schema], named, around, used, new)
        case [*kinds]:
            return [_written_out(one, named, around, used, new) for one in kinds]
        case {"type": kind, "name": name} if kind in _NAMED:
            called = name if name not in used else f"{name}_{next(new)}"
            used.add(called)
            if kind not in ("record", "error"):
                return _as_known({**_bare(schema), "name": called})
            fields = [
                {"name": one["name"], "type": _written_out(one["type"], named, {**around, name: called}, used, new)}
                for one in schema["fields"]
            ]
            return {"type": "record", "name": called, "fields": fields}
        case {"type": "array", "items": items}:
            return {"type": "array", "items": _written_out(items, named, around, used, new)}
        case {"type": "map", "values": values}:
            return {"type": "map", "values": _written_out(values, named, around, used, new)}
        case {"type": str(kind)} if kind in PLAIN:
            return _as_known(_bare(schema))
        case {"type": inner}:
            return _written_out(inner, named, around, used, new)
    raise ValueError(f"{schema!r} is no type of Avro")


def _bare(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {name: one for name, one in schema.items() if not name.startswith("__") and name not in ("aliases", "doc")}


def _as_known(schema: dict[str, Any]) -> Any:
    known = "logicalType" in schema and (_decimal(schema) or (schema["type"], schema["logicalType"]) in _TIMES)
    plain = schema if known else {name: one for name, one in schema.items() if name != "logicalType"}
    return plain["type"] if not known and plain["type"] in PLAIN else plain


def _decimal(schema: Mapping[str, Any]) -> pa.DataType | None:
    if schema.get("logicalType") != "decimal" or schema["type"] not in ("bytes", "fixed"):
        return None
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if not isinstance(precision, int) or not isinstance(scale, int) or not 0 <= scale <= precision <= _MOST_DIGITS:
        return None
    return pa.decimal128(precision, scale) if precision else None


def kind_of(schema: Any) -> pa.DataType | None:
    """The type of Arrow; None for a union of several types and for a type within itself."""
    match schema:
        case str():
            return PLAIN.get(schema)
        case [*kinds]:
            there = [one for one in kinds if one != "null"]
            return pa.null() if not there else kind_of(there[0]) if len(there) == 1 else None
        case {"type": "record", "fields": fields}:
            inner = [(one["name"], kind_of(one["type"])) for one in fields]
            return None if any(kind is None for _, kind in inner) else pa.struct(inner)
        case {"type": "array", "items": items}:
            item = kind_of(items)
            return None if item is None else pa.list_(item)
        case {"type": "map", "values": values}:
            value = kind_of(values)
            return None if value is None else pa.map_(pa.string(), value)
        case {"type": "enum"}:
            return pa.string()
        case {"type": "fixed" | "bytes"}:
            return _decimal(schema) or pa.binary()
        case {"type": str(kind), "logicalType": logical} if (kind, logical) in _TIMES:
            return _TIMES[kind, logical]
        case {"type": inner}:
            return kind_of(inner)
    return None


def has_name(schema: Any) -> bool:
    """Whether a type is named that stands around it."""
    match schema:
        case str():
            return schema not in PLAIN
        case [*kinds]:
            return any(has_name(one) for one in kinds)
        case {"type": "record", "fields": fields}:
            return any(has_name(one["type"]) for one in fields)
        case {"items": inner} | {"values": inner}:
            return has_name(inner)
    return False


def as_stored(schema: Any) -> Any:
    """A schema without what its types stand for."""
    if isinstance(schema, list):
        return [as_stored(one) for one in schema]
    if isinstance(schema, Mapping):
        return {name: as_stored(one) for name, one in schema.items() if name != "logicalType"}
    return schema


def meant(value: Any, schema: Any) -> Any:
    """What a stored value stands for, as its `kind_of` takes it: numbers of times stay numbers, in their unit."""
    if value is None:
        return None
    match schema:
        case [*kinds]:
            return meant(value, next(one for one in kinds if one != "null"))
        case {"type": "record", "fields": fields}:
            return {one["name"]: meant(value[one["name"]], one["type"]) for one in fields}
        case {"type": "array", "items": items}:
            return [meant(one, items) for one in value]
        case {"type": "map", "values": values}:
            return [(name, meant(one, values)) for name, one in value.items()]
        case {"type": "bytes" | "fixed", "logicalType": "decimal"}:
            digits, scale = int.from_bytes(value, "big", signed=True), schema.get("scale", 0)
            return Decimal((digits < 0, tuple(map(int, str(abs(digits)))), -scale))
        case {"logicalType": logical} if logical in _IN_NANOSECONDS:
            return value * _IN_NANOSECONDS[logical]
        case {"type": dict() | list() as inner}:
            return meant(value, inner)
    return value
