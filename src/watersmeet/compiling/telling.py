"""Telling that kernels are compiled: a query that waits for it says nothing else for seconds."""

from __future__ import annotations

import atexit
import threading
import time
from contextlib import ExitStack
from typing import Any

from watersmeet.noticing import phase

ABOUT_S = 20.0
# One kernel follows another; to whoever waits they are one thing, which ends when none has followed for so long.
LINGER_S = 0.5


class Watch:
    """Knows from Numba when the compiling of a kernel begins and ends. Numba compiles one at a time; one that is called
    by another is compiled within it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._depth = 0
        self._began_s = self._spent_s = 0.0
        self._shown: ExitStack | None = None
        self._closing: threading.Timer | None = None
        self._because: str | None = None
        self._listens = False

    def listen(self, because: str | None) -> None:
        """From now on there is something to tell. `because`: why kernels that came along do not serve, if any did."""
        self._because = because
        if not self._listens:
            self._listens = True
            from numba.core import event  # only who compiles has it

            event.Listener.register(Watch)
            event.register("numba:compile", self)
            atexit.register(self._close)

    def notify(self, event: Any) -> None:
        if event.is_start:
            self.on_start(event)
        else:
            self.on_end(event)

    def on_start(self, event: Any) -> None:
        with self._lock:
            self._depth += 1
            if self._depth > 1:
                return
            self._began_s = time.monotonic()
            if self._closing is not None:
                self._closing.cancel()
                self._closing = None
            if self._shown is None:
                words = f"compiling kernels, as {self._because}" if self._because else "compiling kernels"
                since_s = self._began_s - self._spent_s  # the clock goes on where it stood
                self._shown = ExitStack()
                self._shown.enter_context(phase(words, first_time=True, about_s=ABOUT_S, since_s=since_s))

    def on_end(self, event: Any) -> None:
        with self._lock:
            self._depth -= 1
            if self._depth:
                return
            self._spent_s += time.monotonic() - self._began_s
            self._closing = threading.Timer(LINGER_S, self._close)
            self._closing.daemon = True
            self._closing.start()

    @property
    def spent_s(self) -> float:
        """Seconds of compiling until now."""
        with self._lock:
            return self._spent_s + (time.monotonic() - self._began_s if self._depth else 0.0)

    def _close(self) -> None:
        with self._lock:
            if self._shown is not None and not self._depth:
                self._shown.close()
                self._shown = self._closing = None


_watch = Watch()


def compiling(because: str | None) -> None:
    """A kernel was not found anywhere, so Numba will compile it."""
    _watch.listen(because)


def working_seconds() -> float:
    """A clock that stands while kernels are compiled: for who has so many seconds for work."""
    return time.monotonic() - _watch.spent_s
