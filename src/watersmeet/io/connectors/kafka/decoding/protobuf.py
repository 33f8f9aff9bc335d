"""Protobuf: messages of a type that a file of descriptors holds, as `protoc --descriptor_set_out` writes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError

from watersmeet.errors import SourceError
from watersmeet.io.connectors.bad_reasons import NOT_PROTOBUF, WRONG_TYPE
from watersmeet.io.connectors.kafka.decoding.contract import Decoded, UndecodableError, sorted_out
from watersmeet.io.connectors.kafka.decoding.json import EMPTY
from watersmeet.io.connectors.kafka.decoding.registry import Wire
from watersmeet.io.connectors.kafka.records import Records

_TIMESTAMP = "google.protobuf.Timestamp"
_NUMBERS = {
    FieldDescriptor.CPPTYPE_INT32: pa.int32(), FieldDescriptor.CPPTYPE_INT64: pa.int64(),
    FieldDescriptor.CPPTYPE_UINT32: pa.uint32(), FieldDescriptor.CPPTYPE_UINT64: pa.uint64(),
    FieldDescriptor.CPPTYPE_DOUBLE: pa.float64(), FieldDescriptor.CPPTYPE_FLOAT: pa.float32(),
    FieldDescriptor.CPPTYPE_BOOL: pa.bool_(), FieldDescriptor.CPPTYPE_ENUM: pa.string(),
}  # fmt: skip


@dataclass(frozen=True)
class ProtobufDecoder:
    """`described`: the bytes of a FileDescriptorSet. A field that was not set and may be so is NULL."""

    schema: pa.Schema
    described: bytes
    message: str
    wire: Wire = field(default_factory=Wire)

    def decode(self, records: Records) -> Decoded:
        return sorted_out(records.values, self.schema, self.rows, EMPTY)

    def rows(self, values: Sequence[bytes]) -> pa.RecordBatch:
        kind = message_type(self.described, self.message)
        try:
            found = [kind.FromString(self._payload(value)) for value in values]
        except DecodeError as error:
            raise UndecodableError(NOT_PROTOBUF, str(error)) from None
        fields = {one.name: one for one in kind.DESCRIPTOR.fields}
        try:
            columns = [
                pa.array([_value(message, fields[one.name]) for message in found], one.type) for one in self.schema
            ]
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
            raise UndecodableError(WRONG_TYPE, str(error)) from None
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _payload(self, value: bytes) -> bytes:
        if not self.wire.framed:
            return value
        split = self.wire.split(value)
        if split is None:
            raise UndecodableError(NOT_PROTOBUF, "it does not begin with the id of a schema")
        return _behind_indexes(split[1])


def _behind_indexes(value: bytes) -> bytes:
    """Behind the id stands which message of its file it is: a count and so many numbers, or a zero for the first."""
    count, at = _zigzag(value, 0)
    if count < 0:
        raise UndecodableError(NOT_PROTOBUF, f"it names its message by {count} numbers")
    for _ in range(count):
        _, at = _zigzag(value, at)
    return value[at:]


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
        names = sorted(f"{one.package}.{kind.name}".lstrip(".") for one in files.file for kind in one.message_type)
        raise SourceError(
            f"the descriptors have no message {name!r}", hint=f"they have {', '.join(names[:10]) or 'none'}"
        ) from None
    except (DecodeError, TypeError) as error:
        raise SourceError(
            f"the file of descriptors cannot be read: {error}",
            hint="write it with protoc --include_imports --descriptor_set_out=FILE …",
        ) from None


def columns_of(described: bytes, name: str) -> pa.Schema:
    return pa.schema([(one.name, _kind(one)) for one in message_type(described, name).DESCRIPTOR.fields])


def _kind(one: Any) -> pa.DataType:
    single = _single_kind(one)
    return pa.list_(single) if _repeats(one) else single


def _single_kind(one: Any) -> pa.DataType:
    if one.message_type is not None:
        if one.message_type.full_name == _TIMESTAMP:
            return pa.timestamp("us")
        return pa.struct([(inner.name, _kind(inner)) for inner in one.message_type.fields])
    if one.cpp_type in _NUMBERS:
        return _NUMBERS[one.cpp_type]
    return pa.binary() if one.type == FieldDescriptor.TYPE_BYTES else pa.string()


def _repeats(one: Any) -> bool:
    return bool(one.is_repeated if hasattr(one, "is_repeated") else one.label == FieldDescriptor.LABEL_REPEATED)


def _value(message: Any, one: Any) -> Any:
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
