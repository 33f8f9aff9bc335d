"""The schema of a topic's records: in the script, in a file, or known by a registry."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from watersmeet.errors import OptionError, SetupError, SourceError
from watersmeet.io.connectors.kafka.decoding.registry import Registry, Wire

PLAIN, FRAMED = "plain", "registry"
SETTINGS = "registry."  # begins those of the client
USER = "basic.auth.user.info"


def wire_of(owner: str, options: Mapping[str, str]) -> Wire:
    registry = options.get("registry")
    word = options.get("wire", PLAIN if registry is None else FRAMED).lower()
    if word not in (PLAIN, FRAMED):
        raise OptionError(
            f"wire of {owner!r} is {word!r}",
            hint="it may be 'plain', or 'registry' for records that begin with the id of their schema",
            option="wire",
        )
    if registry is not None and word == PLAIN:
        raise OptionError(f"{owner!r} has a registry, but its records are plain", hint="leave one out", option="wire")
    return Wire(word == FRAMED, _registry(owner, registry, options))


def _registry(owner: str, address: str | None, options: Mapping[str, str]) -> Registry | None:
    own = {name.removeprefix(SETTINGS): value for name, value in options.items() if name.startswith(SETTINGS)}
    if "registry_auth" in options:
        if USER in own:
            raise OptionError(f"{owner!r} has both registry_auth and registry.{USER}", hint="leave one out")
        own[USER] = options["registry_auth"]
    if address is None:
        if own:
            raise OptionError(f"{owner!r} says how to enter a registry, but not where it is", hint="add registry = '…'")
        return None
    _check_address(owner, address)
    found = Registry(address, tuple(sorted(own.items())))
    try:
        found.client()
    except ImportError as error:
        raise SetupError(f"a registry needs {error.name}", hint="pip install 'watersmeet[kafka]'") from None
    except (ValueError, TypeError, OSError) as error:
        raise OptionError(
            f"no client of the registry of {owner!r} can be made: {error}",
            hint="'registry.…' are settings of confluent_kafka's SchemaRegistryClient, by its names",
            option="registry",
        ) from None
    return found


def _check_address(owner: str, registry: str) -> None:
    scheme, behind, rest = registry.partition("://")
    if scheme not in ("http", "https") or not behind:
        shown = registry if "@" not in registry else "…"
        raise OptionError(
            f"registry of {owner!r} is {shown!r}, which is no address",
            hint="it looks like 'http://localhost:8081'",
            option="registry",
        )
    if "@" in rest.partition("/")[0]:  # it would be shown in messages
        raise OptionError(
            f"registry of {owner!r} has a name and a password in its address",
            hint="say registry_auth = '${NAME}', where the environment holds user:password",
            option="registry",
        )


def avro_schema(owner: str, options: Mapping[str, str]) -> Mapping[str, Any] | None:
    """The schema that was given; None if none was."""
    text = options.get("schema")
    if text is not None and "schema_file" in options:
        raise OptionError(f"{owner!r} has both schema and schema_file", hint="leave one out", option="schema")
    if text is None and "schema_file" in options:
        text = file_of(owner, options).decode("utf-8", "replace")
    if text is None:
        return None
    from watersmeet.io.connectors.kafka.decoding.avro_types import WRONG_SCHEMA, in_words, settled

    try:
        found = json.loads(text)
    except ValueError as error:
        raise OptionError(f"the schema of {owner!r} is no JSON: {error}", option="schema") from None
    if not isinstance(found, dict) or found.get("type") != "record" or not isinstance(found.get("fields"), list):
        raise OptionError(
            f"the schema of {owner!r} is no record of Avro",
            hint='it looks like {"type": "record", "name": "…", "fields": […]}',
            option="schema",
        )
    try:
        settled(found)
    except WRONG_SCHEMA as error:
        raise OptionError(f"the schema of {owner!r} is none of Avro: {in_words(error)}", option="schema") from None
    return found


def file_of(owner: str, options: Mapping[str, str]) -> bytes:
    path = Path(options["schema_file"]).expanduser()
    try:
        return path.read_bytes()
    except OSError as error:
        raise SourceError(f"schema_file of {owner!r}, {path}, cannot be read: {error.strerror}") from None
