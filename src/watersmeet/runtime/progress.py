"""How a run is doing: a live line on a terminal, a plain line every few seconds elsewhere."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self, TextIO

from watersmeet.model.time import BEGINNING_US, FOREVER_US, format_instant
from watersmeet.model.wording import counted, listed
from watersmeet.runtime.metrics import Metrics
from watersmeet.runtime.screen import screen_on

LINE_SECONDS = 5.0
LIVE_SECONDS = 0.2
STILL_SECONDS = 3.0  # a watermark that has not moved for so long is told of
RATE_SECONDS = 1.0  # rates are told of so long at least, or since the line before, if that was earlier
Clock = Callable[[], float]


class Progress:
    """This one shows nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def update(self, metrics: Metrics) -> None:
        """Show how a run is doing, if it is time to."""

    def update_durable(self, runs: Mapping[str, Metrics], rows_before: Mapping[str, int]) -> None:
        """The same of runs that go on, by name; so many rows of each came in earlier lives."""

    def show(self, text: str) -> None:
        """Show a text, if it is time to."""


def progress_on(out: TextIO, *, live: bool) -> Progress:
    return LiveProgress(out) if live and out.isatty() else LineProgress(out)


def describe(metrics: Metrics, seconds: float, rows_before: int = 0) -> str:
    """What a run did, for its last line. rows_before: those that came in earlier lives, in other seconds."""
    results = counted(metrics.results, "result")
    if metrics.final_rows is not None:
        results = f"a final answer of {counted(metrics.final_rows, 'row')} after {counted(metrics.results, 'change')}"
    return (
        f"{counted(metrics.rows_in, 'row')} in{late(metrics, '{:,}'.format)}, {results}, "
        f"{(metrics.rows_in - rows_before) / seconds if seconds > 0 else 0.0:,.0f} rows/s on average, "
        f"watermark {_to_the_second(metrics.watermark_us)}{held_back(metrics)}{not_whole(metrics)}, "
        f"{counted(metrics.kept_rows, 'row')} kept{losses(metrics)}"
    )


def late(metrics: Metrics, written: Callable[[float], str]) -> str:
    """How many rows were left out because they came too late, have no event time or could not be read, and of which
    streams.

    >>> late(Metrics(late_rows=5, late_by_stream={"a": 3, "b": 2, "c": 0}), short), late(Metrics(), short)
    (' (5 late: 3 of a, 2 of b)', '')
    >>> late(Metrics(late_rows=3, late_by_stream={"a": 3, "b": 0}), short)
    ' (3 late, of a)'
    >>> late(Metrics(late_rows=3, late_by_stream={"a": 3}, skipped_rows=2, skipped_by_stream={"b": 2}), short)
    ' (3 late, of a; 2 without a time, of b)'
    >>> late(Metrics(bad_rows=3, bad_by_reason={"a: not json": 2, "a: wrong type": 1}), short)
    ' (3 bad: 2 of a: not json, 1 of a: wrong type)'
    """
    parts = []
    if metrics.late_rows:
        parts.append(f"{written(metrics.late_rows)} late{_of_streams(metrics.late_by_stream, written)}")
    if metrics.skipped_rows:
        of = _of_streams(metrics.skipped_by_stream, written)
        parts.append(f"{written(metrics.skipped_rows)} without a time{of}")
    if metrics.bad_rows:
        parts.append(f"{written(metrics.bad_rows)} bad{_of_streams(metrics.bad_by_reason, written)}")
    return f" ({'; '.join(parts)})" if parts else ""


def _of_streams(by_stream: Mapping[str, int], written: Callable[[float], str]) -> str:
    some = {name: rows for name, rows in by_stream.items() if rows}
    if len(some) > 1:
        return ": " + ", ".join(f"{written(rows)} of {name}" for name, rows in some.items())
    return ", of " + next(iter(some)) if some else ""


def held_back(metrics: Metrics) -> str:
    """Which stream event time waits for, if it has stood still for some time. A stream whose rows are at hand is not
    waited for: the engine works.

    >>> held_back(Metrics(held_back_by="a", still_for_s=12.3, waits_for_rows=True))
    ' (for 12 s, waiting for a)'
    >>> held_back(Metrics(held_back_by="a", still_for_s=12.3))
    ''
    """
    if not metrics.waits_for_rows or metrics.still_for_s < STILL_SECONDS:
        return ""
    return f" (for {metrics.still_for_s:.0f} s, waiting for {metrics.held_back_by})"


def waiting(metrics: Metrics) -> str:
    """Which rows wait for the watermark, and for how long; empty if none do.

    >>> waiting(Metrics(waiting_by_stream={"b": 30, "a": 1}, waiting_until_us=5_000_000)), waiting(Metrics())
    ('30 rows of b and 1 row of a wait until 1970-01-01 00:00:05', '')
    """
    counts = [(stream, rows) for stream, rows in metrics.waiting_by_stream.items() if rows]
    if not counts or metrics.waiting_until_us is None:
        return ""
    rows = listed([f"{counted(rows, 'row')} of {stream}" for stream, rows in counts])
    verb = "wait" if len(counts) > 1 or counts[0][1] != 1 else "waits"
    return f"{rows} {verb} until {format_instant(metrics.waiting_until_us).removesuffix('.000000')}"


def losses(metrics: Metrics) -> str:
    """What bounded memory cost, if it did.

    >>> losses(Metrics(shed_rows=12_345, results=3, lost_results=1)), losses(Metrics())
    (', 12.3k shed, recall 75.0%', '')
    """
    if not metrics.shed_rows:
        return ""
    recall = "unknown" if metrics.recall is None else f"{metrics.recall:.1%}"
    return f", {short(metrics.shed_rows)} shed, recall {recall}"


def not_whole(metrics: Metrics) -> str:
    """From when on answers will be whole, if time has not come there.

    >>> not_whole(Metrics(whole_from_us=5_000_000)), not_whole(Metrics(whole_from_us=5_000_000, watermark_us=6_000_000))
    (', whole from 1970-01-01 00:00:05 on', '')
    """
    whole_us = metrics.whole_from_us
    if whole_us is None or metrics.watermark_us >= whole_us:
        return ""
    return f", whole from {_to_the_second(whole_us)} on"


def _to_the_second(us: int) -> str:
    return format_instant(us).split(".")[0]


def brief(metrics: Metrics, rate: float, clock: Callable[[int], str] | None = None) -> str:
    """The state of a run in one short line; `clock` writes event times. rate: the rows a second of late."""
    at = (clock or clock_time)(metrics.watermark_us)
    return (
        f"{short(metrics.rows_in)} in{late(metrics, short)}, {short(metrics.results)} out, now {short(rate)} rows/s, "
        f"at {at}{held_back(metrics)}{not_whole(metrics)}, kept {short(metrics.kept_rows)}{losses(metrics)}"
    )


class Pace:
    """How fast rows come of late, not since the start: a run that began slowly, or has come to a halt, shows it.

    >>> pace = Pace(0.0, 0)
    >>> pace.rate(5.0, 50_000), pace.rate(10.0, 50_000)
    (10000.0, 0.0)
    """

    def __init__(self, at_s: float, rows: int) -> None:
        self._shown = deque([(at_s, rows)])

    def rate(self, now_s: float, rows: int) -> float:
        """Rows a second since the last time this was asked, or since RATE_SECONDS ago if that was later."""
        while len(self._shown) > 1 and self._shown[1][0] <= now_s - RATE_SECONDS:
            self._shown.popleft()
        then_s, before = self._shown[0]
        self._shown.append((now_s, rows))
        return (rows - before) / (now_s - then_s) if now_s > then_s else 0.0


def short(number: float) -> str:
    """A count in a few characters.

    >>> short(1234), short(12_345), short(123_456), short(12_345_678)
    ('1,234', '12.3k', '123k', '12.3M')
    """
    for size, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if number >= max(size, 10_000):
            return f"{number / size:.{1 if number < 100 * size else 0}f}{unit}"
    return f"{number:,.0f}"


def clock_time(us: int) -> str:
    """An event time as hours, minutes and seconds.

    >>> clock_time(3_723_999_999)
    '01:02:03'
    """
    return format_instant(us).split(" ")[-1][:8] if BEGINNING_US < us < FOREVER_US else "--:--:--"


class EventClock:
    """Writes event times for one run: the time of day, and from the second day on the date as well.

    >>> clock = EventClock()
    >>> clock(3_723_000_000), clock(90_000_000_000), clock(BEGINNING_US)
    ('01:02:03', '1970-01-02 01:00', '--:--:--')
    """

    def __init__(self) -> None:
        self._day: str | None = None
        self._spans_days = False

    def __call__(self, us: int) -> str:
        if not BEGINNING_US < us < FOREVER_US:
            return clock_time(us)
        written = format_instant(us)
        day = written.split(" ")[0]
        self._day = self._day or day
        # Not only while it differs: a line that has a date now and then is hard to read.
        self._spans_days = self._spans_days or day != self._day
        # Without seconds, which say little in a run of days, the line still fits a terminal.
        return written[:-10] if self._spans_days else clock_time(us)


class TextProgress(Progress):
    """A text now and then."""

    def __init__(self, every_s: float, clock: Clock) -> None:
        self._every_s, self._clock, self._event_clock = every_s, clock, EventClock()
        self._started = self._next = 0.0
        self._paces: dict[str, Pace] = {}

    def __enter__(self) -> Self:
        self._started = self._clock()
        return self

    def update(self, metrics: Metrics) -> None:
        self.update_durable({"": metrics}, {"": 0})

    def update_durable(self, runs: Mapping[str, Metrics], rows_before: Mapping[str, int]) -> None:
        if self._is_due():
            lines = {name: self._line(name, one, rows_before[name]) for name, one in runs.items()}
            several = len(lines) > 1
            self._write("\n".join(f"{name}, {line}" if several else line for name, line in lines.items()))

    def show(self, text: str) -> None:
        if self._is_due():
            self._write(text)

    def _is_due(self) -> bool:
        now_s = self._clock()
        is_due = now_s >= self._next
        if is_due:
            self._next = now_s + self._every_s
        return is_due

    def _line(self, name: str, metrics: Metrics, rows_before: int) -> str:
        pace = self._paces.setdefault(name, Pace(self._started, rows_before))
        return brief(metrics, pace.rate(self._clock(), metrics.rows_in), self._event_clock)

    @abstractmethod
    def _write(self, text: str) -> None: ...


class LineProgress(TextProgress):
    """A line now and then, for logs. A run that is over before the first is due prints nothing."""

    def __init__(self, out: TextIO, clock: Clock = time.monotonic) -> None:
        super().__init__(LINE_SECONDS, clock)
        self._out = out

    def __enter__(self) -> Self:
        self._next = self._clock() + LINE_SECONDS
        return super().__enter__()

    def _write(self, text: str) -> None:
        self._out.write(text + "\n")
        self._out.flush()


class LiveProgress(TextProgress):
    """A text that changes in place and is gone at the end."""

    def __init__(self, out: TextIO, clock: Clock = time.monotonic) -> None:
        super().__init__(LIVE_SECONDS, clock)
        self._screen = screen_on(out, redirect=True)
        self._text = ""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._screen.clear("progress")

    def _write(self, text: str) -> None:
        self._text = text
        # Not before there is something to show: an empty line would stand there.
        self._screen.show("progress", lambda: self._text)
        self._screen.refresh()


class JsonProgress(Progress):
    """Numbers for programs, as events; texts are for people."""

    def __init__(self, query: str, event: Callable[..., None], every_s: float) -> None:
        self._query, self._event, self._every_s = query, event, every_s
        self._started, self._next = time.monotonic(), 0.0

    def update(self, metrics: Metrics) -> None:
        self.update_durable({self._query: metrics}, {})

    def update_durable(self, runs: Mapping[str, Metrics], rows_before: Mapping[str, int]) -> None:
        now = time.monotonic()
        if now >= self._next:
            self._next = now + self._every_s
            for query, metrics in runs.items():
                self._event("progress", query=query, seconds=round(now - self._started, 3), metrics=metrics.as_json())
