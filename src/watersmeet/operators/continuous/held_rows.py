"""Rows by value whose changes nobody asks for, only which of them are there at one instant and another."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from watersmeet.operators.codes import identities
from watersmeet.operators.continuous.delta import Delta, Int64s
from watersmeet.operators.continuous.multiset import Multiset
from watersmeet.operators.few_rows import rows_taken


class HeldRows:
    """The changes of a while, taken instant by instant; the rows that are there then are made for all of it at once.

    Numbers are given and freed at each instant, so that the order of rows is that of their numbers however many
    instants come together.
    """

    def __init__(self, held: Multiset, delta: Delta) -> None:
        self._held, self._delta = held, delta
        self._first, self._second = identities(delta.data.columns, len(delta))
        entering = np.flatnonzero(delta.diffs > 0)
        held.rows.make_room(entering.size)
        self._end = held.rows.end + entering.size
        # Where a row that enters lies.
        self._places = held.rows.end - 1 + np.cumsum(delta.diffs > 0)
        for column, values in zip(held.rows.columns, rows_taken(delta.data, entering).columns, strict=True):
            column.append(values, held.rows.end)
        self._taken = 0
        self._without = entering.size  # rows that have no number, or had one

    @property
    def next_us(self) -> int | None:
        """The instant of the next change."""
        return int(self._delta.instants[self._taken]) if self._taken < len(self._delta) else None

    def at(self, moment: int) -> Int64s:
        """Where the rows lie that are there after an instant."""
        held, start = self._held, self._taken
        self._taken = stop = int(np.searchsorted(self._delta.instants, moment + 1))
        if start < stop:
            ids, new = held.ids.of_identities(self._first[start:stop], self._second[start:stop])
            held.make_room()
            held.rows.number_up_to(held.ids.room - 1)
            held.rows.where[ids[new]] = self._places[start + new]
            np.add.at(held.left, ids, self._delta.diffs[start:stop])
        there: Int64s = held.rows.where[np.flatnonzero(held.left > 0)]
        if start < stop:
            empty = np.unique(ids[held.left[ids] == 0])
            held.rows.where[empty] = -1
            held.ids.forget(empty)
            self._without += empty.size - new.size
        return there

    def made(self, places: Int64s) -> dict[str, pa.Array]:
        """The rows that lie there, by column; last of all, as some of them are given up."""
        columns = [column.gather(places) for column in self._held.rows.columns]
        self._held.rows.put_and_dropped(self._end, self._without)
        return dict(zip(self._held.schema.names, columns, strict=True))
