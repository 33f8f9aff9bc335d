"""Sinks that write to one path would replace each other's rows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from watersmeet.io.filesystems import is_in_store
from watersmeet.io.path_formats import SPELLINGS, written_kind
from watersmeet.io.writers import WRITERS

FILES = "files"  # the connector; of the others, tables among them, a path may be a place for several


def path_shared(one: Mapping[str, str], other: Mapping[str, str]) -> str | None:
    """The path of files that both sinks write to, if one of them would replace what the other has written: only into a
    folder that is there do several put files of their own, with mode = 'append'. one, other: what WITH says.

    >>> path_shared({"path": "out.csv"}, {"sink": "csv", "path": "./out.csv", "mode": "overwrite"})
    'out.csv'
    >>> path_shared({"path": "out.csv"}, {"path": "other.csv"})
    >>> path_shared({"sink": "json", "path": ".", "mode": "append"}, {"sink": "json", "path": ".", "MODE": "append"})
    """
    paths = [_path_of(options) for options in (one, other)]
    if paths[0] is None or paths[1] is None or _whole(paths[0]) != _whole(paths[1]):
        return None
    appends = all(_said(options).get("mode", "").lower() == "append" for options in (one, other))
    return None if appends and (is_in_store(paths[0]) or Path(paths[0]).expanduser().is_dir()) else paths[0]


def _said(options: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): str(value) for name, value in options.items()}


def _path_of(options: Mapping[str, str]) -> str | None:
    said = _said(options)
    path = said.get("path", "")
    kind = said.get("sink", "").lower() or written_kind(path) or ""
    return (
        path if path and (SPELLINGS.get(kind, kind) in (*WRITERS, FILES) or (not kind and is_in_store(path))) else None
    )


def _whole(path: str) -> str:
    return path.rstrip("/") if is_in_store(path) else str(Path(path).expanduser().absolute())
