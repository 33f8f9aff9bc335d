"""Rows that came too late: how many, how late, what would have kept them; and how that is told."""

from __future__ import annotations

from collections.abc import Callable

from watersmeet.model.catalog import Stream
from watersmeet.model.time import BEGINNING_US, Times, format_instant, format_interval
from watersmeet.runtime.bad_records import BadRecords
from watersmeet.warning import DataWarning
from watersmeet.warning import warn as warn

# A row so far ahead of the clock is no clock that is a little fast.
FAR_AHEAD_US = 60_000_000

Tell = Callable[[Warning], None]


class LateRows:
    """The late rows of one stream."""

    STATE = ("count", "behind_us", "newest_us", "after_silence_us", "promised_us", "far_ahead")

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.count = 0
        # How far at most they were behind the newest row of their stream, and which row that was; how far below the
        # watermark those were that came after a silence.
        self.behind_us = 0
        self.newest_us = BEGINNING_US
        self.after_silence_us = 0
        # Up to which time no row was to come, if rows came all the same.
        self.promised_us = BEGINNING_US
        self.far_ahead = False

    def add(
        self, times: Times, newest: Times, watermarks: Times, today_us: int, promised_us: int = BEGINNING_US
    ) -> None:
        """Rows that came too late, with the newest of their stream and the watermark before each."""
        self.count += int(times.size)
        behind = newest - times
        # The others are not late by their own stream: time had gone on without it.
        own = behind > self.stream.lateness_us
        promised = ~own & (times < promised_us)
        if bool(promised.any()):
            self.promised_us = promised_us
        if bool(own.any()):
            worst = int(behind[own].max())
            self.behind_us = max(self.behind_us, worst)
            self.newest_us = max(self.newest_us, int(newest[own].max()))
            self.far_ahead = self.far_ahead or self.newest_us > today_us + FAR_AHEAD_US
        other = ~own & ~promised
        if bool(other.any()):
            self.after_silence_us = max(self.after_silence_us, int((watermarks - times)[other].max()))

    def told(self) -> str:
        """What happened, in a sentence."""
        rows = "1 row of stream" if self.count == 1 else f"{self.count:,} rows of stream"
        came = "came too late and is" if self.count == 1 else "came too late and are"
        how = []
        if self.behind_us:
            how.append(
                f"up to {interval_up(self.behind_us)} behind its newest row, of {format_instant(self.newest_us)}"
            )
        if self.promised_us != BEGINNING_US:
            how.append(f"although it was said that none comes before {format_instant(self.promised_us)} any more")
        if self.after_silence_us:
            how.append(f"after a silence, up to {interval_up(self.after_silence_us)} behind the other streams")
        return f"{rows} {self.stream.name!r} {came} left out of the answer: {'; '.join(how)}"

    def way_out(self) -> str:
        """What to set so that such rows are kept."""
        ways = []
        if self.far_ahead:
            ways.append(
                f"the row of {format_instant(self.newest_us)} lies in the future: max_future='1 hour' keeps such rows "
                "from moving time"
            )
        elif self.behind_us:
            ways.append(f"set lateness='{interval_up(self.behind_us)}' or more")
            if _is_at_hand(self.stream) and not self.stream.arrival.in_time_order:
                ways.append("or leave out read='arrival', so that the rows are read in time order")
        if self.promised_us != BEGINNING_US:
            ways.append("call advance() with a time that all later rows keep to")
        if self.after_silence_us:
            ways.append("set a longer idle, or none, to wait for a stream that is silent")
        return ", ".join(ways)


def _is_at_hand(stream: Stream) -> bool:
    return bool(getattr(stream.source, "at_hand", False))


def interval_up(us: int) -> str:
    """An interval in a few words, rounded up, so that it is enough.

    >>> interval_up(1_500), interval_up(12_345_678), interval_up(100_000_000_001)
    ('1 ms 500 µs', '13 s', '1 d 3 h 47 min')
    """
    for unit_us in (60_000_000, 1_000_000, 1_000):
        if us >= 1_000 * unit_us or (unit_us == 1_000_000 and us >= 10 * unit_us):
            return format_interval(-(-us // unit_us) * unit_us)
    return format_interval(us)


class LateReports:
    """Tells of late rows, of rows in the future, of skipped ones and of bad records, of all streams of a run: at its
    end, and if it may go on for ever also the first time and whenever there are twice as many."""

    def __init__(self, tell: Tell) -> None:
        self.tell = tell
        self._told: dict[tuple[str, str], int] = {}

    def look(self, late: LateRows, future_rows: int, skipped_rows: int = 0, *, at_end: bool) -> None:
        if self._is_due("skipped", late.stream.name, skipped_rows, at_end):
            self.tell(DataWarning("skipped_rows", skipped_told(late.stream, skipped_rows)))
        if self._is_due("late", late.stream.name, late.count, at_end):
            self.tell(DataWarning("late_rows", f"{late.told()}; {late.way_out()}"))
        if self._is_due("future", late.stream.name, future_rows, at_end):
            self.tell(DataWarning("future_rows", future_told(late.stream, future_rows)))

    def look_bad(self, bad: BadRecords, *, at_end: bool) -> None:
        if self._is_due("bad", bad.stream.name, bad.count, at_end):
            self.tell(DataWarning("bad_rows", bad.told()))

    def _is_due(self, what: str, name: str, count: int, at_end: bool) -> bool:
        told = self._told.get((what, name), 0)
        if count <= told or (not at_end and count < 2 * told):
            return False
        self._told[what, name] = count
        return True


def future_told(stream: Stream, rows: int) -> str:
    max_future_us = stream.arrival.max_future_us
    assert max_future_us is not None
    further = f"further ahead of the clock than max_future = '{format_interval(max_future_us)}'"
    if rows == 1:
        return f"1 row of stream {stream.name!r} lies {further}: it is in the answer, but moved no watermark"
    return f"{rows:,} rows of stream {stream.name!r} lie {further}: they are in the answer, but moved no watermark"


def skipped_told(stream: Stream, rows: int) -> str:
    have = "has no event time and was" if rows == 1 else "have no event time and were"
    return (
        f"{rows:,} row{'s' if rows != 1 else ''} of stream {stream.name!r} {have} left out of the answer: "
        f"{stream.time} is NULL there, and on_null = 'skip' was said"
    )
