"""Protobuf: messages of a type that a file of descriptors holds, as `protoc --descriptor_set_out` writes it, or that a
registry knows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from functools import lru_cache
from typing import Any

import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError

from watersmeet.dataclass import dataclass
from watersmeet.errors import SourceError
from watersmeet.io.connectors.bad_reasons import NOT_PROTOBUF, WRONG_TYPE
from watersmeet.io.connectors.kafka.decoding.contract import Decoded, UndecodableError, sorted_out
from watersmeet.io.connectors.kafka.decoding.json import EMPTY
from watersmeet.io.connectors.kafka.decoding.registry import Wire
from watersmeet.io.connectors.kafka.records import Records
from watersmeet.model.types import sql_type

_OF_GOOGLE = "google.protobuf."
_TIMESTAMP = _OF_GOOGLE + "Timestamp"
_NUMBERS = {
    FieldDescriptor.CPPTYPE_INT32: pa.int32(), FieldDescriptor.CPPTYPE_INT64: pa.int64(),
    FieldDescriptor.CPPTYPE_UINT32: pa.uint32(), FieldDescriptor.CPPTYPE_UINT64: pa.uint64(),
    FieldDescriptor.CPPTYPE_DOUBLE: pa.float64(), FieldDescriptor.CPPTYPE_FLOAT: pa.float32(),
    FieldDescriptor.CPPTYPE_BOOL: pa.bool_(), FieldDescriptor.CPPTYPE_ENUM: pa.string(),
}  # fmt: skip


@dataclass(frozen=True)
class ProtobufDecoder:
    """`described`: the bytes of a FileDescriptorSet, unless a registry knows each record's. A field that was not set
    and may be so is NULL, and so is a column that a record's schema has not."""

    schema: pa.Schema
    described: bytes | None
    message: str
    wire: Wire = field(default_factory=Wire)

    def decode(self, records: Records) -> Decoded:
        return sorted_out(records.values, self.schema, self.rows, EMPTY)

    def rows(self, values: Sequence[bytes]) -> pa.RecordBatch:
        found = [self._message(value) for value in values]
        columns = []
        for one in self.schema:
            try:
                columns.append(pa.array([_named(message, one.name) for message in found], one.type))
            except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
                raise UndecodableError(WRONG_TYPE, f"{one.name!r} is {sql_type(one.type)}: {error}") from None
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _message(self, value: bytes) -> Any:
        known, payload = self._split(value)
        kind = message_type(self._described(known), self.message)
        try:
            found = kind.FromString(self._behind_name(kind.DESCRIPTOR, payload))
        except DecodeError as error:
            raise UndecodableError(NOT_PROTOBUF, str(error)) from None
        if not found.IsInitialized():
            lacking = ", ".join(found.FindInitializationErrors())
            raise UndecodableError(NOT_PROTOBUF, f"it lacks what its type requires: {lacking}")
        return found

    def _split(self, value: bytes) -> tuple[int, bytes]:
        split = self.wire.split(value)
        if split is None:
            raise UndecodableError(NOT_PROTOBUF, "it does not begin with the id of a schema")
        return split

    def _described(self, known: int) -> bytes:
        if self.wire.registry is None:
            assert self.described is not None
            return self.described
        found = self.wire.registry.described(known)
        if found is None:
            raise UndecodableError(NOT_PROTOBUF, f"the registry knows no schema {known}")
        return found

    def _behind_name(self, kind: Any, value: bytes) -> bytes:
        if not self.wire.framed:
            return value
        indexes, payload = _behind_indexes(value)
        other = _named_by(indexes, kind.file)
        if other is not None and other != kind.full_name:
            raise UndecodableError(NOT_PROTOBUF, f"it is a {other}, by what stands before it, and no {kind.full_name}")
        return payload


def _behind_indexes(value: bytes) -> tuple[list[int], bytes]:
    """Behind the id stands which message of its file it is: a count and so many numbers, or a zero for the first."""
    count, at = _zigzag(value, 0)
    if count < 0:
        raise UndecodableError(NOT_PROTOBUF, f"it names its message by {count} numbers")
    indexes = []
    for _ in range(count):
        index, at = _zigzag(value, at)
        indexes.append(index)
    return indexes or [0], value[at:]


def _named_by(indexes: Sequence[int], file: Any) -> str | None:
    """The message of a file that so many numbers name, each among those within the one before; None if it has none, or
    that cannot be told, as some writers count the entries of maps and some do not."""
    among, found = list(file.message_types_by_name.values()), None
    for index in indexes:
        if not 0 <= index < len(among) or any(one.GetOptions().map_entry for one in among):
            return None
        found = among[index]
        among = list(found.nested_types)
    return None if found is None else str(found.full_name)


def _zigzag(value: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        if at >= len(value) or shift > 63:
            raise UndecodableError(NOT_PROTOBUF, "it ends too soon")
        number |= (value[at] & 0x7F) << shift
        shift += 7
        at += 1
        if not value[at - 1] & 0x80:
            return (number >> 1) ^ -(number & 1), at


@lru_cache(maxsize=64)
def message_type(described: bytes, name: str) -> Any:
    pool = descriptor_pool.DescriptorPool()
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(described)
        for one in files.file:
            pool.Add(one)
        return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
    except KeyError:
        names = [f"{one.package}.{kind.name}".lstrip(".") for one in files.file for kind in one.message_type]
        names.sort(key=lambda one: (one.startswith(_OF_GOOGLE), one))
        raise SourceError(
            f"the descriptors have no message {name!r}", hint=f"they have {', '.join(names[:10]) or 'none'}"
        ) from None
    except (DecodeError, TypeError) as error:
        raise SourceError(
            f"the file of descriptors cannot be read: {error}",
            hint="write it with protoc --include_imports --descriptor_set_out=FILE …",
        ) from None


def kinds_of(described: bytes, name: str) -> dict[str, pa.DataType | None]:
    """The types of a message's fields; None for one that holds messages of its own type, which no column is."""
    return {one.name: _kind(one, ()) for one in message_type(described, name).DESCRIPTOR.fields}


def _kind(one: Any, around: tuple[str, ...]) -> pa.DataType | None:
    if _is_map(one):
        key, value = (_kind(inner, around) for inner in one.message_type.fields)
        return None if value is None else pa.map_(key, value)
    single = _single_kind(one, around)
    return pa.list_(single) if _repeats(one) and single is not None else single


def _is_map(one: Any) -> bool:
    return one.message_type is not None and bool(one.message_type.GetOptions().map_entry)


def _single_kind(one: Any, around: tuple[str, ...]) -> pa.DataType | None:
    if one.message_type is not None:
        name = one.message_type.full_name
        if name == _TIMESTAMP:
            return pa.timestamp("us")
        if name in around:
            return None
        inner = [(part.name, _kind(part, (*around, name))) for part in one.message_type.fields]
        return None if any(kind is None for _, kind in inner) else pa.struct(inner)
    if one.cpp_type in _NUMBERS:
        return _NUMBERS[one.cpp_type]
    return pa.binary() if one.type == FieldDescriptor.TYPE_BYTES else pa.string()


def _repeats(one: Any) -> bool:
    return bool(one.is_repeated if hasattr(one, "is_repeated") else one.label == FieldDescriptor.LABEL_REPEATED)


def _named(message: Any, name: str) -> Any:
    one = message.DESCRIPTOR.fields_by_name.get(name)
    return None if one is None else _value(message, one)


def _value(message: Any, one: Any) -> Any:
    if _is_map(one):
        inner = one.message_type.fields_by_name["value"]
        return [(key, _single(value, inner)) for key, value in getattr(message, one.name).items()]
    if _repeats(one):
        return [_single(value, one) for value in getattr(message, one.name)]
    if one.has_presence and not message.HasField(one.name):
        return None
    return _single(getattr(message, one.name), one)


def _single(value: Any, one: Any) -> Any:
    if one.message_type is not None:
        if one.message_type.full_name == _TIMESTAMP:
            return value.seconds * 1_000_000 + value.nanos // 1_000
        return {inner.name: _value(value, inner) for inner in one.message_type.fields}
    if one.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
        named = one.enum_type.values_by_number.get(value)
        return str(value) if named is None else named.name
    return value
