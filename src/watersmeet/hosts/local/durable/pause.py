"""A moment between two batches, for whoever wants to look at a run as it is then."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition

from watersmeet.errors import RunError

LONGEST_S = 60.0


class Pause:
    def __init__(self) -> None:
        self._changed = Condition()
        self._is_busy = False
        self._holders = 0

    @contextmanager
    def not_now(self) -> Iterator[None]:
        """A batch: it begins when nobody looks."""
        with self._changed:
            while self._holders:
                self._changed.wait()
            self._is_busy = True
        try:
            yield
        finally:
            with self._changed:
                self._is_busy = False
                self._changed.notify_all()

    @contextmanager
    def held(self) -> Iterator[None]:
        """No batch begins until this is left."""
        with self._changed:
            self._holders += 1
        try:
            with self._changed:
                if not self._changed.wait_for(lambda: not self._is_busy, LONGEST_S):
                    raise RunError(
                        f"a query that runs did not end its batch in {LONGEST_S:g} s",
                        hint="take() its answers, if many wait, and try again",
                    )
            yield
        finally:
            with self._changed:
                self._holders -= 1
                self._changed.notify_all()
