"""Where readers began, as a checkpoint notes it before the first row: `latest` means another place after a restart."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from watersmeet.errors import RunError
from watersmeet.hosts.local.durable.files import replace_file
from watersmeet.io.connectors.contract import Reader

_FILE = "beginnings.json"


def begin_readers(folder: Path, readers: Mapping[str, Reader]) -> None:
    """Let readers begin where they did in the first life; those that always begin at the same place need no note."""
    path = folder / _FILE
    try:
        noted = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    except (OSError, ValueError) as error:
        raise RunError(f"{path} cannot be read: {error}", hint="give another checkpoint") from None
    found = dict(noted)
    for name, reader in readers.items():
        if name in noted:
            reader.resume(noted[name])
            continue
        first = getattr(reader, "first_position", None)
        position = None if first is None else first()
        if position is not None:
            found[name] = position
    if found != noted:
        replace_file(path, json.dumps(found).encode())
