"""How a command speaks on stderr: in sentences for people, or with --json in objects for programs, one a line."""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from watersmeet.errors import WatersmeetError
from watersmeet.noticing import Phase
from watersmeet.runtime.notices import Notices, decide, is_off
from watersmeet.warning import WatersmeetWarning

if TYPE_CHECKING:
    from watersmeet.runtime.metrics import Metrics
    from watersmeet.runtime.progress import Progress

PROGRESS_SECONDS = 1.0  # in-process; on Spark every batch is told


class Voice(Protocol):
    for_programs: bool  # which want every number

    def tell(self, text: str) -> None: ...

    def remark(self, text: str) -> None:
        """Tell what one may not want to hear of again."""
        ...

    def warn(self, what: Warning | str) -> None: ...

    def fail(self, error: WatersmeetError | str, code: int) -> None: ...

    def progress(self, query: str, *, live: bool) -> Progress: ...

    def batch(self, query: str, total: Metrics, **batch: Any) -> None: ...

    def ended(self, query: str, how: str, total: Metrics, seconds: float, words: str) -> None: ...

    def serving(self, url: str, queries: list[str]) -> None:
        """A server is up at an address."""
        ...

    def viewing(self, url: str, queries: list[str]) -> None:
        """Queries can be looked at, at an address."""
        ...


class Sentences:
    """For people. `quiet`: neither progress nor what is going on, and no last line."""

    for_programs = False

    def __init__(self, *, quiet: bool = False) -> None:
        self.quiet = quiet

    def tell(self, text: str) -> None:
        from watersmeet.model.wording import fitted

        self._write(fitted(text))

    def remark(self, text: str) -> None:
        if not self.quiet:
            self.tell(text)

    def warn(self, what: Warning | str) -> None:
        self.tell(f"warning: {_code_and_text(what)[1]}")

    def fail(self, error: WatersmeetError | str, code: int) -> None:
        # As it is: where it shows a line of SQL, the place in it is underlined.
        self._write(str(error))

    def _write(self, text: str) -> None:
        # In one piece: queries that run side by side may speak at once.
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()

    def progress(self, query: str, *, live: bool) -> Progress:
        from watersmeet.runtime.progress import Progress, progress_on

        return Progress() if self.quiet else progress_on(sys.stderr, live=live)

    def batch(self, query: str, total: Metrics, **batch: Any) -> None:
        """The line of progress shows it."""

    def ended(self, query: str, how: str, total: Metrics, seconds: float, words: str) -> None:
        if how == "stopped" or not self.quiet:
            self.tell(words)

    def serving(self, url: str, queries: list[str]) -> None:
        self._write(f"serving {', '.join(queries)} at {url}")  # as it is: an address must not be cut

    def viewing(self, url: str, queries: list[str]) -> None:
        self._write(f"look at {', '.join(queries)} at {url}")


def _code_and_text(what: Warning | str) -> tuple[str | None, str]:
    return (what.code, what.message) if isinstance(what, WatersmeetWarning) else (None, str(what))


class JsonLines(logging.Handler):
    """For programs: every event is an object on a line of its own; docs/command_line.md says what is in them. It hears
    of phases and of the log as well, so that nothing of ours is written in between."""

    for_programs = True

    def __init__(self, out: TextIO) -> None:
        super().__init__(logging.WARNING)
        self._out = out
        self._writing = threading.Lock()

    def event(self, name: str, **values: Any) -> None:
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = json.dumps({"event": name, "time": now, **values}, ensure_ascii=False, default=str)
        with self._writing:  # phases and warnings may come from other threads
            self._out.write(line + "\n")
            self._out.flush()

    def emit(self, record: logging.LogRecord) -> None:
        self.warn(record.getMessage())

    def begin(self, phase: Phase) -> None:
        self.event("phase", what=phase.what, state="begin")

    def end(self, phase: Phase) -> None:
        self.event("phase", what=phase.what, state="end", seconds=_rounded(time.monotonic() - phase.started))

    def tell(self, text: str) -> None:
        self.event("notice", text=text)

    def remark(self, text: str) -> None:
        self.tell(text)

    def warn(self, what: Warning | str) -> None:
        code, text = _code_and_text(what)
        self.event("warning", code=code, text=text)

    def fail(self, error: WatersmeetError | str, code: int) -> None:
        ours = error if isinstance(error, WatersmeetError) else None
        message, hint = (ours.message, ours.hint) if ours else (str(error), None)
        self.event("error", text=message, hint=hint, shown=str(error), exit_code=code)

    def progress(self, query: str, *, live: bool) -> Progress:
        from watersmeet.runtime.progress import JsonProgress

        return JsonProgress(query, self.event, PROGRESS_SECONDS)

    def batch(self, query: str, total: Metrics, **batch: Any) -> None:
        self.event("progress", query=query, batch=batch, metrics=total.as_json())

    def ended(self, query: str, how: str, total: Metrics, seconds: float, words: str) -> None:
        self.event(how, query=query, seconds=_rounded(seconds), metrics=total.as_json())

    def serving(self, url: str, queries: list[str]) -> None:
        self.event("serving", url=url, queries=queries)

    def viewing(self, url: str, queries: list[str]) -> None:
        self.event("viewing", url=url, queries=queries)


def _rounded(seconds: float) -> float:
    return round(seconds, 3)


_voice: Voice = Sentences()


def voice() -> Voice:
    """The one of this process, which also tells the error that ends it."""
    return _voice


def speak(*, as_json: bool = False, quiet: bool = False) -> Voice:
    """Choose it, at the start of a command."""
    global _voice
    log = logging.getLogger("watersmeet")
    # Whoever calls a command inside a program of their own gets their log back with the next one, or at its end.
    log.handlers = [one for one in log.handlers if not isinstance(one, JsonLines)]
    log.propagate = True
    if not as_json:
        _voice = Sentences(quiet=quiet)
        decide(None if quiet or is_off() else Notices(redirect=True))
        return _voice
    lines = JsonLines(sys.stderr)
    decide(lines)
    log.addHandler(lines)
    log.propagate = False
    _voice = lines
    return lines
