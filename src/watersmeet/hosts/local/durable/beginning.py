"""With what a run begins that goes on from a savepoint, and how its checkpoint knows."""

from __future__ import annotations

from typing import Any

from watersmeet.dataclass import dataclass
from watersmeet.errors import RunError
from watersmeet.hosts.local.durable.notes import RunNotes
from watersmeet.hosts.local.durable.place import Place
from watersmeet.runtime.run_settings import RunSettings
from watersmeet.runtime.savepoints.contents import QueryContents
from watersmeet.runtime.savepoints.folder import Savepoint, is_savepoint

NOTE = "begun_with"  # what a checkpoint notes of the savepoint that its run began with


def has_saved(place: Place) -> bool:
    """Whether the run of a checkpoint has written down anything."""
    return bool(place.names("snapshot-*.json") or place.names("journal-*.log"))


@dataclass(frozen=True)
class Beginning:
    """What a run begins with. `mark`: which savepoint it is. `afresh`: its sinks are those of a new run."""

    contents: QueryContents
    mark: str
    afresh: bool = False

    def enter(self, notes: RunNotes, begun: bool) -> bool:
        """Note it in a checkpoint that is new; whether it is still to be loaded. begun: whether the run has saved
        something."""
        noted: dict[str, Any] | None = notes.get(NOTE)
        if noted is None and begun:
            raise RunError(
                "the checkpoint has a run already, which did not begin with this savepoint",
                hint="begin with a new checkpoint; to go on with this one, leave the savepoint out",
            )
        if noted is not None and noted["mark"] != self.mark:
            raise RunError(
                "the run of this checkpoint began with another savepoint",
                hint="begin with a new checkpoint; to go on with this one, leave the savepoint out",
            )
        notes.note(**{NOTE: {"mark": self.mark, "afresh": self.afresh}})
        return not begun


def beginning_of(settings: RunSettings, name: str, place: Place) -> Beginning | None:
    """With what a query begins, by its name; None also if it has begun, and the savepoint was removed since. place: of
    its checkpoint."""
    if settings.savepoint is None:
        return None
    if has_saved(place) and RunNotes(place).get(NOTE) is not None and not is_savepoint(settings.savepoint):
        return None
    found = Savepoint(settings.savepoint)
    return Beginning(found.query(name), found.mark, settings.afresh)
