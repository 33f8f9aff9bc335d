"""Records that begin with the id of their schema, as registries of schemas have it: a zero, and four bytes."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from watersmeet.errors import SourceError

_MAGIC = 0
_HEAD = 5
_TIMEOUT_S = 15
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

    def schema(self, known: int, given: Mapping[str, Any] | None) -> Mapping[str, Any]:
        """The schema of an id; the one that was given, if no registry is asked."""
        if self.registry is None:
            assert given is not None
            return given
        place = (self.registry, known)
        if place not in _known:
            _known[place] = self._fetched(known)
        return _known[place]

    def _fetched(self, known: int) -> Mapping[str, Any]:
        address = f"{str(self.registry).rstrip('/')}/schemas/ids/{known}"
        request = urllib.request.Request(address)
        if self.auth is not None:
            request.add_header("Authorization", "Basic " + base64.b64encode(self.auth.encode()).decode())
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
                found = json.loads(json.loads(answer.read())["schema"])
        except (urllib.error.URLError, OSError, ValueError, KeyError) as error:
            said = getattr(error, "reason", error)
            raise SourceError(
                f"schema {known} cannot be had from the registry {self.registry}: {said}",
                hint="check registry = '…' and registry_auth = '${NAME}', and that it is up",
            ) from None
        if not isinstance(found, dict) or found.get("type") != "record":
            raise SourceError(f"schema {known} of the registry {self.registry} is no record of Avro")
        return found
