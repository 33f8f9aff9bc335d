"""The lines at the bottom of a terminal that change in place, and are gone at the end.

All of a terminal share one: what is going on, and how far a run has come, would otherwise overwrite each other.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from rich.live import Live
    from rich.text import Text

REFRESHES_PER_SECOND = 5
Lines = Callable[[], str]


class Screen:
    """Parts are drawn in the order they came, each with what its function says at that moment."""

    def __init__(self, out: TextIO, *, redirect: bool = False) -> None:
        """redirect: what is printed meanwhile goes above the lines. A library leaves sys.stderr as it is."""
        self._out = out
        self.redirect = redirect
        self._parts: dict[str, Lines] = {}
        self._live: Live | None = None
        self._lock = threading.Lock()

    def show(self, part: str, lines: Lines) -> None:
        with self._lock:
            # A new dictionary, as the thread that draws reads the old one without the lock, which would block it.
            self._parts = {**self._parts, part: lines}
            if self._live is None:
                self._live = self._made()
                self._live.start()

    def clear(self, part: str) -> None:
        with self._lock:
            self._parts = {name: lines for name, lines in self._parts.items() if name != part}
            if self._live is not None and not self._parts:
                live, self._live = self._live, None
                live.stop()

    def refresh(self) -> None:
        live = self._live
        if live is not None:
            live.refresh()

    def _made(self) -> Live:
        from rich.console import Console
        from rich.live import Live

        return Live(
            console=Console(file=self._out),
            get_renderable=self._text,
            refresh_per_second=REFRESHES_PER_SECOND,
            transient=True,
            # Where stdout is a file, what is printed must go there and not to the console of the lines.
            redirect_stdout=self.redirect and sys.stdout.isatty(),
            redirect_stderr=self.redirect,
        )

    def _text(self) -> Text:
        from rich.text import Text

        texts = [lines() for lines in self._parts.values()]
        return Text("\n".join(text for text in texts if text))


_screens: WeakKeyDictionary[TextIO, Screen] = WeakKeyDictionary()


def screen_on(out: TextIO, *, redirect: bool = False) -> Screen:
    """The screen of a terminal."""
    out = getattr(out, "rich_proxied_file", out)  # what stands in for sys.stderr while a screen is there
    screen = _screens.setdefault(out, Screen(out))
    screen.redirect = screen.redirect or redirect
    return screen
