"""Records that begin with the id of their schema, as registries of schemas have it: a zero, and four bytes."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any

from watersmeet.errors import SourceError

_MAGIC = 0
_HEAD = 5
_TIMEOUT_S = 15
_NOT_FOUND = 404
_UNKNOWN = (40401, 40402, 40403)  # a registry's own words for a subject, a version or a schema that it has not
_known: dict[tuple[str, int], Mapping[str, Any]] = {}


@dataclass(frozen=True)
class Wire:
    """`framed`: whether records begin so. `registry`: the address that knows the schemas, if any."""

    framed: bool = False
    registry: str | None = None
    auth: str | None = None

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
        place = (self.registry, known)
        if place not in _known:
            found = self._fetched(known)
            if found is None:
                return None
            _known[place] = found
        return _known[place]

    def _fetched(self, known: int) -> Mapping[str, Any] | None:
        from watersmeet.io.connectors.kafka.decoding.avro_types import WRONG_SCHEMA, in_words, settled

        what = f"schema {known}"
        answer = self._asked(f"/schemas/ids/{known}", what)
        if answer is None:
            return None
        try:
            found = settled(_parsed(answer), self._references(answer, what, []))
        except WRONG_SCHEMA as error:
            raise SourceError(f"{what} of the registry {self.registry} cannot be read: {in_words(error)}") from None
        if not isinstance(found, dict) or found.get("type") != "record":
            raise SourceError(f"{what} of the registry {self.registry} is no record of Avro")
        return found

    def _references(self, answer: Mapping[str, Any], what: str, around: list[tuple[str, int]]) -> list[Any]:
        """The schemas that one names, those that they name before them."""
        found = []
        for one in answer.get("references") or ():
            place = (one["subject"], one["version"])
            if place in around:
                raise ValueError(f"{place[0]} names itself")
            path = f"/subjects/{urllib.parse.quote(place[0], safe='')}/versions/{place[1]}"
            named = self._asked(path, f"version {place[1]} of {place[0]}, which {what} names,")
            if named is None:
                raise ValueError(f"it names version {place[1]} of {place[0]}, which is not there")
            found += [*self._references(named, what, [*around, place]), _parsed(named)]
        return found

    def _asked(self, path: str, what: str) -> Mapping[str, Any] | None:
        """What the registry answers; None if it says that it knows no such schema."""
        try:
            request = urllib.request.Request(str(self.registry).rstrip("/") + path)
            if self.auth is not None:
                request.add_header("Authorization", "Basic " + base64.b64encode(self.auth.encode()).decode())
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
                found = json.loads(answer.read())
        except urllib.error.HTTPError as error:
            if error.code == _NOT_FOUND and _error_code(error) in _UNKNOWN:
                return None
            raise self._not_had(what, f"{error.code} {error.reason}") from None
        except (urllib.error.URLError, OSError, ValueError, HTTPException) as error:
            raise self._not_had(what, getattr(error, "reason", None) or error) from None
        if not isinstance(found, dict) or not isinstance(found.get("schema"), str):
            raise self._not_had(what, "its answer has no schema")
        return found

    def _not_had(self, what: str, said: object) -> SourceError:
        return SourceError(
            f"{what} cannot be had from the registry {self.registry}: {said}",
            hint="check registry = '…' and registry_auth = '${NAME}', and that it is up",
        )


def _parsed(answer: Mapping[str, Any]) -> Any:
    kind = answer.get("schemaType", "AVRO")
    if kind != "AVRO":
        raise ValueError(f"it is one of {kind.title()}")
    return json.loads(answer["schema"])


def _error_code(error: urllib.error.HTTPError) -> object:
    try:
        found = json.loads(error.read())
    except (OSError, ValueError, HTTPException):
        return None
    return found.get("error_code") if isinstance(found, dict) else None
