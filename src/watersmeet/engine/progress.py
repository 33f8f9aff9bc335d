"""How a run is doing: a live line on a terminal, a plain line every few seconds elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Protocol, Self, TextIO

from watersmeet.engine.metrics import Metrics
from watersmeet.model.time import format_instant

LINE_SECONDS = 5.0
LIVE_SECONDS = 0.2
Clock = Callable[[], float]


class Progress(Protocol):
    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def update(self, metrics: Metrics) -> None: ...


def progress_on(out: TextIO, *, live: bool) -> Progress:
    return LiveProgress(out) if live and out.isatty() else LineProgress(out)


def describe(metrics: Metrics, seconds: float) -> str:
    """The state of a run in one line."""
    rate = metrics.rows_in / seconds if seconds > 0 else 0.0
    late = f" ({metrics.late_rows:,} late)" if metrics.late_rows else ""
    return (
        f"{metrics.rows_in:,} rows in{late}, {metrics.results:,} results, {rate:,.0f} rows/s, "
        f"watermark {format_instant(metrics.watermark_us)}, {metrics.window_rows:,} rows in windows"
    )


class LineProgress:
    """A line now and then, for logs. A run that is over before the first is due prints nothing."""

    def __init__(self, out: TextIO, clock: Clock = time.monotonic) -> None:
        self._out = out
        self._clock = clock
        self._started = self._next = 0.0

    def __enter__(self) -> Self:
        self._started = self._clock()
        self._next = self._started + LINE_SECONDS
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def update(self, metrics: Metrics) -> None:
        now = self._clock()
        if now < self._next:
            return
        self._next = now + LINE_SECONDS
        self._out.write(describe(metrics, now - self._started) + "\n")
        self._out.flush()


class LiveProgress:
    """One line that changes in place and is gone at the end."""

    def __init__(self, out: TextIO, clock: Clock = time.monotonic) -> None:
        from rich.console import Console
        from rich.live import Live

        self._live = Live(console=Console(file=out), auto_refresh=False, transient=True)
        self._clock = clock
        self._started = self._next = 0.0

    def __enter__(self) -> Self:
        self._started = self._clock()
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def update(self, metrics: Metrics) -> None:
        from rich.text import Text

        now = self._clock()
        if now < self._next:
            return
        self._next = now + LIVE_SECONDS
        self._live.update(Text(describe(metrics, now - self._started)), refresh=True)


class NoProgress:
    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def update(self, metrics: Metrics) -> None:
        return None
