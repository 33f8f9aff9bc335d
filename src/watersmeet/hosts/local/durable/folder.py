"""The folder in which a query keeps what it needs to go on: whose it is, and that nobody else is using it."""

from __future__ import annotations

import sys
from dataclasses import dataclass, fields
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

from watersmeet.errors import RunError
from watersmeet.hosts.local.durable.notes import FILE, RunNotes
from watersmeet.hosts.local.durable.place import Place
from watersmeet.optimizer.choose_pipeline import choose_pipeline
from watersmeet.plan.identity import identity_of, sum_of
from watersmeet.plan.nodes import Plan

_OF_BATCHES = ("journal-*.log", "snapshot-*.json", "blocks-*")
MAY_CHANGE = ("order", "boundary", "timezone", "emit")


@dataclass(frozen=True)
class Identity:
    """Whose folder it is. `run` is new for every checkpoint: sinks tell by it who has written to them."""

    run: str
    query: str
    pipeline: str  # which was chosen at first: state of another does not fit
    options: dict[str, str]  # how the query was asked to run: they decide what its state is, and when answers come


class CheckpointFolder:
    """Held by one process at a time."""

    def __init__(self, place: Place, plan: Plan) -> None:
        self.place, self.notes = place, RunNotes(place)
        self._lock: Any = None
        path = place.folder
        if (path / "metadata").exists() or (path / "offsets").exists():
            raise RunError(
                f"{path} is the checkpoint of a query on Spark, which no run in-process can go on from",
                hint="give another checkpoint, or go on with this one on Spark",
            )
        with place.writing():
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._hold()
        place.hold()
        try:
            self.identity = self._identity(plan)
        except BaseException:
            self.close()
            raise

    def _hold(self) -> None:
        with self.place.writing("lock"):
            self._lock = (self.place.folder / "lock").open("a")
        if sys.platform == "win32":  # where a file that is open cannot be removed, but nothing is locked
            return
        import fcntl

        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            raise RunError(
                f"another run is using the checkpoint {self.place.shown()}",
                hint="stop it first, or give another checkpoint",
            ) from None

    def _identity(self, plan: Plan) -> Identity:
        told, query = self.notes.all(), sum_of(identity_of(plan))
        if not told:
            self._refuse_nameless()
            made = Identity(uuid4().hex[:12], query, choose_pipeline(plan).pipeline, _options_of(plan))
            self.notes.note(**made.__dict__)
            return made
        held = Identity(**{one.name: told[one.name] for one in fields(Identity)})
        if held.query != query:
            raise RunError(
                f"the checkpoint {self.place.shown()} belongs to another query, or to the same one with other columns",
                hint="start the changed query with a new checkpoint, or go back to the query that wrote this one",
            )
        self._check_options(held.options, _options_of(plan))
        return held

    def _refuse_nameless(self) -> None:
        """Batches of a run that has no name any more."""
        if self.has_begun:
            raise self.place.damaged(FILE, "it is not there, and says whose checkpoint this is")

    @property
    def has_begun(self) -> bool:
        """Whether there are batches, or what they left."""
        return any(self.place.names(pattern) for pattern in _OF_BATCHES)

    def _check_options(self, before: dict[str, str], now: dict[str, str]) -> None:
        for name in sorted({*before, *now}):
            if before.get(name) != now.get(name):
                was, is_now = (f"{name} = '{one[name]}'" if name in one else f"no {name}" for one in (before, now))
                raise RunError(
                    f"the checkpoint {self.place.shown()} was written by this query with {was} in OPTIONS, and now it "
                    f"has {is_now}: what is kept would not fit",
                    hint="go back to that, or start anew with a new checkpoint",
                )

    def close(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None
            self.place.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()


def _options_of(plan: Plan) -> dict[str, str]:
    """But for what may change from start to start, and what is part of what a query means."""
    return {name: text for name, text in plan.options.changed().items() if name not in MAY_CHANGE}
