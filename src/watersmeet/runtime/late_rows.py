"""Rows of one stream that came too late: how many, and how late."""

from __future__ import annotations

from watersmeet.model.catalog import Stream
from watersmeet.model.time import BEGINNING_US, Times


class LateRows:
    """The late rows of one stream."""

    STATE = ("count", "behind_us", "newest_us", "after_silence_us", "promised_us")

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

    def add(self, times: Times, newest: Times, watermarks: Times, promised_us: int = BEGINNING_US) -> None:
        """Rows that came too late, with the newest of their stream and the watermark before each."""
        self.count += int(times.size)
        behind = newest - times
        # The others are not late by their own stream: time had gone on without it.
        own = behind > self.stream.lateness_us
        promised = ~own & (times < promised_us)
        if bool(promised.any()):
            self.promised_us = promised_us
        if bool(own.any()):
            self.behind_us = max(self.behind_us, int(behind[own].max()))
            self.newest_us = max(self.newest_us, int(newest[own].max()))
        other = ~own & ~promised
        if bool(other.any()):
            self.after_silence_us = max(self.after_silence_us, int((watermarks - times)[other].max()))

    @property
    def lateness(self) -> dict[str, int]:
        """How late they were, by the names of the metrics."""
        found = {"late_after_silence_us": self.after_silence_us} if self.after_silence_us else {}
        if self.behind_us:
            found |= {"late_behind_us": self.behind_us, "late_newest_us": self.newest_us}
        return found | ({"late_promised_us": self.promised_us} if self.promised_us != BEGINNING_US else {})
