"""What a run says of itself: whose its checkpoint is, how its streams arrive, what was done once. All of it is one
file, so that no part can be missing without a word."""

from __future__ import annotations

import json
from typing import Any

from watersmeet.errors import RunError
from watersmeet.hosts.local.durable.place import Place
from watersmeet.io.sealed import has_seal
from watersmeet.runtime.checkpoints import CheckpointNotes
from watersmeet.version import VERSION

LAYOUT = 2  # to be raised when what lies in a checkpoint can no longer be read by the code that reads it now
FILE = "query.json"


class RunNotes(CheckpointNotes):
    def __init__(self, place: Place) -> None:
        super().__init__(place, {}, sealed_in="/")
        self._shown = place.shown()

    def all(self) -> dict[str, Any]:
        """Nothing in a new checkpoint."""
        data = self._place.read(FILE)
        if data is None:
            return {}
        held: dict[str, Any] = _unsealed(data) or self._opened(FILE, data)
        if held["layout"] != LAYOUT:
            by = held.get("version")
            raise RunError(
                f"the checkpoint {self._shown} has layout {held['layout']}, which watersmeet {by} wrote; "
                f"watersmeet {VERSION} reads layout {LAYOUT}",
                hint=f"go on with watersmeet {by}, or start anew with a new checkpoint",
            )
        return held

    def get(self, name: str, otherwise: Any = None) -> Any:
        return self.all().get(name, otherwise)

    def note(self, **notes: Any) -> None:
        held = self.all() or {"layout": LAYOUT, "version": VERSION}
        if any(name not in held or held[name] != value for name, value in notes.items()):
            self._write(FILE, held | notes)


def _unsealed(data: bytes) -> dict[str, Any] | None:
    """The first layout had no sums."""
    try:
        held = None if has_seal(data) else json.loads(data)
    except ValueError:
        return None
    return held if isinstance(held, dict) and held.get("layout") == 1 else None
