"""Rows with the instants between which they are in a window: from birth on, until they die."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from watersmeet.model.time import FOREVER_US, normalize_time_column, times_of
from watersmeet.model.windows import Boundary, Range, RowsWindow, Until, Window, dies_in_turn
from watersmeet.operators.continuous.delta import Int64s
from watersmeet.operators.contract import Rows
from watersmeet.operators.row_windows import RowWindow

NOTHING = np.empty(0, np.int64)


@dataclass(frozen=True)
class Lives:
    """New rows of one input, in the order of their births (`rows.times`), each with its death.

    The death of a row in a ROWS window, or in an answer that changes, is not known in advance: it is FOREVER_US
    here, and a later batch names the row's serial among `killed`.
    """

    rows: Rows
    deaths: Int64s
    serials: Int64s
    killed: Int64s = field(default_factory=lambda: NOTHING)
    killed_at: Int64s = field(default_factory=lambda: NOTHING)


class Lifetimes:
    """How long the rows of a stream live in its window."""

    STATE = ("_counting", "_next_serial")

    def __init__(self, window: Window | None, boundary: Boundary) -> None:
        self.window = window
        # A closed window still holds a row at t + w: it leaves a microsecond later.
        self.extra_us = 0 if boundary == "half_open" else 1
        self._counting = RowWindow(window) if isinstance(window, RowsWindow) else None
        self._next_serial = 0

    @property
    def announced(self) -> bool:
        """Whether deaths become known only later."""
        return self._counting is not None

    @property
    def in_turn(self) -> bool:
        """Whether rows die in the order they were born."""
        return dies_in_turn(self.window)

    def of(self, rows: Rows) -> Lives:
        if self._counting is not None:
            counted = self._counting.add(rows)
            return Lives(rows, counted.times, counted.serials, counted.pushed_out, counted.pushed_out_at)
        serials = np.arange(self._next_serial, self._next_serial + len(rows))
        self._next_serial += len(rows)
        deaths = self._first_end(rows) if isinstance(self.window, Until) else None
        if deaths is None:
            deaths = death_times(rows.times, self.window, self.extra_us)
        return Lives(rows, deaths, serials)

    def _first_end(self, rows: Rows) -> Int64s:
        assert isinstance(self.window, Until)
        ends = [
            times_of(normalize_time_column(rows.data.column(name))) + (size_us + self.extra_us)
            for name, size_us in self.window.ends
        ]
        first: Int64s = np.minimum.reduce(ends)
        return first


def death_times(times: Int64s, window: Window | None, extra_us: int) -> Int64s:
    """When rows leave a window that is measured in time."""
    if isinstance(window, Range):
        return times + (window.size_us + extra_us)
    return np.full(times.size, FOREVER_US, np.int64)
