"""The file that a database is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from watersmeet.errors import SinkError, SourceError


def file_of(name: str, options: Mapping[str, str], error: type[SinkError] | type[SourceError]) -> Path:
    path = options.get("path")
    if not path:
        raise error(f"{name!r} does not say which file its database is", hint="add path = '…' to its WITH (…)")
    if "\0" in path:
        raise error(f"{name!r} has a path with a NUL character in it: {path!r}")
    return Path(path).expanduser()
