"""What the checkpoint of queries on Spark occupies on this machine. Nothing is changed, so they may be running."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

from watersmeet.errors import SetupError
from watersmeet.hosts.spark.checkpoints.checkpoint import METADATA
from watersmeet.hosts.spark.checkpoints.place import SparkPlace
from watersmeet.hosts.spark.checkpoints.state_files import STATE as STATE_FOLDER
from watersmeet.hosts.spark.paths import NOTES as FILES
from watersmeet.runtime.checkpoints import CheckpointNotes
from watersmeet.runtime.occupancy import LEFT, LOGS, NOTES, STATE, Occupied, sizes_below, sorted_by

_CHANGES = "state, change logs"
_ORDER = (STATE, _CHANGES, LOGS, NOTES, LEFT)


def folders_of(folder: Path) -> list[Path]:
    """Those in which Spark has the checkpoint of a query, or of several together: the given one, and some below it."""
    return [one.parent for one in (folder / METADATA, *sorted(folder.glob(f"*/{METADATA}"))) if one.is_file()]


def occupied(folder: Path) -> Iterator[Occupied]:
    folders = folders_of(folder)
    for one in folders:
        others = [other for other in folders if other.is_relative_to(one) and other != one]
        sizes = sizes_below(one, but=others)
        names = _names(one) or (() if one == folder else (one.name,))
        yield Occupied(str(one), "on Spark", names, sorted_by(sizes, partial(_what, one), _ORDER))


def _names(folder: Path) -> tuple[str, ...]:
    """Of the queries that run as one."""
    with suppress(OSError, SetupError):
        notes = CheckpointNotes(SparkPlace(None, str(folder), is_here=True), FILES)
        return tuple(notes.get("together", {}).get("queries", ()))
    return ()


def _what(folder: Path, path: Path) -> str:
    inside = path.relative_to(folder)
    if path.name.endswith(".tmp") or path.name.endswith(".tmp.crc"):
        return LEFT
    if inside.parts[0] == STATE_FOLDER:
        return _CHANGES if ".changelog" in path.name else STATE
    return NOTES if inside.parts[0].lstrip(".").startswith("watersmeet") else LOGS
