"""What is going on, shown on a terminal while it lasts, with a clock; nothing where no one looks.

    starting Spark … 4 s
    compiling kernels (first time only, about 20 s) … 2 s

It stands on stderr only, and only for what takes longer than a moment. A notebook, in which lines cannot change, gets a
plain line.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from typing import TextIO

from watersmeet import noticing
from watersmeet.noticing import Phase
from watersmeet.runtime.screen import Screen, screen_on

SETTING = "WATERSMEET_NOTICES"
MOMENT_S = 0.2  # what is over sooner would only flicker
NOTEBOOK_MOMENT_S = 1.0  # a line there stays
_PART = "phases"


class Notices:
    """Shows the phases of this process on the stderr that it has when they begin to last."""

    def __init__(self, err: Callable[[], TextIO] = lambda: sys.stderr, *, redirect: bool = False) -> None:
        self._err = err
        self._redirect = redirect
        self._going_on: tuple[Phase, ...] = ()
        self._waiting: threading.Timer | None = None
        self._screen: Screen | None = None
        self._lock = threading.Lock()

    def begin(self, phase: Phase) -> None:
        err = self._err()
        moment = MOMENT_S if _is_terminal(err) else NOTEBOOK_MOMENT_S if _is_notebook(err) else None
        if moment is None:
            return
        with self._lock:
            self._going_on += (phase,)
            if self._waiting is None and self._screen is None:
                self._waiting = threading.Timer(moment, self._show, (err,))
                self._waiting.daemon = True
                self._waiting.start()

    def end(self, phase: Phase) -> None:
        with self._lock:
            self._going_on = tuple(one for one in self._going_on if one is not phase)
            if self._going_on:
                return
            if self._waiting is not None:
                self._waiting.cancel()
            self._waiting, screen, self._screen = None, self._screen, None
            if screen is not None:
                screen.clear(_PART)

    def _show(self, err: TextIO) -> None:
        with self._lock:
            if self._waiting is None:
                return
            self._waiting = None
            if _is_notebook(err):
                err.write(f"watersmeet: {self._going_on[-1]}\n")
                return
            self._screen = screen_on(err, redirect=self._redirect)
            self._screen.show(_PART, self._lines)

    def _lines(self) -> str:
        now = time.monotonic()
        # Where a phase contains another of the same words, the clock of the outer one counts.
        since: dict[str, float] = {}
        for phase in self._going_on:
            since.setdefault(str(phase), phase.started)
        return "\n".join(f"{what} …{_clock(now - started)}" for what, started in since.items())


def notices(on: bool = True) -> None:
    """Show what is going on while one waits, such as the compiling of kernels, or never.

    By default it is shown while `sys.stderr` is a terminal, or as a plain line in a notebook. WATERSMEET_NOTICES=off in
    the environment says the same as `notices(False)`.

    >>> import watersmeet as wm
    >>> wm.notices(False)
    """
    decide(Notices() if on else None)


def decide(listener: noticing.Listener | None) -> None:
    """Who hears of phases from now on, whatever sessions would do by default."""
    global _decided
    _decided = True
    noticing.listen(listener)


def notices_by_default() -> None:
    """What a session starts with: shown, unless the environment or somebody before has decided otherwise."""
    if not _decided and not is_off() and not noticing.is_heard():
        noticing.listen(Notices())


_decided = False


def is_off() -> bool:
    return os.environ.get(SETTING, "").lower() in ("off", "0", "false", "no")


def _is_terminal(out: TextIO) -> bool:
    try:
        return out.isatty()
    except (AttributeError, ValueError):  # none at all, as in a process without a console, or closed
        return False


def _is_notebook(out: TextIO) -> bool:
    return type(out).__module__.startswith("ipykernel")


def _clock(seconds: float) -> str:
    """
    >>> _clock(0.4), _clock(4.2), _clock(65)
    ('', ' 4 s', ' 1:05 min')
    """
    whole = int(seconds)
    return "" if whole == 0 else f" {whole} s" if whole < 60 else f" {whole // 60}:{whole % 60:02d} min"
