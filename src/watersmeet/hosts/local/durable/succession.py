"""What a checkpoint notes of a query that takes the place of another: whose, and from which of its batches on."""

from __future__ import annotations

from watersmeet.dataclass import dataclass
from watersmeet.hosts.local.durable.notes import RunNotes

NOTE = "succession"


@dataclass(frozen=True)
class Succession:
    """`folder`: of the checkpoint whose place it takes, "" for the one that holds the others. `stands_for`: the folder
    that its query would have by its name. `at`: the last of its own batches that the other one has answered; None until
    it has taken the place, in which one write of this note is all that there is between before and after."""

    folder: str
    stands_for: str
    at: int | None = None

    def enter(self, notes: RunNotes) -> None:
        notes.note(**{NOTE: [self.folder, self.stands_for, self.at]})


def succession_in(notes: RunNotes) -> Succession | None:
    """None of a query that takes nobody's place."""
    noted = notes.get(NOTE)
    return None if noted is None else Succession(*noted)
