"""Records that begin with the id of their schema, as registries of schemas have it: a zero, and four bytes. The client
of confluent_kafka asks the registry."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import field
from functools import lru_cache
from importlib import import_module
from typing import Any, TypeVar

from watersmeet.dataclass import dataclass
from watersmeet.errors import SourceError

_MAGIC = 0
_HEAD = 5
_NOT_FOUND = 404
_UNKNOWN = (40401, 40402, 40403)  # a registry's own words for a subject, a version or a schema that it has not
_WAITING = {"timeout": 15.0}  # the client's own would be for ever
_NUMBERS = ("timeout", "max.retries", "retries.wait.ms", "retries.max.wait.ms")


@dataclass(frozen=True)
class Registry:
    """Where schemas are known. `settings`: those of confluent_kafka's client, by its names."""

    address: str
    settings: tuple[tuple[str, str], ...] = field(default=(), repr=False)  # a password may be among them

    def client(self) -> Any:
        """What asks it, one in a process. Raises ValueError and OSError for settings that nothing can be made of."""
        return _client(self)

    def record(self, known: int) -> Mapping[str, Any] | None:
        """The schema of Avro of an id; None if the registry knows no such."""
        return _kept(_records, self, known, _record)

    def described(self, known: int) -> bytes | None:
        """The descriptors of Protobuf of an id, of its own file last; None if the registry knows no such."""
        return _kept(_descriptors, self, known, _described)

    def asked(self, what: str, way: str, *arguments: Any, **named: Any) -> Any:
        """What a method of the client gives; None if the registry says that it knows no such schema."""
        from confluent_kafka.schema_registry.error import SchemaRegistryError

        try:
            found = getattr(self.client(), way)(*arguments, **named)
        except SchemaRegistryError as error:
            if error.http_status_code == _NOT_FOUND and error.error_code in _UNKNOWN:
                return None
            raise self._not_had(what, f"{error.http_status_code} {error.error_message}") from None
        except Exception as error:  # of its own, of its HTTP library, of OAuth, of TLS
            raise self._not_had(what, error or type(error).__name__) from None
        schema = getattr(found, "schema", found)
        if not isinstance(schema.schema_str, str):
            raise self._not_had(what, "its answer has no schema")
        return schema

    def _not_had(self, what: str, said: object) -> SourceError:
        return SourceError(
            f"{what} cannot be had from the registry {self.address}: {said}",
            hint="check registry = '…', registry_auth = '${NAME}' and 'registry.…', and that it is up",
        )


# By registry and id, which mean the same for ever. One that is not known may be so later.
_records: dict[tuple[Registry, int], Mapping[str, Any]] = {}
_descriptors: dict[tuple[Registry, int], bytes] = {}
T = TypeVar("T")


def _kept(
    found: dict[tuple[Registry, int], T], registry: Registry, known: int, ask: Callable[[Registry, int], T | None]
) -> T | None:
    if (registry, known) not in found:
        answer = ask(registry, known)
        if answer is None:
            return None
        found[registry, known] = answer
    return found[registry, known]


@lru_cache(maxsize=64)
def _client(registry: Registry) -> Any:
    from confluent_kafka.schema_registry import SchemaRegistryClient

    given = {name: float(value) if name in _NUMBERS else value for name, value in registry.settings}
    return SchemaRegistryClient({"url": registry.address, **_WAITING, **given})


def _record(registry: Registry, known: int) -> Mapping[str, Any] | None:
    from watersmeet.io.connectors.kafka.decoding.avro_types import WRONG_SCHEMA, in_words, settled

    what = f"schema {known}"
    schema = registry.asked(what, "get_schema", known)
    if schema is None:
        return None
    try:
        named = [_parsed(one) for _, one in _references(registry, schema, what, [])]
        found = settled(_parsed(schema), named)
    except WRONG_SCHEMA as error:
        raise SourceError(f"{what} of the registry {registry.address} cannot be read: {in_words(error)}") from None
    if not isinstance(found, dict) or found.get("type") != "record":
        raise SourceError(f"{what} of the registry {registry.address} is no record of Avro")
    return found


def _parsed(schema: Any) -> Any:
    _check_kind(schema, "AVRO")
    return json.loads(schema.schema_str)


def _check_kind(schema: Any, kind: str) -> None:
    if schema.schema_type != kind:
        raise ValueError(f"it is one of {schema.schema_type.title()}")


def _references(
    registry: Registry, schema: Any, what: str, around: list[tuple[str, int]], **format_: str
) -> list[tuple[str, Any]]:
    """The schemas that one names, by that name, those that they name before them."""
    found = []
    for one in schema.references or ():
        place = (one.subject, one.version)
        if place in around:
            raise ValueError(f"{place[0]} names itself")
        words = f"version {place[1]} of {place[0]}, which {what} names,"
        named = registry.asked(words, "get_version", *place, **format_)
        if named is None:
            raise ValueError(f"it names version {place[1]} of {place[0]}, which is not there")
        found += [*_references(registry, named, what, [*around, place], **format_), (one.name, named)]
    return found


def _described(registry: Registry, known: int) -> bytes | None:
    from google.protobuf import descriptor_pb2

    what = f"schema {known}"
    schema = registry.asked(what, "get_schema", known, fmt="serialized")
    if schema is None:
        return None
    try:
        named = _references(registry, schema, what, [], fmt="serialized")
        files = {}
        for name, one in [*named, (f"{known}.proto", schema)]:
            _check_kind(one, "PROTOBUF")
            files[name] = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(one.schema_str, validate=True))
            files[name].name = name
        known_to_all = {name for file in files.values() for name in file.dependency if name not in files}
        brought = [_of_the_library(name) for name in sorted(known_to_all)]
    except (ValueError, ImportError) as error:  # among them what protobuf raises
        raise SourceError(f"{what} of the registry {registry.address} cannot be read: {error}") from None
    made: bytes = descriptor_pb2.FileDescriptorSet(file=[*brought, *files.values()]).SerializeToString()
    return made


def _of_the_library(name: str) -> Any:
    """A file that every writer has, such as google/protobuf/timestamp.proto."""
    from google.protobuf import descriptor_pb2

    found = descriptor_pb2.FileDescriptorProto()
    import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2").DESCRIPTOR.CopyToProto(found)
    return found


@dataclass(frozen=True)
class Wire:
    """`framed`: whether records begin so. `registry`: who knows the schemas, if anybody is asked."""

    framed: bool = False
    registry: Registry | None = None

    def split(self, value: bytes) -> tuple[int, bytes] | None:
        """The id of a record's schema and the rest; None if it does not begin so."""
        if not self.framed:
            return 0, value
        if len(value) < _HEAD or value[0] != _MAGIC:
            return None
        return int.from_bytes(value[1:_HEAD], "big"), value[_HEAD:]

    def schema(self, known: int, given: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """The schema of an id; the one that was given, if no registry is asked. None if the registry knows no such."""
        if self.registry is None:
            assert given is not None
            return given
        return self.registry.record(known)
