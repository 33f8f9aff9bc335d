"""The files of a durable run: the batches that came, the states of its operators, and how far both are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from watersmeet.errors import RunError
from watersmeet.hosts.local.durable.folder import CheckpointFolder
from watersmeet.hosts.local.durable.journal import Journal
from watersmeet.hosts.local.durable.place import Place
from watersmeet.hosts.local.durable.reached import Reached
from watersmeet.hosts.local.durable.snapshots import Committed, Snapshot, Snapshots, snapshot_name
from watersmeet.io.too_many_files import tried_again
from watersmeet.plan.nodes import Plan
from watersmeet.runtime.left_out import Tell
from watersmeet.warning import StateWarning


class Checkpoint:
    def __init__(self, place: Place, plan: Plan, *, sync: bool) -> None:
        self._folder = CheckpointFolder(place, plan)
        try:
            self.place, self.notes, self.run = place, self._folder.notes, self._folder.identity.run
            self.pipeline = self._folder.identity.pipeline
            self.reached = Reached(place, self.run, has_begun=self._folder.has_begun)
            self.journal = Journal(place, self.run, sync=sync, reached=self.reached)
            self._snapshots = Snapshots(place, self.run)
        except BaseException:
            self._folder.close()
            raise

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
