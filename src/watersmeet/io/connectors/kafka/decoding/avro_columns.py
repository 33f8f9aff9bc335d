"""Many records of Avro as columns: they are put into one block of a container file, which Polars reads.

Behind each record stands a token that nobody else knows: where it is not found, what follows was read askew.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import polars
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.io.connectors.kafka.decoding.avro_types import PLAIN

_TOKEN = "watersmeet_token"
_TOKEN_BYTES = 8
_SYNC = b"watersmeet-block"
_FLAT = frozenset(PLAIN) - {"null"}


def is_flat(schema: Any) -> bool:
    """Whether records are read column by column: no maps, no unions of several types, no type within itself; and enums
    and nulls at the top only, which is where the reader knows them."""
    match schema:
        case {"type": "record", "fields": fields}:
            return all(_is_of_top(one["type"]) or _is_flat(one["type"]) for one in fields)
    return False


def _is_of_top(schema: Any) -> bool:
    match schema:
        case "null" | {"type": "enum"}:
            return True
    return _may_be_enum(schema) is not None


def _is_flat(schema: Any) -> bool:
    match schema:
        case str():
            return schema in _FLAT
        case ["null", kind] | [kind, "null"]:
            return _is_flat(kind)
        case {"type": "record", "fields": fields}:
            return all(_is_flat(one["type"]) for one in fields)
        case {"type": "array", "items": items}:
            return _is_flat(items)
        case {"type": kind}:
            return kind == "fixed" or kind in _FLAT if isinstance(kind, str) else _is_flat(kind)
    return False


def read_columns(writer: Mapping[str, Any], values: Sequence[bytes], names: Sequence[str]) -> pa.Table | None:
    """Some columns of whole records of a schema that is flat; None if they were read askew."""
    token = os.urandom(_TOKEN_BYTES)
    behind = _long(_TOKEN_BYTES) + token
    # Of a null nothing is written.
    fields = [_without_symbols(one) for one in writer["fields"] if one["type"] != "null"]
    schema = {**writer, "fields": [*fields, {"name": _TOKEN, "type": "bytes"}]}
    text = _container(schema, len(values), behind.join(values) + behind)
    try:
        frame = polars.read_avro(io.BytesIO(text))
        table = frame.select([*(name for name in names if name in frame.columns), _TOKEN]).to_arrow()
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException:  # such as text that is no UTF-8; a panic of Rust is no Exception
        return None
    tokens = table[_TOKEN].combine_chunks()
    if len(tokens) != len(values) or not pc.all(pc.equal(tokens, pa.scalar(token, tokens.type))).as_py():
        return None
    return _with_symbols(table, writer)


def _with_symbols(table: pa.Table, writer: Mapping[str, Any]) -> pa.Table:
    for one in writer["fields"]:
        enum = _may_be_enum(one["type"])
        if enum is not None and one["name"] in table.column_names:
            column = pa.array(enum["symbols"], pa.string()).take(table[one["name"]].combine_chunks())
            table = table.set_column(table.column_names.index(one["name"]), one["name"], column)
    return table


def _may_be_enum(schema: Any) -> Mapping[str, Any] | None:
    """The enum that may be null: those the reader of columns does not know, but their numbers it does."""
    match schema:
        case ["null", {"type": "enum"} as enum] | [{"type": "enum"} as enum, "null"]:
            return enum  # type: ignore[no-any-return]
    return None


def _without_symbols(one: Mapping[str, Any]) -> Mapping[str, Any]:
    if _may_be_enum(one["type"]) is None:
        return one
    return {**one, "type": ["int" if isinstance(kind, dict) else kind for kind in one["type"]]}


def _container(schema: Mapping[str, Any], count: int, data: bytes) -> bytes:
    """A container file of one block."""
    text = json.dumps(schema).encode()
    about = (("avro.schema", text), ("avro.codec", b"null"))
    head = b"Obj\x01" + _long(len(about))
    for name, value in about:
        head += _long(len(name)) + name.encode() + _long(len(value)) + value
    head += _long(0) + _SYNC
    return head + _long(count) + _long(len(data)) + data + _SYNC


def _long(number: int) -> bytes:
    """A number as Avro writes it, seven bits at a time; never negative here."""
    left, made = number << 1, bytearray()
    while left > 0x7F:
        made.append(left & 0x7F | 0x80)
        left >>= 7
    made.append(left)
    return bytes(made)
