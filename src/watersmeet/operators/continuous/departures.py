"""How many rows have left the window of a stream, as time goes on."""

from __future__ import annotations

from collections import deque

import numpy as np

from watersmeet.model.time import FOREVER_US
from watersmeet.operators.continuous.delta import Int64s
from watersmeet.operators.continuous.lives import Lives
from watersmeet.operators.keyed_state import KeyedRows, KeyedState

MOST_PIECES = 12


class Departures:
    """Counts rows whether or not a condition let them into the answer: what leaves the window is counted once.

    Deaths that are known in advance are kept until they come, in few pieces: rows may come one by one, and every piece
    is saved under a name of its own. Where rows go in turn, only the first piece is looked at. Those of a ROWS window
    have come when they are known.
    """

    STATE = ("expired_rows", "_coming")

    def __init__(self, *, announced: bool, in_turn: bool) -> None:
        self.announced = announced
        self.in_turn = in_turn
        self.expired_rows = 0
        self._coming: deque[Int64s] = deque()

    def add(self, lives: Lives) -> None:
        if self.announced:
            self.expired_rows += int(lives.killed.size) + int(np.count_nonzero(lives.deaths < FOREVER_US))
        # In a window of time all deaths are known, without one none is.
        elif lives.deaths.size and lives.deaths[0] < FOREVER_US:
            self.await_deaths(lives.deaths if self.in_turn else np.sort(lives.deaths))

    def await_deaths(self, deaths: Int64s) -> None:
        """In their order, of rows that die in a time to come."""
        self._coming.append(deaths)
        if len(self._coming) > MOST_PIECES:
            self._merge()

    def _merge(self) -> None:
        """Merge the newest pieces, as long as the one before them is not much larger."""
        newest = [self._coming.pop()]
        size = newest[0].size
        while len(self._coming) >= MOST_PIECES or (self._coming and self._coming[-1].size <= 2 * size):
            newest.append(self._coming.pop())
            size += newest[-1].size
        merged = np.concatenate(newest[::-1])
        self._coming.append(merged if self.in_turn else np.sort(merged))

    def count(self, until: int) -> None:
        """Time has come this far: who dies before it is gone."""
        while self._coming and (self._coming[0].size == 0 or self._coming[0][-1] < until):
            self.expired_rows += int(self._coming.popleft().size)
        for place in range(min(1, len(self._coming)) if self.in_turn else len(self._coming)):
            gone = int(self._coming[place].searchsorted(until))
            self.expired_rows += gone
            self._coming[place] = self._coming[place][gone:]

    def divided(self) -> KeyedState:
        """Who counts a departure is no matter, so those to come lie anywhere."""
        coming = np.concatenate([np.empty(0, np.int64), *self._coming])
        rows = {"coming": KeyedRows.of(np.arange(coming.size), deaths=coming)}
        return KeyedState(rows, totals={"expired_rows": self.expired_rows})

    def take_rows_over(self, state: KeyedState) -> None:
        self.expired_rows = state.totals.get("expired_rows", 0)
        coming = np.sort(state.rows["coming"].numbers["deaths"])
        self._coming = deque([coming] if coming.size else [])
