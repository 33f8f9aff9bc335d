"""Saves the state of a durable run now and then: copied between two batches, and written beside those that follow.

It counts when the sinks have all answers up to it; then the journal before the state before it is forgotten.

Rows wait while it is copied, so that is done into memory that is there already: a large array is copied ten times
faster into pages that the process has than into new ones, which the system has to clear and hand out one by one. The
memory of the last copy is used again, and where there is too little of it more is fetched beforehand, beside the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from time import monotonic
from typing import Any

import numpy as np
import numpy.typing as npt

from watersmeet.background import Background
from watersmeet.hosts.local.durable.run_parts import RunParts
from watersmeet.hosts.local.durable.snapshots import Snapshot
from watersmeet.operators.saving import Saved, state_of

LARGE = 1 << 20  # bytes; smaller arrays are copied in no time anyway
_LOOK_S = 0.005  # how soon to look again whether there is memory for a copy
_PAGE = 4096
_ROOM = 1.25  # arrays grow between two copies
_MOST_ROOM = 4.0  # what is larger than an array by more than this is given back
Bytes = npt.NDArray[np.uint8]


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
            "pushed": self._parts.taken_pushes.as_json(),
            "answered": self._progress.answered,
            "sides": dict(self._parts.outputs.sides.last_with_rows),
            "tables": dict(self._parts.loads.numbers),
            **({} if (amount := self._answering.execution.memory_amount) is None else {"memory": amount}),
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


class Copies:
    """One copy at a time: the next one is made when nobody reads the last one any more."""

    def __init__(self) -> None:
        self._memory: dict[str, Bytes] = {}

    def lacks(self, state: Saved) -> dict[str, int]:
        """For which arrays there is no memory yet, and how many bytes they have."""
        sizes = _large(state)
        for name in [name for name in self._memory if name not in sizes]:
            del self._memory[name]
        return {name: size for name, size in sizes.items() if not self._suits(name, size)}

    def fetch(self, sizes: Mapping[str, int]) -> None:
        """Have memory at hand for arrays of such sizes. Takes long, so it is for another thread."""
        for name, size in sizes.items():
            self._memory.pop(name, None)
            memory = np.empty(int(_ROOM * size), np.uint8)
            memory[::_PAGE] = 0
            self._memory[name] = memory

    def of(self, state: Saved) -> Saved:
        """The state as it is now: what Arrow holds never changes, arrays are copied."""
        values = {name: self._copied(name, value) for name, value in state.values.items()}
        return Saved(values, state.format, state.version)

    def _copied(self, name: str, value: Any) -> Any:
        if not isinstance(value, np.ndarray):
            return value
        if value.nbytes < LARGE or not self._suits(name, value.nbytes):
            return value.copy()
        copy = self._memory[name][: value.nbytes].view(value.dtype).reshape(value.shape)
        np.copyto(copy, value)
        return copy

    def _suits(self, name: str, size: int) -> bool:
        memory = self._memory.get(name)
        return memory is not None and size <= memory.size <= _MOST_ROOM * size


def _large(state: Saved) -> dict[str, int]:
    arrays = {name: value for name, value in state.values.items() if isinstance(value, np.ndarray)}
    return {name: int(array.nbytes) for name, array in arrays.items() if array.nbytes >= LARGE}
