"""Rows that wait for the watermark to pass them, given out in time order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from watersmeet.model.time import BEGINNING_US
from watersmeet.operators.contract import Rows, WaitingRows
from watersmeet.operators.keyed_state import KeyedRows, KeyedState
from watersmeet.operators.partition_key import KeysOf

MOST_PARTS = 12
# Into parts of so many rows at most: a release looks through every part of which a row is ready.
MOST_MERGED = 1 << 12


class Waiting:
    """The rows of one input. Rows of equal time keep their arrival order."""

    STATE = ("_parts", "first_us", "last_us", "ended")
    ITEMS: ClassVar = {"_parts": Rows}

    def __init__(self) -> None:
        self._parts: list[Rows] = []
        # The first and last times of all rows that were given out.
        self.first_us: int | None = None
        self.last_us = BEGINNING_US
        # Where a restore passes an end of all input: the last time before it, and the instant up to which was answered.
        self.ends: list[tuple[int, int]] = []
        self.ended = False  # no row comes any more; whoever advances time says so

    def __len__(self) -> int:
        return sum(len(rows) for rows in self._parts)

    @property
    def nbytes(self) -> int:
        return sum(int(rows.data.nbytes) for rows in self._parts)

    @property
    def oldest_us(self) -> int | None:
        """The time of the first row that waits, or None."""
        return min((rows.first_us for rows in self._parts), default=None)

    @property
    def newest_us(self) -> int | None:
        """The time of the last row that waits, or None."""
        return max((int(rows.times.max()) for rows in self._parts), default=None)

    def time_of(self, place: int) -> int | None:
        """The time of the row at a place among those that wait, by their times; None if there are fewer."""
        if len(self) <= place:
            return None
        times = np.concatenate([rows.times for rows in self._parts])
        return int(np.partition(times, place)[place])

    def count_at(self, time_us: int) -> int:
        """How many rows wait that have this time."""
        return sum(int(np.count_nonzero(rows.times == time_us)) for rows in self._parts)

    def instants_before(self, until_us: int) -> int:
        """At how many instants before this one rows wait."""
        times = [rows.times[rows.times < until_us] for rows in self._parts]
        return np.unique(np.concatenate(times)).size if times else 0

    @property
    def described(self) -> WaitingRows | None:
        """What there is to tell of the rows that wait, if any do."""
        oldest_us, newest_us = self.oldest_us, self.newest_us
        return None if oldest_us is None or newest_us is None else WaitingRows(len(self), oldest_us, newest_us)

    def add(self, rows: Rows) -> None:
        if not len(rows):
            return
        self._parts.append(rows)
        # Of many parts small ones become one; large ones stay, as a release looks through those it touches.
        while len(self._parts) > MOST_PARTS and self._worth_merging():
            newer = self._parts.pop()
            self._parts[-1] = Rows.together([self._parts[-1], newer])

    def _worth_merging(self) -> bool:
        older, newer = len(self._parts[-2]), len(self._parts[-1])
        return older <= 2 * newer and older + newer <= MOST_MERGED

    def divided(self, keys_of: KeysOf) -> KeyedState:
        """The rows that wait, and how far those that were given out had come."""
        state = KeyedState(latest={"last_us": self.last_us, "ended": self.ended}, earliest={"first_us": self.first_us})
        if self._parts:
            rows = Rows.together(self._parts)
            state.rows["rows"] = KeyedRows.of(keys_of(rows.data), rows.data, times=rows.times)
        return state

    def take_rows_over(self, state: KeyedState) -> None:
        rows = state.rows.get("rows")
        if rows is not None:
            self.replace(Rows(rows.data, rows.numbers["times"]))
        self.first_us, self.last_us = state.earliest["first_us"], state.latest["last_us"]
        self.ended = state.latest["ended"]

    def replace(self, rows: Rows) -> None:
        self._parts = [rows] if len(rows) else []

    def release(self, until_us: int) -> Rows | None:
        """The rows before an instant in time order, or None; the others go on waiting."""
        rows = self._released(until_us)
        if rows is not None:
            self.gave(int(rows.times[0]), int(rows.times[-1]), self._parts)
        return rows

    def few_before(self, until_us: int, most: int) -> list[int] | None:
        """Of each part how many of its rows, from its first on, come before an instant, if they are in time order where
        they lie and no more than `most`; None if not."""
        found, last_us, total = [], BEGINNING_US, 0
        for rows in self._parts:
            count = 0
            if rows.first_us < until_us:
                if rows.first_us < last_us or not rows.in_order:
                    return None
                times = rows.times
                count = times.size
                if times.item(-1) >= until_us:
                    count = int(times.searchsorted(until_us))
                last_us = times.item(count - 1)
                total += count
            found.append(count)
        return found if total <= most else None

    @property
    def parts(self) -> Sequence[Rows]:
        return self._parts

    def gave(self, first_us: int, last_us: int, left: list[Rows]) -> None:
        """Rows between two times were taken, and these are left."""
        self._parts = left
        self.first_us = first_us if self.first_us is None else min(self.first_us, first_us)
        self.last_us = max(self.last_us, last_us)

    def first(self, count: int) -> Rows:
        """The first so many rows to have come, whatever their times; there must be as many, and one at least."""
        everything = Rows.together(self._parts)
        self.replace(everything.slice(count, len(everything)))
        return everything.slice(0, count)

    def _released(self, until_us: int) -> Rows | None:
        ready: list[Rows] = []
        left: list[Rows] = []
        # Both in the order they came, which decides among equal times.
        for rows in self._parts:
            if rows.first_us >= until_us:
                left.append(rows)
                continue
            before, behind = _split(rows, until_us)
            ready.append(before)
            if len(behind):
                left.append(behind)
        if not ready:
            return None
        self._parts = left
        return Rows.together(ready).in_time_order()


def _split(rows: Rows, until_us: int) -> tuple[Rows, Rows]:
    """The rows before an instant, and the others."""
    if rows.in_order:
        cut = int(np.searchsorted(rows.times, until_us))
        return rows.slice(0, cut), rows.slice(cut, len(rows))
    is_ready = rows.times < until_us
    return rows.take(np.flatnonzero(is_ready)), rows.take(np.flatnonzero(~is_ready))


def waiting_rows_of(waiting: Mapping[str, Waiting]) -> dict[str, WaitingRows]:
    """What there is to tell of the inputs of which rows wait."""
    described = {alias: rows.described for alias, rows in waiting.items()}
    return {alias: rows for alias, rows in described.items() if rows is not None}
