"""Saves the state of a durable run now and then: copied between two batches, and written beside those that follow.

It counts when the sinks have all answers up to it; then the journal before the state before it is forgotten.
"""

from __future__ import annotations

from concurrent.futures import Future
from time import monotonic

from watersmeet.hosts.local.durable.background import Background
from watersmeet.hosts.local.durable.copies import Copies
from watersmeet.hosts.local.durable.run_parts import RunParts
from watersmeet.hosts.local.durable.snapshots import Snapshot
from watersmeet.operators.saving import Saved, state_of

_LOOK_S = 0.005  # how soon to look again whether there is memory for a copy


class Saver:
    def __init__(self, parts: RunParts) -> None:
        self._parts, self._answering, self._progress = parts, parts.answering, parts.progress
        self._every_s = parts.settings.save_every_s
        self._saved_s = monotonic()
        self._copies = Copies()
        self._fetching = False  # memory for the next copy, before it is made
        self._saving: Future[None] | None = None
        self._thread = Background("watersmeet saves")
        self.longest_pause_s = 0.0

    def due_in_s(self) -> float | None:
        """When `save_if_due` will have something to do; None while nothing has changed."""
        if self._progress.number <= self._progress.saved:
            return None
        return max(self._saved_s + self._every_s - monotonic(), _LOOK_S if self._fetching else 0.0)

    def begin(self) -> None:
        self._saved_s = monotonic()

    def save_if_due(self) -> None:
        if monotonic() >= self._saved_s + self._every_s and not self._is_fetching():
            self.save()
            self._saved_s = monotonic()

    def save(self, *, wait: bool = False) -> None:
        """Copy the state as it is now; the rest is done beside the next batches."""
        if not self.is_idle(wait=wait) or self._progress.number <= self._progress.saved:
            return
        began_s = monotonic()
        self._fetching = False
        with self._answering.lock:
            state = self._state()
            if not wait:  # else nothing changes any more
                state = self._copies.of(state)
        snapshot = Snapshot(self._progress.number, state, self._notes_now())
        self.longest_pause_s = max(self.longest_pause_s, monotonic() - began_s)
        self._parts.checkpoint.journal.roll()
        self._progress.saved = snapshot.number
        self._saving = self._thread.submit(self._write, snapshot)
        self.is_idle(wait=wait)

    def is_idle(self, *, wait: bool = False) -> bool:
        """Whether all that was begun is done; raises what went wrong."""
        if self._saving is not None and (wait or self._saving.done()):
            self._saving.result()
            self._saving = None
        return self._saving is None

    def close(self) -> None:
        self._thread.shutdown()

    def _state(self) -> Saved:
        return state_of(self._answering.execution, tables=False)

    def _notes_now(self) -> dict[str, object]:
        wall = self._answering.wall
        return {
            "positions": self._parts.readers.positions(),
            "wall": [wall.now, wall.today],
            "pushed": self._parts.notes.as_json(),
            "answered": self._progress.answered,
            "sides": dict(self._parts.outputs.sides.last_with_rows),
            "tables": dict(self._parts.loads.numbers),
        }

    def _is_fetching(self) -> bool:
        """Whether memory for a copy is still to be had. It is fetched beside the next batches, and then copied to."""
        if not self._fetching and self.is_idle() and self._progress.number > self._progress.saved:
            with self._answering.lock:
                lacking = self._copies.lacks(self._state())
            if lacking:
                self._fetching, self._saving = True, self._thread.submit(self._copies.fetch, lacking)
        return self._fetching and not self.is_idle()

    def _write(self, snapshot: Snapshot) -> None:
        self._parts.checkpoint.write_state(snapshot)
        self._parts.outputs.flush(snapshot.number)
        oldest = self._parts.checkpoint.publish_state(snapshot.number)
        if oldest is not None:
            self._parts.loads.forget(oldest["tables"])
