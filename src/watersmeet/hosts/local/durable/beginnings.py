"""Where readers began, as a checkpoint notes it before the first row: `latest` means another place after a restart."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from watersmeet.hosts.local.durable.noted import note, noted
from watersmeet.io.connectors.contract import Reader


def begin_readers(folder: Path, readers: Mapping[str, Reader]) -> None:
    """Let readers begin where they did in the first life; those that always begin at the same place need no note."""
    before = noted(folder).get("beginnings", {})
    found = dict(before)
    for name, reader in readers.items():
        if name in before:
            reader.resume(before[name])
            continue
        position = reader.first_position()
        if position is not None:
            found[name] = position
    note(folder, beginnings=found)
