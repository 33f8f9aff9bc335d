"""A run replaces what is at a path once, when it begins: later, what is there may be another query's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from watersmeet.errors import RunError
from watersmeet.hosts.local.durable.files import replace_file
from watersmeet.io.connectors.replaced import appending, replaced_path

_FILE = "replaced.json"


def replacing_once(folder: Path, options: Mapping[str, str]) -> dict[str, str]:
    """The options of a sink: one that has replaced what was at its path in a life before adds to it in this one."""
    return appending(options, _noted(folder / _FILE))


def note_replaced(folder: Path, options: Mapping[str, str]) -> None:
    """The sink is there, so what was at its path before is not."""
    path, noted = replaced_path(options), _noted(folder / _FILE)
    if path is not None and path not in noted:
        replace_file(folder / _FILE, json.dumps(sorted({*noted, path})).encode())


def _noted(path: Path) -> set[str]:
    try:
        return set(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else set()
    except (OSError, ValueError) as error:
        raise RunError(f"{path} cannot be read: {error}", hint="give another checkpoint") from None
