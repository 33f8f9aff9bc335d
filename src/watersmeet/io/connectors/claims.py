"""The newest start of a run owns its sink: whoever opens it claims it, and a commit of an older start is refused.

A checkpoint that was copied has the same run, and both copies count their batches on from the same number: two that
live would pass over or replace what the other has written. So a sink keeps, beside the number of its last batch, who
owns it and who has written that batch. Where and how it does is its own; what is written, compared and said is here.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterable
from dataclasses import asdict, replace
from datetime import UTC, datetime
from uuid import uuid4

from watersmeet.dataclass import dataclass
from watersmeet.errors import SinkError
from watersmeet.io.connectors.contract import Claimed, SinkOpening, Start

TRIES = 20  # to claim a sink while others do
STRANGER = "unknown"  # in the place of a token: no start has it


@dataclass(frozen=True)
class Owner:
    """Who owns a sink: the start that claimed it last, `start` counts them. `written_by`: the token of the start whose
    batch is the last there."""

    start: int
    token: str
    since: str = ""
    place: str = ""
    written_by: str | None = None

    def as_text(self) -> str:
        return json.dumps(asdict(self))


def owner_in(text: str | bytes | None, where: str = "the sink") -> Owner | None:
    """None where nothing is written.

    >>> owner_in('{"start": 2, "token": "0a1b2c3d"}').start, owner_in("") is None
    (2, True)
    """
    # What a crash of the machine has not brought to the disk may be zeros.
    said = text.decode(errors="replace") if isinstance(text, bytes) else text or ""
    if not said.strip("\0 \n"):
        return None
    try:
        return Owner(**json.loads(said))
    except (ValueError, TypeError):
        raise SinkError(
            f"which start owns it cannot be read in {where}: {said[:60]!r}",
            hint="remove that while no run writes there, then start again with the same checkpoint",
        ) from None


def new_start(known: Iterable[str]) -> Start:
    """This process, as one more start of a run."""
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return Start(uuid4().hex[:8], frozenset(known), now, f"process {os.getpid()} on {socket.gethostname()[:60]}")


def known_after(start: Start, sinks: Iterable[Claimed]) -> list[str]:
    """What a checkpoint needs to know from now on of its starts, once this one has opened all its sinks."""
    return sorted({start.token, *(one.written_by for one in sinks if one.written_by)})


class Claim:
    """That of one start on one sink."""

    def __init__(self, name: str, run: str, start: Start | None) -> None:
        self._name, self._run, self._start = name, run, start
        self._number = 0
        self.written_by: str | None = None

    @classmethod
    def of(cls, opening: SinkOpening) -> Claim:
        return cls(opening.name, opening.run, opening.start)

    @property
    def is_made(self) -> bool:
        """Whether there is anything to claim: a run that nobody can start again has no other start."""
        return self._start is not None

    def taking_over(self, found: Owner | None) -> Owner:
        """What a sink shall hold once it is claimed. Raises where it has batches of another copy of the checkpoint:
        under their numbers this one may have others, which would be passed over. The other goes on undisturbed then."""
        assert self._start is not None
        start = self._start
        self.written_by = None if found is None else found.written_by
        if found is not None and self.written_by is not None and self.written_by not in start.known:
            raise SinkError(
                f"sink {self._name!r} has batches of run {self._run} that this checkpoint does not know "
                f"({_owner_text(found)} has claimed it last): it is older than what was written with it, or another "
                "copy of it has written them",
                hint="go on with the checkpoint that wrote them, restore this one from a copy that is as new as the "
                "sink, or start anew with a new one",
            )
        self._number = 1 if found is None else found.start + 1
        return Owner(self._number, start.token, start.since, start.place, self.written_by)

    def check(self, found: Owner | None) -> None:
        """Raises unless the sink is still this start's."""
        assert self._start is not None
        if found is not None and found.token == self._start.token:
            return
        if found is None or found.start < self._number:
            by = "" if found is None else f", which {_owner_text(found)} has claimed"
            raise SinkError(
                f"sink {self._name!r} was put back to an older state{by}",
                hint="bring it back, or start again with the same checkpoint",
            )
        raise SinkError(
            f"sink {self._name!r} is owned by a newer start (run {self._run}, {_owner_text(found)})",
            hint="another copy of this checkpoint runs: let one of them run, and stop the other. What this one has not "
            "committed is in its checkpoint; it owns the sink again when it is started again",
        )

    def committed(self, found: Owner | None) -> Owner | None:
        """What a sink shall hold with a batch of this start, None if it does. Raises unless it is this start's."""
        self.check(found)
        assert found is not None
        return None if found.written_by == found.token else replace(found, written_by=found.token)


def _owner_text(owner: Owner) -> str:
    parts = [f"start {owner.start}", owner.since and f"since {owner.since}", owner.place]
    return ", ".join(part for part in parts if part)
