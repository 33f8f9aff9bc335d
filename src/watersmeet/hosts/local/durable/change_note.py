"""That a checkpoint is to be of a query that has changed: noted before its state is written, and done once that counts.

The write by which the state counts is the instant. A start that finds it takes the note for what the checkpoint says of
its query; one that does not passes the note over.
"""

from __future__ import annotations

from typing import Any

from watersmeet.hosts.local.durable.notes import RunNotes
from watersmeet.hosts.local.durable.place import Place
from watersmeet.hosts.local.durable.snapshots import snapshot_name

NOTE = "changing"


def note_change(notes: RunNotes, at: int, said: dict[str, Any]) -> None:
    """at: the number of the state with which it is another query. said: what is noted of that one then."""
    notes.note(**{NOTE: {"at": at, "said": said}})


def noted_in(place: Place) -> dict[str, Any]:
    """What a checkpoint notes, after the change that it notes, if that has come."""
    noted = RunNotes(place).all()
    changing = noted.get(NOTE)
    if changing is None:
        return noted
    has_come = bool(place.names(snapshot_name(changing["at"])))
    return {**noted, **(changing["said"] if has_come else {}), NOTE: None}


def settle_change(place: Place, notes: RunNotes) -> None:
    """By whoever holds it."""
    if notes.get(NOTE) is not None:
        notes.note(**noted_in(place))
