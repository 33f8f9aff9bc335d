"""The checkpoint of a durable run: whose it is, that nobody else is using it, and its files: the batches that came, the
states of its operators, and how far both are."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, TextIO
from uuid import uuid4

from watersmeet.dataclass import dataclass
from watersmeet.errors import RunError
from watersmeet.hosts.local.durable.beginning import NOTE, Beginning, has_saved
from watersmeet.hosts.local.durable.change_note import note_change, settle_change
from watersmeet.hosts.local.durable.journal import Journal
from watersmeet.hosts.local.durable.notes import FILE, RunNotes
from watersmeet.hosts.local.durable.place import Place
from watersmeet.hosts.local.durable.reached import Reached
from watersmeet.hosts.local.durable.snapshots import Committed, Snapshot, Snapshots, snapshot_name
from watersmeet.hosts.local.durable.succession import Succession, succession_in
from watersmeet.io.too_many_files import tried_again
from watersmeet.optimizer.choose_pipeline import choose_pipeline
from watersmeet.plan.identity import identity_of, sum_of
from watersmeet.plan.memory import Memory
from watersmeet.plan.query import Plan
from watersmeet.plan.shared_memory import shares_memory
from watersmeet.runtime.changes import (
    changes,
    from_notes,
    goes_on,
    is_of_streams,
    options_of,
    told,
    verdict_of,
    with_new_columns,
)
from watersmeet.runtime.kept_of_joins import kept_by
from watersmeet.runtime.left_out import Tell
from watersmeet.runtime.rebinding import text_of
from watersmeet.runtime.savepoints.contents import QueryContents
from watersmeet.warning import StateWarning

LOCK = "lock"
_OF_BATCHES = ("journal-*.log", "snapshot-*.json", "blocks-*")


class Checkpoint:
    def __init__(
        self,
        place: Place,
        plan: Plan,
        *,
        sync: bool,
        added: bool = False,
        beginning: Beginning | None = None,
        succession: Succession | None = None,
        changed: QueryContents | None = None,
    ) -> None:
        """added: whether others were there before it, if it is made now. beginning: with what a new run goes on.
        succession: whose place it is to take, if it is made now. changed: what the query before knew, with which this
        one goes on."""
        self._folder = CheckpointFolder(place, plan, added=added, beginning=beginning, changed=changed)
        try:
            self.place, self.notes, self.run = place, self._folder.notes, self._folder.identity.run
            self.identity = self._folder.identity
            self.pipeline, self.begins = self._folder.identity.pipeline, self._folder.begins
            begun_with = self.notes.get(NOTE)
            # Whether another run has filled its sinks before, and if they are to be looked at, which.
            self.adds = begun_with is not None and not begun_with["afresh"]
            if succession is not None:
                succession.enter(self.notes)
            self.succession = succession_in(self.notes)
            if self.has_taken_over:
                self.adds = True
            self.follows = beginning.contents if beginning is not None and self.adds and self.begins else None
            self.reached = Reached(place, self.run, has_begun=self._folder.has_begun)
            self.journal = Journal(place, self.run, sync=sync, reached=self.reached)
            self._snapshots = Snapshots(place, self.run)
        except BaseException:
            self._folder.close()
            raise

    @property
    def reshaped(self) -> set[str]:
        """The streams, by their names in lower case, that have columns that they had not, until that is noted."""
        return self._folder.reshaped

    def note_asked(self, plan: Plan) -> None:
        """No batch of the query as it was has to be repeated any more."""
        if self.reshaped:
            self.notes.note(query=self.identity.query, **_said(plan))

    def go_on_changed(self, plan: Plan, snapshot: Snapshot | None) -> None:
        """From one write on it is of the query as it is now, whatever happens, and begins with this state; those before
        are of the query as it was. snapshot: None if no batch has come yet."""
        said = {"query": self.identity.query, **_said(plan)}
        if snapshot is None:
            self.notes.note(**said)
            return
        note_change(self.notes, snapshot.number, said)
        self._snapshots = Snapshots(self.place, self.run)
        self.write_state(snapshot)
        self.publish_state(snapshot.number)
        settle_change(self.place, self.notes)

    @property
    def has_taken_over(self) -> bool:
        """Also where the one before had not answered any batch."""
        return self.succession is not None and self.succession.at is not None

    @property
    def took_over_at(self) -> int:
        """The last batch that another query has answered, whose place this one has; -1: none."""
        at = None if self.succession is None else self.succession.at
        return -1 if at is None else at

    def take_over(self, at: int) -> None:
        """From the batch after this one on the answers are this query's, whatever happens."""
        assert self.succession is not None
        taken = replace(self.succession, at=at)
        taken.enter(self.notes)
        self.succession, self.adds = taken, True

    def with_first_memory(self, plan: Plan) -> Plan:
        """With the part of a shared memory that the query had at first: what it has later its batches say."""
        memory, said = plan.options.memory, self._folder.identity.options.get("memory")
        if memory is None or memory.whole is None or said is None:
            return plan
        return replace(plan, options=plan.options.but(memory=memory.whole.part(Memory.parse(said).amount)))

    def latest_state(self, tell: Tell) -> Snapshot | None:
        """An older one does as well, if the journal goes back to it: that costs time, and is told."""
        self._snapshots.drop_drafts()
        snapshot = self._snapshots.latest()
        number = -1 if snapshot is None else snapshot.number
        newest, lost = self.reached.saved, list(self._snapshots.damaged)
        if not lost and newest <= number:
            return snapshot
        if not lost:
            lost = [self.place.damaged(snapshot_name(newest), "it is not there")]
        first = self.journal.first
        if not self.reached.is_known or first is None or first > number + 1:
            raise lost[0]
        where = "the beginning" if number < 0 else f"the state of batch {number:,}"
        tell(
            StateWarning(
                "damaged_checkpoint", f"{lost[0].message}; the run goes on from {where}, with all that came since"
            )
        )
        return snapshot

    def check_end(self, written: int, in_sinks: int, tell: Tell) -> None:
        """What was cut off at the end of the journal was never committed; if it was, the disk has lost it since. Nor is
        anything committed that is not in the journal; new batches under numbers that a sink has would be passed
        over."""
        if in_sinks > written:
            what = "is damaged" if self.journal.is_torn else "is older than what was written with it"
            raise RunError(
                f"{self.place.shown()} {what}: the sink has the answers of batches up to {in_sinks:,}, but the journal "
                f"ends with batch {written:,}",
                hint="restore the checkpoint from a copy that is as new as the sink, or start anew with a new one",
            )
        if not self.reached.is_known:
            tell(StateWarning("damaged_checkpoint", f"{self.reached.damage().message}; all is there"))

    def committed(self) -> Committed:
        """What is in the sinks of the run for certain."""
        return self._snapshots.committed()

    def write_state(self, snapshot: Snapshot) -> None:
        tried_again(lambda: self._snapshots.write(snapshot))

    def publish_state(self, number: int) -> Mapping[str, Any] | None:
        """From now on a start goes on from here. Gives what was noted beside the oldest state that is kept, before
        which nothing is needed any more."""
        self.reached.give(number)
        self._snapshots.publish(number)
        self.reached.save(number)
        oldest = self._snapshots.oldest
        if oldest is None:
            return None
        self.journal.forget(oldest.number)
        return oldest.notes

    def note_given(self, number: int) -> None:
        """Behind answers that nobody has taken no state is saved; those before them that were taken are not given
        again all the same."""
        if number > self.reached.given:
            self.reached.give(number)

    def close(self) -> None:
        self.journal.close()
        self.reached.close()

    def release(self) -> None:
        """Others may have it."""
        self._folder.close()


@dataclass(frozen=True)
class Identity:
    """Whose folder it is. `run` is new for every checkpoint: sinks tell by it who has written to them."""

    run: str
    query: str
    pipeline: str  # which was chosen at first: state of another does not fit
    options: dict[str, str]  # how the query was asked to run: they decide what its state is, and when answers come


class CheckpointFolder:
    """Held by one process at a time."""

    def __init__(
        self,
        place: Place,
        plan: Plan,
        *,
        added: bool = False,
        beginning: Beginning | None = None,
        changed: QueryContents | None = None,
    ) -> None:
        self.place, self.notes, self._added = place, RunNotes(place), added
        self.reshaped: set[str] = set()
        self._lock: TextIO | None = None
        path = place.folder
        if (path / "metadata").exists() or (path / "offsets").exists():
            raise RunError(
                f"{path} is the checkpoint of a query on Spark, which no run in-process can go on from",
                hint="give another checkpoint, or go on with this one on Spark",
            )
        with place.writing():
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = held(place)
        place.hold()
        try:
            settle_change(place, self.notes)
            self.identity = self._identity(plan, beginning, changed)
            self.begins = self._begins(beginning)
        except BaseException:
            self.close()
            raise

    def _begins(self, beginning: Beginning | None) -> bool:
        """Whether what a savepoint says is still to be loaded."""
        if beginning is None:
            if self.notes.get(NOTE) is not None and not has_saved(self.place):
                raise RunError(
                    f"the run of {self.place.shown()} was to begin with a savepoint, and did not come to it",
                    hint="name the savepoint once more",
                )
            return False
        if not beginning.enter(self.notes, begun=has_saved(self.place)):
            return False
        for name in self.place.names("blocks-*"):  # of a start that did not come to its first state
            self.place.remove(name)
        return True

    def _identity(self, plan: Plan, beginning: Beginning | None, changed: QueryContents | None) -> Identity:
        noted, query = self.notes.all(), sum_of(identity_of(plan))
        if not noted:
            self._refuse_nameless()
            pipeline = choose_pipeline(plan).pipeline if beginning is None else beginning.contents.pipeline
            made = Identity(uuid4().hex[:12], query, pipeline, options_of(plan))
            self.notes.note(**made.__dict__, **_said(plan), added=self._added)
            return made
        held = Identity(**{one.name: noted[one.name] for one in fields(Identity)})
        if changed is not None and held.query == changed.identity:
            held = replace(held, query=query)
        elif held.query != query:
            self.reshaped = self._streams_with_new_columns(noted, plan)
            held = replace(held, query=query)
        now = options_of(plan)
        if shares_memory(plan) and _unit(held.options) == _unit(now):  # whose parts go by who shares it
            now |= {"memory": held.options["memory"]}
        self._check_options(held.options, now)
        return held

    def _streams_with_new_columns(self, noted: Mapping[str, Any], plan: Plan) -> set[str]:
        """All that has changed of the query; anything else is refused."""
        before = from_notes(noted)
        found = [] if before is None else changes(before, plan)
        if found and goes_on(found) and is_of_streams(found):
            return with_new_columns(found)
        if found and goes_on(found):
            raise RunError(
                f"the checkpoint {self.place.shown()} is of the query as it was, before:\n"
                + "\n".join(f"  {one}" for one in found),
                hint="name the script that was running: --script OLD.sql; or start the changed one, which goes on with "
                "what is kept",
            )
        may_replace = "watersmeet replace has the changed query take the place of this one; or " * (
            bool(found) and verdict_of(found) == "replace"
        )
        raise RunError(
            f"the checkpoint {self.place.shown()} belongs to another query, or to the same one with other columns"
            + (f":\n{told(found)}" if found else ""),
            hint=f"{may_replace}start the changed query with a new checkpoint, or go back to the query that wrote this "
            "one",
        )

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


def _said(plan: Plan) -> dict[str, Any]:
    """What a query asks, for whoever compares another with it; and, where another may go on with what it keeps, what
    that is, and the text of which it is made again to answer what it had begun."""
    kept = kept_by(plan)
    text = None if kept is None else text_of(plan)
    return {"asked": identity_of(plan), "gives": plan.kind, "kept": None if text is None else kept, "text": text}


def held(place: Place) -> TextIO:
    """The lock of a checkpoint, which one process has at a time, until it closes it."""
    with place.writing(LOCK):
        lock = (place.folder / LOCK).open("a")
    if sys.platform == "win32":  # where a file that is open cannot be removed, but nothing is locked
        return lock
    import fcntl

    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise RunError(
            f"another run is using the checkpoint {place.shown()}",
            hint="stop it first, or give another checkpoint",
        ) from None
    return lock


def _unit(options: Mapping[str, str]) -> str:
    """Of the memory: rows or bytes."""
    return options.get("memory", "").rpartition(" ")[2]
