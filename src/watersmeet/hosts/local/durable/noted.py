"""What a run says of itself in its checkpoint: whose it is, how its streams arrive, what was done once. All of it is
one file, so that no part can be missing without a word."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from watersmeet.errors import RunError
from watersmeet.hosts.local.durable import mirror
from watersmeet.hosts.local.durable.files import read_sealed, write_sealed
from watersmeet.io.sealed import has_seal
from watersmeet.version import VERSION

LAYOUT = 2  # to be raised when what lies in a checkpoint can no longer be read by the code that reads it now
FILE = "query.json"


def noted(folder: Path) -> dict[str, Any]:
    """All that is noted; nothing in a new checkpoint."""
    path = folder / FILE
    if not path.exists():
        return {}
    _refuse_unsealed(path)
    told: dict[str, Any] = json.loads(bytes(read_sealed(path)))
    if told["layout"] != LAYOUT:
        raise _other_layout(path, told)
    return told


def note(folder: Path, **told: Any) -> None:
    """Note this as well, or anew."""
    held = noted(folder) or {"layout": LAYOUT, "version": VERSION}
    if any(name not in held or held[name] != value for name, value in told.items()):
        write_sealed(folder / FILE, json.dumps(held | told).encode())


def _refuse_unsealed(path: Path) -> None:
    """The first layout had no sums."""
    try:
        data = path.read_bytes()
        told = {} if has_seal(data) else json.loads(data)
    except (OSError, ValueError):
        return
    if isinstance(told, dict) and told.get("layout") == 1:
        raise _other_layout(path, told)


def _other_layout(path: Path, told: dict[str, Any]) -> RunError:
    by = told.get("version")
    return RunError(
        f"the checkpoint {mirror.shown(path.parent)} has layout {told['layout']}, which watersmeet {by} wrote; "
        f"watersmeet {VERSION} reads layout {LAYOUT}",
        hint=f"go on with watersmeet {by}, or start anew with a new checkpoint",
    )
