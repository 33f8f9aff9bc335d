"""Rows that are left out of an answer, or do not count as others do: what both hosts say of them.

Whatever runs a query fills the table of metrics; the sentences are made of that, and of what a stream declares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from watersmeet.dataclass import dataclass
from watersmeet.errors import DataError
from watersmeet.model.catalog import Stream
from watersmeet.model.time import format_instant, format_interval
from watersmeet.model.wording import counted
from watersmeet.runtime.metrics import Metrics
from watersmeet.runtime.wall_clock import SystemClock, WallClock
from watersmeet.warning import DataWarning, WatersmeetWarning

# A row so far ahead of the clock is no clock that is a little fast.
FAR_AHEAD_US = 60_000_000

Tell = Callable[[Warning], None]


def named(tell: Tell, query: str) -> Tell:
    """Says which query a warning is of, where there are several."""

    def tell_of(warning: Warning) -> None:
        if isinstance(warning, WatersmeetWarning):
            warning = type(warning)(warning.code, f"{query}: {warning.message}")
        tell(warning)

    return tell_of


@dataclass(frozen=True)
class LeftOut:
    """One reason: the code of its warning, the rows by stream, and the sentence."""

    code: str
    rows: Callable[[Metrics], Mapping[str, int]]
    sentence: Callable[[Stream, Metrics, int], str]


class LeftOutWarnings:
    """Warns of such rows, of all streams of a run: at its end, and if it may go on for ever also the first time and
    whenever there are twice as many."""

    def __init__(self, streams: Iterable[Stream], tell: Tell, wall: WallClock | None = None) -> None:
        self._streams = {one.name: one for one in streams}
        self._tell, self._wall = tell, wall or SystemClock()
        self._warned: dict[tuple[str, str], int] = {}

    def look(self, metrics: Metrics, *, at_end: bool, query: str = "") -> None:
        """query: its name, where several run side by side."""
        for one in LEFT_OUT:
            for name, rows in one.rows(metrics).items():
                if self.is_due(one.code, name, rows, at_end=at_end):
                    self._warned[one.code, name] = rows
                    sentence = one.sentence(self._streams[name], metrics, self._wall.today_us())
                    self._tell(DataWarning(one.code, f"{query}: {sentence}" if query else sentence))

    def is_due(self, code: str, stream: str, rows: int, *, at_end: bool = False) -> bool:
        warned = self._warned.get((code, stream), 0)
        return rows > warned and (at_end or rows >= 2 * warned)


def late(stream: Stream, metrics: Metrics) -> str:
    """What happened."""
    name, rows = stream.name, metrics.late_by_stream[stream.name]
    how = []
    if name in metrics.late_behind_us:
        behind, newest = interval_up(metrics.late_behind_us[name]), format_instant(metrics.late_newest_us[name])
        how.append(f"up to {behind} behind its newest row, of {newest}")
    if name in metrics.late_promised_us:
        until = format_instant(metrics.late_promised_us[name])
        how.append(f"although it was said that none comes before {until} any more")
    if name in metrics.late_after_silence_us:
        behind = interval_up(metrics.late_after_silence_us[name])
        silence = f"after a silence, up to {behind} behind the other streams"
        how.append(silence if _may_be_silent(stream) else f"up to {behind} behind what a flush has answered")
    return f"{_rows_of(stream, rows)} came too late and {_are(rows)} left out of the answer: {'; '.join(how)}"


def in_time(stream: Stream, metrics: Metrics, today_us: int) -> str:
    """What to set so that late rows are kept."""
    name, ways = stream.name, []
    if name in metrics.late_behind_us:
        newest_us = metrics.late_newest_us[name]
        if newest_us > today_us + FAR_AHEAD_US:
            ways.append(
                f"the row of {format_instant(newest_us)} lies in the future: max_future='1 hour' keeps such rows from "
                "moving time"
            )
        else:
            ways.append(f"set lateness='{interval_up(metrics.late_behind_us[name])}' or more")
            if getattr(stream.source, "at_hand", False) and not stream.arrival.in_time_order:
                ways.append("or leave out read='arrival', so that the rows are read in time order")
    if name in metrics.late_promised_us:
        ways.append("call advance() with a time that all later rows keep to")
    if name in metrics.late_after_silence_us:
        waiting = "set a longer idle, or none, to wait for a stream that is silent"
        ways.append(waiting if _may_be_silent(stream) else "flush only when no rows of before are to come")
    return ", ".join(ways)


def late_error(stream: Stream, rows: int, lateness: Mapping[str, int], today_us: int) -> DataError:
    """What ends a run whose stream says on_late = 'error'. lateness: how late they are, by the names of metrics."""
    metrics = Metrics(late_by_stream={stream.name: rows})
    metrics.set({name: {stream.name: value} for name, value in lateness.items()})
    return DataError(late(stream, metrics), hint=in_time(stream, metrics, today_us))


def _late_and_way_out(stream: Stream, metrics: Metrics, today_us: int) -> str:
    return f"{late(stream, metrics)}; {in_time(stream, metrics, today_us)}"


def _skipped(stream: Stream, metrics: Metrics, today_us: int) -> str:
    rows = metrics.skipped_by_stream[stream.name]
    have = "has no event time and was" if rows == 1 else "have no event time and were"
    return (
        f"{_rows_of(stream, rows)} {have} left out of the answer: {stream.time} is NULL there, and on_null = 'skip' "
        "was said"
    )


def _ahead(stream: Stream, metrics: Metrics, today_us: int) -> str:
    rows, max_future_us = metrics.future_rows[stream.name], stream.arrival.max_future_us
    assert max_future_us is not None
    lie, are = ("lies", "it is") if rows == 1 else ("lie", "they are")
    further = f"further ahead of the clock than max_future = '{format_interval(max_future_us)}'"
    return f"{_rows_of(stream, rows)} {lie} {further}: {are} in the answer, but moved no watermark"


def _bad(stream: Stream, metrics: Metrics, today_us: int) -> str:
    records, mine = metrics.bad_by_stream[stream.name], f"{stream.name}: "
    by_reason = {name.removeprefix(mine): rows for name, rows in metrics.bad_by_reason.items() if name.startswith(mine)}
    why = ", ".join(f"{rows:,} {reason}" for reason, rows in by_reason.items())
    kept = "" if stream.bad_to is None else f", and {'goes' if records == 1 else 'go'} to sink {stream.bad_to.name!r}"
    first = f"; the first is {metrics.first_bad[stream.name]}" if stream.name in metrics.first_bad else ""
    said = f"{counted(records, 'record')} of stream {stream.name!r} cannot be read and {_are(records)} left out"
    return f"{said} of the answer{kept}: {why}{first}"


def _handed_over(stream: Stream, metrics: Metrics, today_us: int) -> str:
    rows = metrics.left_out_by_stream[stream.name]
    lie, they = ("lies", "it comes") if rows == 1 else ("lie", "they come")
    return (
        f"{_rows_of(stream, rows)} {lie} on the other side of its handover and {_are(rows)} left out: there {they} once"
    )


LEFT_OUT = (
    LeftOut("skipped_rows", lambda metrics: metrics.skipped_by_stream, _skipped),
    LeftOut("late_rows", lambda metrics: metrics.late_by_stream, _late_and_way_out),
    LeftOut("future_rows", lambda metrics: metrics.future_rows, _ahead),
    LeftOut("bad_rows", lambda metrics: metrics.bad_by_stream, _bad),
    LeftOut("handed_over_rows", lambda metrics: metrics.left_out_by_stream, _handed_over),
)


def _may_be_silent(stream: Stream) -> bool:
    """Time goes on without a stream only if that says idle, or if all that waits is to be answered."""
    return stream.arrival.idle_us is not None


def _rows_of(stream: Stream, rows: int) -> str:
    return f"{counted(rows, 'row')} of stream {stream.name!r}"


def _are(rows: int) -> str:
    return "is" if rows == 1 else "are"


def interval_up(us: int) -> str:
    """An interval in a few words, rounded up, so that it is enough.

    >>> interval_up(1_500), interval_up(12_345_678), interval_up(100_000_000_001)
    ('1 ms 500 µs', '13 s', '1 d 3 h 47 min')
    """
    for unit_us in (60_000_000, 1_000_000, 1_000):
        if us >= 1_000 * unit_us or (unit_us == 1_000_000 and us >= 10 * unit_us):
            return format_interval(-(-us // unit_us) * unit_us)
    return format_interval(us)
