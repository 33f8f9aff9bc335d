"""Rows with the instants between which they are in a window: from birth on, until they die."""

from __future__ import annotations

from dataclasses import field

import numpy as np

from watersmeet.dataclass import dataclass
from watersmeet.model.time import FOREVER_US, normalize_time_column, times_of
from watersmeet.model.windows import (
    Boundary,
    Each,
    Range,
    RowsWindow,
    Session,
    SteppedRows,
    Unbounded,
    Until,
    Window,
    dies_in_turn,
    moves_in_steps,
)
from watersmeet.operators.continuous.delta import Int64s
from watersmeet.operators.continuous.stepping import (
    Blocks,
    Entrance,
    GrowingSessions,
    HopsAtOnce,
    Sessions,
    Steps,
    taken_apart,
)
from watersmeet.operators.contract import Rows
from watersmeet.operators.keyed_state import KeyedRows, KeyedState, NumberedAnew
from watersmeet.operators.partition_key import KeysOf
from watersmeet.operators.row_windows import RowWindow

NOTHING = np.empty(0, np.int64)


@dataclass(frozen=True)
class Lives:
    """New rows of one input, in the order of their births (`rows.times`), each with its death. In a window that moves
    in steps rows are born later than their event time, which only their data tells.

    The death of a row in a ROWS window, or in an answer that changes, is not known in advance: it is FOREVER_US
    here, and a later batch names the row's serial among `killed`.
    """

    rows: Rows
    deaths: Int64s
    serials: Int64s
    killed: Int64s = field(default_factory=lambda: NOTHING)
    killed_at: Int64s = field(default_factory=lambda: NOTHING)


def lifetimes_of(window: Window | None, boundary: Boundary) -> Lifetimes | EntryLifetimes:
    if isinstance(window, Each) and window.within is not None:
        return EntryLifetimes(window, window.within, boundary)
    return Lifetimes(window, boundary)


class Lifetimes:
    """How long the rows of a stream live in its window."""

    STATE: tuple[str, ...] = ("_counting", "_next_serial")

    def __init__(self, window: Window | None, boundary: Boundary) -> None:
        self.window = window
        # A closed window still holds a row at t + w: it leaves a microsecond later.
        self.extra_us = 0 if boundary == "half_open" else 1
        self._counting = RowWindow(window) if isinstance(window, RowsWindow) else None
        self._entrance = Entrance(window)
        if moves_in_steps(window):  # other windows are saved as they were before there were such
            self.STATE = (*Lifetimes.STATE, "_entrance")
        if isinstance(window, SteppedRows):
            # In blocks, each with the time of its last row, rows push each other out as in any window of rows.
            self._counting = RowWindow(RowsWindow(window.count, window.partition_by))
        self._next_serial = 0

    @property
    def announced(self) -> bool:
        """Whether deaths become known only later."""
        return self._counting is not None or (isinstance(self.window, Session) and self.window.at_once)

    @property
    def in_turn(self) -> bool:
        """Whether rows die in the order they were born."""
        return dies_in_turn(self.window)

    @property
    def held_rows(self) -> int:
        """The rows that have come and wait for the step at which they enter."""
        return len(self._entrance)

    @property
    def nbytes(self) -> int:
        return self._entrance.nbytes

    def next_birth(self) -> int:
        """When the next of those enters; FOREVER_US if that is not known, or there are none."""
        return self._entrance.next_birth()

    def of(self, rows: Rows | None, until: int) -> Lives | None:
        """The rows that enter before an instant. New ones are those that came before it, in time order."""
        match self._entrance.by_step:
            case (Steps() | Sessions() as steps,):
                entering = steps.entering(rows, until)
                return None if entering is None else Lives(*entering, self._serials(len(entering[0])))
            case (GrowingSessions() as sessions,):
                serials = self._serials(0 if rows is None else len(rows))
                if (found := sessions.entering(rows, serials, until)) is None:
                    return None
                return Lives(found.rows, found.deaths, serials, found.killed, found.killed_at)
            case (Blocks() as blocks,) if rows is not None:
                rows = blocks.entering(rows)
        return None if rows is None else self._at_once(rows)

    @property
    def endless(self) -> bool:
        """Whether rows never leave."""
        return self.window is None or isinstance(self.window, Unbounded)

    def counts_together(self, column: str | None) -> str | None:
        """Why rows that have their key in a column do not live apart from those of other keys, if they do not."""
        apart = getattr(self.window, "partition_by", None)
        if (self._counting is None and not isinstance(self.window, Session)) or column in (apart or ()):
            return None
        return "a window counts rows of all keys together"

    def divided(self, keys_of: KeysOf) -> KeyedState:
        state = KeyedState(latest={"next_serial": self._next_serial})
        if self._counting is not None:
            state.rows["counting"] = self._counting.keyed(keys_of)
        for waiting in self._entrance.by_step:
            state.put("entrance", waiting.divided(keys_of))
        return state

    def take_rows_over(self, state: KeyedState, *numbered: KeyedRows) -> NumberedAnew | None:
        """Returns the new serials of rows whose deaths are announced. numbered: who else has such rows."""
        self._next_serial = state.latest["next_serial"]
        anew = None
        if self._counting is not None:
            counted = state.rows["counting"]
            anew = NumberedAnew(counted, *numbered)
            self._counting.take_over(counted, anew)
        for waiting in self._entrance.by_step:
            known = waiting.take_rows_over(state.inside("entrance"), *numbered)
            anew = anew if known is None else known
        if anew is None and numbered:
            anew = NumberedAnew(*numbered)
        self._next_serial = self._next_serial if anew is None else anew.next
        return anew

    @property
    def span_us(self) -> int | None:
        """For how long a row lives, if that is the same for all and they live at once."""
        return self.window.size_us + self.extra_us if isinstance(self.window, Range) else None

    @property
    def hops_at_once(self) -> HopsAtOnce | None:
        """What makes the copies of rows, if they all enter at one instant."""
        match self._entrance.by_step:
            case (HopsAtOnce() as hops,):
                return hops
        return None

    def passed(self, rows: int) -> None:
        """So many rows lived whose serials nobody asks for."""
        self._next_serial += rows

    def _serials(self, rows: int) -> Int64s:
        self._next_serial += rows
        return np.arange(self._next_serial - rows, self._next_serial)

    def _at_once(self, rows: Rows) -> Lives:
        if self._counting is not None:
            counted = self._counting.add(rows)
            return Lives(rows, counted.times, counted.serials, counted.pushed_out, counted.pushed_out_at)
        deaths = self._first_end(rows) if isinstance(self.window, Until) else None
        if deaths is None:
            deaths = death_times(rows.times, self.window, self.extra_us)
        return Lives(rows, deaths, self._serials(len(rows)))

    def _first_end(self, rows: Rows) -> Int64s:
        assert isinstance(self.window, Until)
        ends = [
            times_of(normalize_time_column(rows.data.column(name))) + (size_us + self.extra_us)
            for name, size_us in self.window.ends
        ]
        first: Int64s = np.minimum.reduce(ends)
        return first


class EntryLifetimes:
    """Rows live in a window that counts them, and so do the entries that each is taken apart into."""

    STATE = ("_rows", "_next_serial", "_living", "_first", "_size")

    announced = property(lambda self: self._rows.announced)
    in_turn = property(lambda self: self._rows.in_turn)
    held_rows = property(lambda self: self._rows.held_rows)

    def __init__(self, window: Each, within: Window, boundary: Boundary) -> None:
        self._each = window
        self._next_serial = 0
        self._rows = Lifetimes(within, boundary)
        # Of the rows that live and have entries: their serials, ascending, that of the first entry, and how many.
        self._living: Int64s = NOTHING
        self._first: Int64s = NOTHING
        self._size: Int64s = NOTHING

    @property
    def nbytes(self) -> int:
        return self._rows.nbytes + 3 * self._living.nbytes

    def next_birth(self) -> int:
        return self._rows.next_birth()

    endless = False

    def counts_together(self, column: str | None) -> str | None:
        return "entries of lists live as long as rows that are counted do"

    def divided(self, keys_of: KeysOf) -> KeyedState:
        raise AssertionError("this does not divide")

    def take_rows_over(self, state: KeyedState, *numbered: KeyedRows) -> NumberedAnew | None:
        raise AssertionError("this does not divide")

    def of(self, rows: Rows | None, until: int) -> Lives | None:
        lives = self._rows.of(rows, until)
        if lives is None:
            return None
        entries, which = taken_apart(lives.rows, self._each)
        serials = np.arange(self._next_serial, self._next_serial + which.size)
        self._next_serial += which.size
        killed, killed_at = self._entries_of(lives.killed, lives.killed_at)
        sizes = np.bincount(which, minlength=len(lives.rows))
        first = self._next_serial - which.size + np.cumsum(sizes) - sizes
        stays = np.flatnonzero((lives.deaths == FOREVER_US) & (sizes > 0))
        self._living = np.concatenate([self._living, lives.serials[stays]])
        self._first = np.concatenate([self._first, first[stays]])
        self._size = np.concatenate([self._size, sizes[stays]])
        return Lives(entries, lives.deaths[which], serials, killed, killed_at)

    def _entries_of(self, rows: Int64s, at: Int64s) -> tuple[Int64s, Int64s]:
        """The entries of rows that die, and when; the rows are forgotten."""
        places = np.searchsorted(self._living, rows)
        known = np.flatnonzero(np.isin(rows, self._living))  # others have no entries
        places, at = places[known], at[known]
        sizes = self._size[places]
        nth = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        entries = np.repeat(self._first[places], sizes) + nth
        stays = np.ones(self._living.size, np.bool_)
        stays[places] = False
        self._living, self._first, self._size = self._living[stays], self._first[stays], self._size[stays]
        return entries, np.repeat(at, sizes)


def death_times(times: Int64s, window: Window | None, extra_us: int) -> Int64s:
    """When rows leave a window that is measured in time."""
    if isinstance(window, Range):
        return times + (window.size_us + extra_us)
    return np.full(times.size, FOREVER_US, np.int64)
