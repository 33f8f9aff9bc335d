"""Instants that follow each other: after so long, or by the calendar, where days, weeks, months and years begin."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.dataclass import dataclass
from watersmeet.model.time import UNITS_US, Times, format_interval, times_of

PaceUnit = Literal["us", "day", "month"]
DAY_US = UNITS_US["day"]
MONDAY_US = 4 * DAY_US  # weeks begin so long after 1970-01-01, a Thursday
# Further than any time that is met, and still a year that zones are known in.
_EARLIEST_US, _LATEST_US = -62_135_596_800_000_000, 253_402_214_400_000_000
_USUAL_US = {"us": 1, "day": DAY_US, "month": 31 * DAY_US}
_MOST_BY_CLOCKS_US = 2 * DAY_US


@dataclass(frozen=True)
class Pace:
    """Every so many microseconds since 1970, or the midnights at which every so many days or months begin, as clocks of
    the zone show them; later by the offset, as clocks show it. What they show twice is the first of both, of what they
    skip it is the instant after."""

    every: int
    unit: PaceUnit = "us"
    offset_us: int = 0
    zone: str | None = None

    def numbers(self, times: Times) -> Times:
        """Of each time the number of the last of these instants at or before it."""
        if self.unit == "us":
            return (times - self.offset_us) // self.every
        times = np.clip(times, _EARLIEST_US, _LATEST_US)
        shown = self._shown(times) - self.offset_us
        if self.unit == "day":
            near: Times = shown // (self.every * DAY_US)
        else:
            near = shown.astype("M8[us]").astype("M8[M]").astype(np.int64) // self.every
        # Around a change of clocks what they show is not in the order of time.
        near = near - (self.at(near) > times)
        return near + (self.at(near + 1) <= times)

    def at(self, numbers: Times) -> Times:
        if self.unit == "month":
            shown: Times = (numbers * self.every).astype("M8[M]").astype("M8[us]").astype(np.int64)
        else:
            shown = numbers * (self.every * _USUAL_US[self.unit])
        return self._first(shown + self.offset_us)

    def first_from(self, instant: int) -> int:
        """The first of these instants that is not before another."""
        if self.unit != "us" and instant > _LATEST_US:
            return instant
        return int(self.at(self.numbers(np.array([instant - 1])) + 1)[0])

    def between(self, first: int, stop: int) -> Times:
        """All of them from an instant up to, but without, another."""
        low, high = self.numbers(np.array([first - 1, stop - 1]))
        # Where a whole day is left out, two of them are one.
        return np.unique(self.at(np.arange(low + 1, high + 1)))

    def count_between(self, first: int, stop: int) -> int:
        low, high = self.numbers(np.array([first - 1, stop - 1]))
        return int(high - low)

    @property
    def usual_us(self) -> int:
        return self.every * _USUAL_US[self.unit]

    @property
    def longest_us(self) -> int:
        """None of them is further from the next."""
        return self.usual_us + (0 if self.unit == "us" else _MOST_BY_CLOCKS_US)

    def _shown(self, times: Times) -> Times:
        if self.zone is None:
            return times
        return times_of(pc.local_timestamp(pa.array(times, pa.timestamp("us", self.zone))))

    def _first(self, shown: Times) -> Times:
        if self.zone is None:
            return shown
        local = pa.array(shown, pa.timestamp("us"))
        return times_of(pc.assume_timezone(local, self.zone, ambiguous="earliest", nonexistent="latest"))

    def __str__(self) -> str:
        if self.unit == "us":
            return format_interval(self.every)
        return f"{self.every} {self.unit}{'s' * (self.every > 1)}"
