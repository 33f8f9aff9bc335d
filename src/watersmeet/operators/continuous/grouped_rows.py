"""W-EXPIRE below W-GROUP-BY: holds the rows of a window by the numbers of their groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.model.time import FOREVER_US
from watersmeet.operators.continuous.aggregates.contract import Cells, frozen
from watersmeet.operators.continuous.delta import Bools, Delta, Int64s
from watersmeet.operators.continuous.expiry import FIRST_ROOM, Born
from watersmeet.operators.continuous.row_table import RowTable
from watersmeet.operators.few_rows import fresh, picked_from
from watersmeet.operators.kernels.changes import cells_in_turn
from watersmeet.operators.keyed_state import KeyedRows
from watersmeet.operators.partition_key import KeysOf
from watersmeet.operators.payload import PayloadColumn, moved, payload_column


@dataclass(frozen=True)
class GroupChanges:
    """Changes of rows as cells of their groups; per cell its group, its instant, whether the group has rows after it,
    and when it was noticed, if that may be later; per change, for who asks, the number of its row and the values of a
    column."""

    cells: Cells
    groups: Int64s
    instants: Int64s
    present: Bools
    noticed: Int64s | None
    order: Callable[[], Int64s]
    column: Callable[[str], pa.Array]


class GroupedRows:
    """Rows that die in the order they came. A row's group is looked up once, when it comes; of the row only the
    arguments of the aggregates are held, as the keys are those of its group."""

    STATE = ("_room", "_tail", "_head", "_deaths", "_order", "_groups", "_columns")

    def __init__(
        self,
        schema: pa.Schema,
        keys: int,
        groups_of: Callable[[pa.RecordBatch, int], Int64s],
        key_rows: RowTable,
        same: Mapping[str, str],
    ) -> None:
        """schema: the keys, then the arguments. groups_of: the number of each row's group, of so many rows. key_rows:
        the keys of each group that has rows. same: for each argument the first that is equal."""
        self.schema = schema
        self._keys, self._groups_of, self._key_rows = keys, groups_of, key_rows
        self._room = FIRST_ROOM
        # Rows lie between the two in the order they came.
        self._tail = self._head = 0
        self._deaths: Int64s = np.empty(self._room, np.int64)
        self._order: Int64s = np.empty(self._room, np.int64)
        self._groups: Int64s = np.empty(self._room, np.int64)
        self._stored = {
            place: payload_column(one.type, self._room)
            for place, one in enumerate(schema)
            if place >= keys and same.get(one.name, one.name) == one.name
        }
        arguments = schema.names[keys:]
        self._columns = [self._stored[schema.get_field_index(same.get(one, one))] for one in arguments]

    @property
    def held(self) -> int:
        return self._head - self._tail

    @property
    def nbytes(self) -> int:
        return 3 * self._deaths.nbytes + sum(one.nbytes for one in self._stored.values())

    def enter(self, born: Born) -> None:
        count = born.deaths.size
        self.make_room(count)
        first, last = self._head, self._head + count
        self._deaths[first:last], self._order[first:last] = born.deaths, born.order
        self._groups[first:last] = self._groups_of(born.data, count)
        for place, one in self._stored.items():
            one.append(born.data.column(place), first)
        self._head = last

    def changes(self, births: Int64s, until: int, counts: Int64s) -> GroupChanges | None:
        """The births of the last rows to have come, and all deaths before an instant; counts: the rows of each group,
        which this changes."""
        leaving = int(np.searchsorted(self._deaths[self._tail : self._head], until))
        n = births.size + leaving
        if n == 0:
            return None
        out, present = fresh(6, n), np.empty(n, np.bool_)
        held = (self._deaths, self._groups, self._tail, self._head)
        cells = int(cells_in_turn(frozen(births), *held, leaving, counts, out, present))
        self._tail += leaving
        places, groups, diffs, ends, cell_groups, instants = out
        return GroupChanges(
            Cells(groups, diffs, ends[:cells]), cell_groups[:cells], instants[:cells], present[:cells], None,
            partial(picked_from, self._order, places), partial(self._column, places),
        )  # fmt: skip

    def _column(self, places: Int64s, name: str) -> pa.Array:
        place = self.schema.get_field_index(name)
        if place < self._keys:
            return self._key_rows.get(self._groups[places], [place])[0]
        return self._columns[place - self._keys].gather(places)

    def leave(self, until: int) -> Delta:
        """The rows that die before an instant."""
        leaving = int(np.searchsorted(self._deaths[self._tail : self._head], until))
        places = np.arange(self._tail, self._tail + leaving)
        self._tail += leaving
        return Delta(self._rows(places), self._deaths[places], np.full(leaving, -1), self._order[places])

    def kill(self, alias: str, serials: Int64s, at: Int64s) -> None:
        raise AssertionError("deaths are known in advance here")

    def next_death(self) -> int:
        return int(self._deaths[self._tail]) if self.held else FOREVER_US

    def keyed(self, keys_of: KeysOf) -> KeyedRows:
        places = np.arange(self._tail, self._head)
        data = self._rows(places)
        return KeyedRows.of(keys_of(data), data, deaths=self._deaths[places], order=self._order[places])

    def _rows(self, places: Int64s) -> pa.RecordBatch:
        keys = self._key_rows.get(self._groups[places]) if self._keys else []
        columns = [*keys, *(one.gather(places) for one in self._columns)]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    @property
    def columns(self) -> Sequence[PayloadColumn]:
        """Of the arguments; one column for all that are equal."""
        return self._columns

    @property
    def tables(self) -> tuple[int, int, Int64s, Int64s, Int64s]:
        """Between which two places rows lie; their deaths, orders and groups."""
        return self._tail, self._head, self._deaths, self._order, self._groups

    def came_and_left(self, came: int, left: int) -> None:
        """Rows were written at the end, and the first ones are gone."""
        self._head += came
        self._tail += left

    def make_room(self, count: int) -> None:
        if self._head + count <= self._room:
            return
        tail, held = self._tail, self.held
        # In place if that makes room for as many rows as are moved.
        room = self._room if 2 * held + count <= self._room else 2 * (held + count)
        for column in self._stored.values():
            column.relocate(tail, held, room)
        self._deaths = moved(self._deaths, tail, held, room)
        self._order = moved(self._order, tail, held, room)
        self._groups = moved(self._groups, tail, held, room)
        self._room, self._tail, self._head = room, 0, held
