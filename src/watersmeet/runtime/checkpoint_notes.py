"""What a run says of itself in its checkpoint, by name: sealed JSON, in files of a place that is handed in."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from watersmeet.errors import WatersmeetError
from watersmeet.io.connectors.claims import known_after, new_start
from watersmeet.io.connectors.contract import Claimed, Start
from watersmeet.io.sealed import sealed, unsealed


class Place(Protocol):
    """Where the files of a checkpoint lie."""

    def read(self, name: str) -> bytes | None:
        """None if there is no such file."""

    def write_whole(self, name: str, data: bytes) -> None: ...

    def damaged(self, name: str, how: str) -> WatersmeetError: ...


class CheckpointNotes:
    """Each note is a file of its own, under the name that `files` has for it."""

    def __init__(self, place: Place, files: Mapping[str, str], sealed_in: str = "") -> None:
        """sealed_in: what stands before the names of files in their sums."""
        self._place, self._files, self._sealed_in = place, files, sealed_in

    def get(self, name: str, otherwise: Any = None) -> Any:
        data = self._place.read(self._files[name])
        return otherwise if data is None else self._opened(self._files[name], data)

    def note(self, **notes: Any) -> None:
        """Note this as well, or anew."""
        for name, value in notes.items():
            self._write(self._files[name], value)

    def _opened(self, file: str, data: bytes) -> Any:
        try:
            return json.loads(bytes(unsealed(self._sealed_in + file, data)))
        except ValueError as error:
            raise self._place.damaged(file, str(error)) from None

    def _write(self, file: str, value: Any) -> None:
        self._place.write_whole(file, sealed(self._sealed_in + file, json.dumps(value).encode()))

    # ---- the starts that a checkpoint knows: by them it tells what it wrote into a sink from what another copy did ---

    def new_start(self) -> Start:
        """One more start. It is noted before it claims a sink, so that whatever it writes there is known later."""
        start = new_start(self.get("starts", []))
        self.note(starts=sorted([*start.known, start.token]))
        return start

    def sinks_opened(self, start: Start, sinks: Iterable[Claimed]) -> None:
        """All sinks are this start's: what others of the run have not written is not asked for any more."""
        known = known_after(start, sinks)
        if known != sorted([*start.known, start.token]):
            self.note(starts=known)
