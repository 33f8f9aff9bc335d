"""What takes longer than a moment, said where it happens and shown where somebody looks.

Whatever makes a user wait says so with `phase`. It knows no screen: a listener, if there is one, shows it, and the log
has how long it took. In Spark's workers, and wherever nobody listens, a phase costs next to nothing.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field
from typing import Protocol

from watersmeet.dataclass import dataclass

_log = logging.getLogger("watersmeet.phases")


@dataclass(frozen=True, eq=False)
class Phase:
    """One thing that is going on. `first_time`: it is kept, so that the next start is spared it; `about_s`: how long it
    takes as a rule, where that is known."""

    what: str
    first_time: bool = False
    about_s: float | None = None
    started: float = field(default_factory=time.monotonic)

    def __str__(self) -> str:
        """
        >>> str(Phase("compiling kernels", first_time=True, about_s=20)), str(Phase("starting Spark"))
        ('compiling kernels (first time only, about 20 s)', 'starting Spark')
        """
        notes = ["first time only"] if self.first_time else []
        notes += [] if self.about_s is None else [f"about {self.about_s:.0f} s"]
        return f"{self.what} ({', '.join(notes)})" if notes else self.what


class Listener(Protocol):
    """Is told in the thread that does the work, so it must be quick; phases of several threads may overlap."""

    def begin(self, phase: Phase) -> None: ...

    def end(self, phase: Phase) -> None: ...


_listener: Listener | None = None


def listen(listener: Listener | None) -> Listener | None:
    """Let a listener be told of all phases of this process from now on, or nobody; the one before is given back."""
    global _listener
    before, _listener = _listener, listener
    return before


def is_heard() -> bool:
    return _listener is not None


@contextmanager
def unheard() -> Iterator[None]:
    """While something else that changes in place, such as a bar, has the terminal."""
    before = listen(None)
    try:
        yield
    finally:
        listen(before)


@contextmanager
def phase(
    what: str, *, first_time: bool = False, about_s: float | None = None, since_s: float | None = None
) -> Iterator[Phase]:
    """Say what is going on inside the block, in a few lowercase words. `since_s`: when it began, on the monotonic
    clock, if that was before.

    >>> class Printing:
    ...     def begin(self, phase: Phase) -> None:
    ...         print(phase)
    ...     def end(self, phase: Phase) -> None:
    ...         print("done")
    >>> before = listen(Printing())
    >>> with phase("starting Spark"):
    ...     pass
    starting Spark
    done
    >>> _ = listen(before)
    """
    started = time.monotonic() if since_s is None else since_s
    one, listener = Phase(what, first_time, about_s, started), _listener
    if listener is not None:
        listener.begin(one)
    try:
        yield one
    finally:
        # The listener that heard of the beginning hears of the end, whoever listens by then.
        if listener is not None:
            listener.end(one)
        _log.info("%s: %.2f s", what, time.monotonic() - one.started)
