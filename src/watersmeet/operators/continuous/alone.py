"""The rows of one input that have no partner (or that have one), as partners come and go."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from watersmeet.model.time import FOREVER_US
from watersmeet.operators.continuous.delta import Bools, Delta, Int64s, in_order, no_changes
from watersmeet.operators.continuous.expiry import AnnouncedDeaths, Born, Expiry, KnownDeaths
from watersmeet.operators.continuous.lives import Lives
from watersmeet.operators.continuous.row_table import RowTable
from watersmeet.operators.continuous.sources import LivesSource
from watersmeet.operators.contract import Rows
from watersmeet.operators.keyed_state import KeyedRows, KeyedState, NumberedAnew
from watersmeet.operators.partition_key import KeysOf, PartitionKey, keys_in

NONE = np.empty(0, np.int64)


class Teed:
    """An input whose lives are seen by two."""

    STATE: tuple[str, ...] = ("source",)

    def __init__(self, source: LivesSource) -> None:
        self.source = source
        self.taken: Lives | None = None

    announced = property(lambda self: self.source.announced)
    in_turn = property(lambda self: self.source.in_turn)
    complete = property(lambda self: self.source.complete)
    held_rows = property(lambda self: self.source.held_rows)
    nbytes = property(lambda self: self.source.nbytes)
    endless = property(lambda self: self.source.endless)
    gives_again = property(lambda self: self.source.gives_again)

    def next_birth(self) -> int:
        return self.source.next_birth()

    def take(self, until: int) -> Lives | None:
        self.taken = self.source.take(until)
        return self.taken

    def inputs(self):  # type: ignore[no-untyped-def]  # as of any source
        return self.source.inputs()

    def undivided(self, key: PartitionKey) -> str | None:
        return self.source.undivided(key)

    def key_columns(self, key: PartitionKey) -> frozenset[str]:
        return self.source.key_columns(key)

    def divided(self, key: PartitionKey) -> KeyedState:
        return self.source.divided(key)

    def take_rows_over(self, state: KeyedState, *numbered: KeyedRows) -> NumberedAnew | None:
        return self.source.take_rows_over(state, *numbered)


class Told(Teed):
    """An input whose lives another takes, who is asked before."""

    STATE = ()

    held_rows = nbytes = 0

    def __init__(self, source: Teed) -> None:
        super().__init__(source)
        self.source: Teed = source

    def take(self, until: int) -> Lives | None:
        return self.source.taken

    def inputs(self):  # type: ignore[no-untyped-def]
        return iter(())


class Alone:
    """Keeps a row for each that lives, how many partners it has, and under which number it stands in the answer.

    Rows are known by their serial numbers, which grow; the arrays are in their order, and the dead are squeezed out
    when they are more than half.
    """

    STATE = ("_rows", "_free", "_slots", "_serials", "_slot_of", "_partners", "_lives", "_number", "_next", "_dying")

    def __init__(self, schema: pa.Schema, source: Teed, *, with_partner: bool, numbered_from: int) -> None:
        """with_partner: gives the rows that have one instead. numbered_from: numbers are this and every third after it,
        so that those of others differ."""
        self.source = source
        self.schema = schema
        self.with_partner = with_partner
        self._rows = RowTable(schema)
        self._free: Int64s = NONE  # slots of rows that are gone
        self._slots = 0
        self._serials: Int64s = NONE
        self._slot_of: Int64s = NONE
        self._partners: Int64s = NONE
        self._lives: Int64s = NONE
        self._number: Int64s = NONE  # -1: not in the answer
        self._next = numbered_from
        held = pa.schema([pa.field("serial", pa.int64())])
        self._dying: Expiry = (
            AnnouncedDeaths(held, ["it"]) if source.announced else KnownDeaths(held, in_turn=source.in_turn)
        )

    @property
    def held_rows(self) -> int:
        return int(self._serials.size)

    @property
    def nbytes(self) -> int:
        return self._rows.nbytes + self._dying.nbytes + 40 * self._serials.size

    def next_death(self) -> int:
        return self._dying.next_death()

    def enter(self, rows: pa.RecordBatch, lives: Lives) -> None:
        """New rows, as they would stand in the answer."""
        serials = lives.serials
        slots = self._take_slots(serials.size)
        self._rows.put(slots, rows.columns)
        self._serials = np.concatenate([self._serials, serials])
        self._slot_of = np.concatenate([self._slot_of, slots])
        nothing = np.zeros(serials.size, np.int64)
        self._partners = np.concatenate([self._partners, nothing])
        self._lives = np.concatenate([self._lives, nothing])
        self._number = np.concatenate([self._number, nothing - 1])
        data = pa.RecordBatch.from_arrays([pa.array(serials)], schema=self._held)
        self._dying.enter(Born(data, lives.rows.times, lives.deaths, serials, {"it": serials}))

    @property
    def _held(self) -> pa.Schema:
        return pa.schema([pa.field("serial", pa.int64())])

    def keyed(self, keys_of: KeysOf) -> KeyedRows:
        """The rows that live, as they would stand in the answer. How many partners they have follows from these."""
        living = np.flatnonzero(self._lives > 0)
        data = pa.RecordBatch.from_arrays(self._rows.get(self._slot_of[living]), schema=self.schema)
        dying = self._dying.keyed(keys_in(None)).numbers
        deaths = np.full(self._serials.size, FOREVER_US, np.int64)
        deaths[np.searchsorted(self._serials, dying["order"])] = dying["deaths"]
        serials = self._serials[living]
        return KeyedRows.of(keys_of(data), data, serials=serials, deaths=deaths[living], times=np.zeros_like(serials))

    def enter_again(self, rows: KeyedRows, at: int) -> None:
        """Rows of one or several others, as if they had come at an instant."""
        rows = rows.sorted_by("serials")
        times = np.full(len(rows), at, np.int64)
        self.source.taken = Lives(Rows(rows.data, times), rows.numbers["deaths"], rows.numbers["serials"])
        self.enter(rows.data, self.source.taken)

    def changes(self, until: int, matches: Delta, member: str) -> Delta:
        """What enters and leaves before an instant. `matches` are the combinations that came and went; a column of
        them says of which row."""
        lives = self.source.taken
        if lives is not None and lives.killed.size:
            self._dying.kill("it", lives.killed, lives.killed_at)
        born = (lives.serials, lives.rows.times) if lives is not None else (NONE, NONE)
        died = self._dying.leave(until)
        partners = matches.data.column(member).to_numpy(zero_copy_only=False)
        serials = np.concatenate([partners, born[0], died.order])
        if serials.size == 0:
            return no_changes(self.schema)
        instants = np.concatenate([matches.instants, born[1], died.instants])
        more_partners = np.concatenate([matches.diffs, np.zeros(born[0].size + len(died), np.int64)])
        living = np.concatenate(
            [np.zeros(len(matches), np.int64), np.ones(born[0].size, np.int64), np.full(len(died), -1, np.int64)]
        )
        delta = self._replayed(np.searchsorted(self._serials, serials), instants, more_partners, living)
        self._bury(died.order)
        return delta

    def _replayed(self, places: Int64s, instants: Int64s, partners: Int64s, living: Int64s) -> Delta:
        """Everything that happened to each row, instant by instant: where that changes whether it is given."""
        order = np.lexsort((instants, places))
        places, instants = places[order], instants[order]
        starts = np.flatnonzero(np.r_[True, (np.diff(places) != 0) | (np.diff(instants) != 0)])
        cell_place, cell_at = places[starts], instants[starts]
        first = np.flatnonzero(np.r_[True, np.diff(cell_place) != 0])  # the first cell of each row
        row_of_cell = np.repeat(np.arange(first.size), np.diff(np.r_[first, cell_place.size]))
        now_partners = _running(
            np.add.reduceat(partners[order], starts), first, row_of_cell, self._partners[cell_place[first]]
        )
        now_lives = _running(np.add.reduceat(living[order], starts), first, row_of_cell, self._lives[cell_place[first]])
        given: Bools = (now_lives > 0) & ((now_partners > 0) == self.with_partner)
        before = np.r_[False, given[:-1]]
        before[first] = self._number[cell_place[first]] >= 0
        last = np.r_[first[1:], cell_place.size] - 1
        self._partners[cell_place[last]], self._lives[cell_place[last]] = now_partners[last], now_lives[last]
        changed = np.flatnonzero(given != before)
        return self._given(cell_place[changed], cell_at[changed], given[changed])

    def _given(self, places: Int64s, instants: Int64s, enters: Bools) -> Delta:
        """The changes of all rows, one row after the other; in each, rows that enter and leave take turns."""
        if places.size == 0:
            return no_changes(self.schema)
        numbers = np.empty(places.size, np.int64)
        count = int(np.count_nonzero(enters))
        numbers[enters] = self._next + 3 * np.arange(count)
        self._next += 3 * count
        leaving = np.flatnonzero(~enters)
        same = np.r_[False, places[1:] == places[:-1]]
        # Who leaves has entered by the change before, or stood there from earlier on.
        numbers[leaving] = np.where(same[leaving], numbers[leaving - 1], self._number[places[leaving]])
        final = np.flatnonzero(np.r_[places[1:] != places[:-1], True])
        self._number[places[final]] = np.where(enters[final], numbers[final], -1)
        data = pa.RecordBatch.from_arrays(self._rows.get(self._slot_of[places]), schema=self.schema)
        diffs = np.where(enters, 1, -1)
        return Delta(data, instants, diffs, numbers).take(in_order(instants, diffs))

    def _take_slots(self, count: int) -> Int64s:
        reused = self._free[:count]
        self._free = self._free[count:]
        fresh = np.arange(self._slots, self._slots + count - reused.size)
        self._slots += fresh.size
        return np.concatenate([reused, fresh])

    def _bury(self, serials: Int64s) -> None:
        if serials.size == 0:
            return
        slots = self._slot_of[np.searchsorted(self._serials, serials)]
        self._rows.drop(slots)
        self._free = np.concatenate([self._free, slots])
        self._squeeze()

    def _squeeze(self) -> None:
        dead = np.count_nonzero(self._lives == 0)
        if 2 * dead > self._serials.size:
            kept = np.flatnonzero(self._lives > 0)
            self._serials, self._slot_of = self._serials[kept], self._slot_of[kept]
            self._partners, self._lives, self._number = self._partners[kept], self._lives[kept], self._number[kept]


def _running(changes: Int64s, first: Int64s, row_of_cell: Int64s, begun: Int64s) -> Int64s:
    """Sums of changes from the first cell of each row on, begun with what was there."""
    total = np.cumsum(changes)
    offset = begun - (total[first] - changes[first])
    running: Int64s = total + offset[row_of_cell]
    return running
