"""A run replaces what is at a path once, when it begins: later, what is there may be another query's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from watersmeet.hosts.local.durable.noted import note, noted
from watersmeet.io.connectors.replaced import appending, replaced_path


def replacing_once(folder: Path, options: Mapping[str, str]) -> dict[str, str]:
    """The options of a sink: one that has replaced what was at its path in a life before adds to it in this one."""
    return appending(options, set(noted(folder).get("replaced", [])))


def note_replaced(folder: Path, options: Mapping[str, str]) -> None:
    """The sink is there, so what was at its path before is not."""
    path = replaced_path(options)
    if path is not None:
        note(folder, replaced=sorted({*noted(folder).get("replaced", []), path}))
