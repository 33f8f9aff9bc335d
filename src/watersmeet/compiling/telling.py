"""Telling that kernels are compiled: a query that waits for it says nothing else for seconds."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TextIO

from numba.core import event

# What is over sooner is not worth a word.
FIRST_WORD_S = 0.5
CLOCK_S = 1.0


@dataclass(frozen=True)
class Compiling:
    """How the compiling of kernels goes in this process.

    kernels: how many are done; seconds: how long it took until now; ended: whether none is being compiled any more;
    because: why those that came with the package do not serve, if there were any.
    """

    kernels: int
    seconds: float
    ended: bool
    because: str | None = None


Listener = Callable[[Compiling], None]


def listen(listener: Listener | None) -> Listener | None:
    """Be told when kernels are compiled: after half a second, then every second, and in the end. None: nobody is told.

    By default a line is shown on a terminal. Returns who listened until now. It is called in a thread of its own, and
    in the end in that of the query.

    >>> before = listen(lambda now: print(f"{now.kernels} kernels in {now.seconds:.0f} s"))
    >>> _ = listen(before)
    """
    before = _watch.listener
    _watch.listener = listener
    return before


class Watch:
    """Knows from Numba when the compiling of a kernel begins and ends. Numba compiles one at a time; one that is called
    by another is compiled within it."""

    def __init__(self) -> None:
        self.listener: Listener | None = show_on_terminal
        self.because: str | None = None
        self._listens = False
        self._depth = 0
        self._kernels = 0
        self._seconds = 0.0
        self._began = 0.0
        self._done = threading.Event()
        self._told = False

    def begin(self) -> None:
        """From now on there is something to tell."""
        if not self._listens:
            self._listens = True
            event.register("numba:compile", _Events(self))

    def started(self) -> None:
        self._depth += 1
        if self._depth == 1:
            self._began = time.perf_counter()
            self._done = threading.Event()
            threading.Thread(target=self._tick, args=(self._done,), name="watersmeet-compiling", daemon=True).start()

    def ended(self) -> None:
        self._depth -= 1
        self._kernels += 1
        if self._depth == 0:
            self._done.set()
            self._seconds += time.perf_counter() - self._began
            if self._told:
                self._tell(Compiling(self._kernels, self._seconds, True, self.because))

    def spent(self) -> float:
        """Seconds of compiling until now."""
        return self._seconds + (time.perf_counter() - self._began if self._depth else 0.0)

    def _tick(self, done: threading.Event) -> None:
        wait = max(0.0, FIRST_WORD_S - self._seconds)
        while not done.wait(wait):
            self._told = True
            self._tell(Compiling(self._kernels, self.spent(), False, self.because))
            wait = CLOCK_S

    def _tell(self, now: Compiling) -> None:
        if self.listener is not None:
            self.listener(now)


class _Events(event.Listener):  # type: ignore[misc]  # its types count as Any
    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def on_start(self, event: Any) -> None:
        self._watch.started()

    def on_end(self, event: Any) -> None:
        self._watch.ended()


class TerminalLine:
    """One line that stays, and below it a clock that goes when the compiling is over. Nothing if nobody looks."""

    def __init__(self) -> None:
        self._said = False
        self._lock = threading.Lock()

    def __call__(self, now: Compiling) -> None:
        with self._lock, suppress(ValueError, OSError):  # a terminal may be closed meanwhile
            self._show(now, sys.stderr)

    def _show(self, now: Compiling, screen: TextIO | None) -> None:
        if screen is not None and screen.isatty():
            if not self._said:
                self._said = True
                screen.write("compiling kernels, first time only, about 20 s\n")
                if now.because:
                    screen.write(f"({now.because})\n")
            clock = "" if now.ended else f"{now.seconds:.0f} s, {now.kernels} compiled"
            screen.write(f"\r\x1b[K{clock}")
            screen.flush()


show_on_terminal = TerminalLine()
_watch = Watch()


def compiling(because: str | None) -> None:
    """A kernel was not found anywhere, so Numba will compile it."""
    _watch.because = because
    _watch.begin()


def working_seconds() -> float:
    """A clock that stands still while kernels are compiled, for what has only so much time to work."""
    return time.perf_counter() - _watch.spent()
