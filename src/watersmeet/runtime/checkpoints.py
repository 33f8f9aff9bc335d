"""Checkpoints, as both hosts keep them: what a run notes of itself there, and where those of several queries lie."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Protocol

from watersmeet.errors import RunError, WatersmeetError
from watersmeet.io.connectors.claims import known_after, new_start
from watersmeet.io.connectors.contract import Claimed, Start
from watersmeet.io.sealed import sealed, unsealed

LONGEST_NAME = 200


class Place(Protocol):
    """Where the files of a checkpoint lie."""

    def read(self, name: str) -> bytes | None:
        """None if there is no such file."""

    def write_whole(self, name: str, data: bytes) -> None: ...

    def damaged(self, name: str, how: str) -> WatersmeetError: ...


class CheckpointNotes:
    """What a run says of itself, by name: sealed JSON, each note a file of its own, as `files` names it."""

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


def query_folders(queries: Sequence[str]) -> list[str]:
    """The folders of several queries below one checkpoint, by their names; no two have the same."""
    names: dict[str, str] = {}
    for query in queries:
        name = folder_name(query)
        if name in names:
            raise RunError(
                f"the queries {names[name]!r} and {query!r} would share the folder {name} of the checkpoint",
                hint="give one of them another name; a bare SELECT is called 'query 2' by its place",
            )
        names[name] = query
    return list(names)


def folder_name(query: str) -> str:
    """The folder of a query, in the checkpoint and nowhere else.

    >>> [folder_name(name) for name in ("query 1", "x/../../y", "..", "totals")]
    ['query_1', 'x%2F..%2F..%2Fy', '%2E.', 'totals']
    >>> folder_name("x" * 300)[98:]
    'xx-12b539c1cad94615'
    """
    name = query.replace(" ", "_").replace("/", "%2F").replace("\\", "%5C")
    if len(name.encode()) > LONGEST_NAME:  # file systems take 255 bytes
        name = f"{name.encode()[:100].decode(errors='ignore')}-{blake2b(query.encode(), digest_size=8).hexdigest()}"
    return f"%2E{name[1:]}" if name.startswith(".") else name
