"""A thread that looks at the clock on the wall for a run that nobody calls: its streams may fall silent."""

from __future__ import annotations

import threading
import time
import weakref
from typing import Protocol

# Rows may come while it sleeps, and then the next look is due later, or for the first time.
LONGEST_S, SHORTEST_S = 0.5, 0.002


class Watched(Protocol):
    @property
    def is_open(self) -> bool: ...

    def due_in_s(self) -> float | None: ...

    def tick(self) -> None: ...


def watch_silence(run: Watched) -> None:
    """Call its `tick` when that is due, as long as it is open and somebody has it."""
    threading.Thread(target=_watch, args=[weakref.ref(run)], name="watersmeet watches silence", daemon=True).start()


def _watch(forgettable: weakref.ref[Watched]) -> None:
    while True:
        run = forgettable()
        if run is None or not run.is_open:
            return
        due_s = run.due_in_s()
        if due_s is not None and due_s <= 0:
            try:
                run.tick()
            except BaseException:  # the run keeps it, and raises it where somebody waits
                return
            due_s = run.due_in_s()
        del run
        time.sleep(LONGEST_S if due_s is None else min(max(due_s, SHORTEST_S), LONGEST_S))
