"""What a few new rows do in a join, with as few calls as can be: they find their partners, and settle in their store.

It is the usual way (WindowJoin) with everything looked up once that does not change from push to push. Whatever is not
as it mostly is (NULLs, a store without room, very many combinations) goes the usual way, before anything has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from enum import Enum

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.operators.answers import Answer, FewAnswers
from watersmeet.operators.codes import Codes
from watersmeet.operators.contract import Rows
from watersmeet.operators.few_columns import FewColumns
from watersmeet.operators.few_rows import cell_of, cells_of
from watersmeet.operators.join.combinations import own_code
from watersmeet.operators.join.layout import Layout
from watersmeet.operators.join.program import Program
from watersmeet.operators.join.window_store import WindowStore
from watersmeet.operators.kernels import few
from watersmeet.operators.kernels.memory import HALF_WORDS, address
from watersmeet.operators.kernels.walk import HEAD, SLACK, TAIL
from watersmeet.operators.payload import FixedColumn
from watersmeet.physical.strategy import Code
from watersmeet.plan.expressions import Column, EventTime

# More combinations than this go the usual way.
MOST_FOUND = 1024

Table = npt.NDArray[np.int64]
Stores = Mapping[str, WindowStore]
Plain = Column | EventTime
# Makes an answer of the numbers of all combinations, and the new rows.
Select = Callable[[Codes, Rows], Answer | None]


class Way(Enum):
    USUAL = 0


class FewStep:
    """New rows of one input, the origin of a program, among stores that keep all rows."""

    def __init__(
        self,
        program: Program,
        layout: Layout,
        stores: Stores,
        codes: Sequence[Code],
        columns: Sequence[Plain] | None,
        timeless: Collection[str],
        schema: pa.Schema,
        select: Select,
        *,
        settles: bool = True,
    ) -> None:
        """columns: those of the answers, if all are plain and of fixed width; if not, `select` makes the answers.
        timeless: the inputs whose times are no event times. settles: if not, somebody else stores the rows."""
        self._program, self._layout, self._stores = program, layout, stores
        self._columns, self._schema, self._select = columns, schema, select
        self._origin = program.visits[0]
        self._own = stores.get(self._origin) if settles else None
        self._given = layout.inputs[self._origin].schema
        # The columns that are read of new rows are sources of `few.settle`, as `FewColumns` tells where they lie.
        self._columns_given = FewColumns(self._given)
        self._read: list[int] = []
        self._codes = {
            code: self._source(code.expression.name) for code in codes if isinstance(code.expression, Column)
        }
        payload = {} if self._own is None else self._own.payload
        self._payload = [
            (column, self._source(name)) for name, column in payload.items() if isinstance(column, FixedColumn)
        ]
        self._others = [(name, column) for name, column in payload.items() if not isinstance(column, FixedColumn)]
        self._timed = [not layout.inputs[one].is_table and one not in timeless for one in program.visits]
        held = [one for one in columns or () if isinstance(one, Column)]
        self._new = {one: self._source(one.name) for one in held if one.stream == self._origin}
        stored = [self._held(one) for one in held if one.stream != self._origin]
        self._without_nulls = [column for column, _ in self._payload]
        self._without_nulls += [column for column in stored if isinstance(column, FixedColumn)]
        self._out = np.empty((len(program.visits), MOST_FOUND), np.int64)
        self._words = np.empty((len(columns or ()), MOST_FOUND), np.int64)
        self._all_stores = list(stores.values())
        # Where the tables say where rows begin and end in the stores, which changes with every append and expiry.
        self._ends = [(row.data, stores[name]) for name, row in program.steps_to]
        # How often the program was aimed and the stores had moved when the tables were written.
        self._aimed_at = -1

    def _source(self, name: str) -> int:
        source = 1 + int(self._given.get_field_index(name))
        if source not in self._read:
            self._read.append(source)
        return source

    # ---- rows come --------------------------------------------------------------------------------------------------

    def take(self, rows: Rows) -> Answer | Way | None:
        """The answer that the rows make, if they make one; they are stored then."""
        sources = None if rows.coded is not None else self._columns_given.addresses(rows)
        # Where a column has NULLs it goes the usual way, too.
        if sources is None or not all(map(sources.item, self._read)) or not self._is_ready(rows):
            return Way.USUAL
        for ends, store in self._ends:
            ends[TAIL], ends[HEAD], ends[SLACK] = store.tail, store.head, store.disorder_us
        own, count = self._own, rows.times.size
        first, newest_us = (0, 0) if own is None else (own.head, own.newest_us)
        self._program.generation += 1
        found, furthest_us, newest_us = few.step(self._tables, sources, count, self._out, self._words, first, newest_us)
        if found < 0:
            return Way.USUAL
        if own is not None:
            for name, column in self._others:
                column.append(rows.data.column(name), first)
            own.took(count, furthest_us, newest_us)
        if not found:
            return None
        if self._columns is None:
            return self._select(self._out[:, :found], rows)
        return FewAnswers(self._schema, self._words[:, :found].copy())

    # ---- and stores move --------------------------------------------------------------------------------------------

    def _is_ready(self, rows: Rows) -> bool:
        """Whether there is room for the rows, and the tables are as the stores are."""
        for column in self._without_nulls:
            if column.valid is not None:
                return False
        moves = self._program.aims
        for store in self._all_stores:
            moves += store.moves
        if moves != self._aimed_at:
            self._aim(rows)
        own = self._own
        if own is None:
            return True
        end = own.head + rows.times.size
        return end <= own.capacity and end <= own.tail + self._most_indexed

    def _aim(self, rows: Rows) -> None:
        """Write down where everything lies that is stored."""
        arrays = {code: cells_of(rows.data.column(source - 1)) for code, source in self._codes.items()}
        probing = {code: cells for code, cells in arrays.items() if cells is not None}
        program = self._program
        entries = program.aim(self._stores, probing)
        at = [[address(table[row]) + field * table.itemsize, self._codes[code]] for table, row, field, code in entries]
        self._aims = np.array(at, np.int64).reshape(-1, few.AIM_FIELDS)
        self._aim_places()
        self._aim_copies()
        self._tables = np.zeros(few.TABLES, np.int64)
        self._tables[few.IS_STAR : few.PAIRWISE] = [program.is_star, *program.tables]
        self._tables[few.PAIRWISE : few.AIMS] = program.pairwise, *program.lists_at
        self._tables[few.AIMS : few.INDEX_FIELDS] = [
            value
            for table in (self._aims, self._places, self._moments, self._copies, self._indexes)
            for value in (address(table), len(table))
        ]
        self._tables[few.INDEX_FIELDS] = self._indexes.shape[1]
        self._aimed_at = program.aims + sum(store.moves for store in self._all_stores)

    def _held(self, column: Column) -> FixedColumn | Table:
        """What a store has of a column: payload, the event times, or a code that is the column's own."""
        store = self._stores[column.stream]
        payload = store.payload.get(column.name)
        if payload is not None:
            assert isinstance(payload, FixedColumn)
            return payload
        if column.name == self._layout.inputs[column.stream].time:
            return store.times
        codes: Table = store.codes[self._layout.code_positions[column.stream][Code(column.stream, column)]]
        return codes

    def _aim_places(self) -> None:
        columns, visits = self._columns or (), self._program.visits
        self._places = np.zeros((len(columns), few.PLACE_FIELDS), np.int64)
        for place, column in zip(self._places, columns, strict=True):
            if isinstance(column, EventTime):
                place[few.VISIT] = few.NEWEST
                continue
            base = self._new[column] if column in self._new else self._address(column)
            place[:] = visits.index(column.stream), base, column.type.bit_width // 8
        stored = [address(self._stores[one].times) if one in self._stores else 0 for one in visits[1:]]
        self._moments = np.array([few.NEW_ROWS, *stored], np.int64) * self._timed

    def _address(self, column: Column) -> int:
        held = self._held(column)
        array = held.values if isinstance(held, FixedColumn) else held
        return address(array, array.dtype)

    def _aim_copies(self) -> None:
        own = self._own
        self._copies = np.zeros((0, few.COPY_FIELDS), np.int64)
        self._indexes = np.zeros((0, few.FIRST_KEY), np.int64)
        self._most_indexed = 0
        if own is None:
            return
        # With more rows than heads an index grows, which is done the usual way.
        self._most_indexed = min((one.heads.size for one in own.hash_indexes.values()), default=own.capacity)
        codes = list(self._layout.code_positions[self._origin])
        copied = [(own.times, few.TIMES)]
        copied += [(own.codes[i], self._codes[code]) for i, code in enumerate(codes)]
        copied += [(column.values, source) for column, source in self._payload]
        self._copies = np.array([[address(a, a.dtype), source, a.itemsize] for a, source in copied], np.int64)
        self._indexes = np.zeros((len(own.hash_indexes), few.FIRST_KEY + len(codes)), np.int64)
        for row, (key, index) in zip(self._indexes, own.hash_indexes.items(), strict=True):
            heads, following = address(index.heads, HALF_WORDS), address(index.following, HALF_WORDS)
            row[: few.FIRST_KEY] = heads, following, index.shift, len(key)
            row[few.FIRST_KEY : few.FIRST_KEY + len(key)] = [self._codes[codes[position]] for position in key]


def takes_few(program: Program, layout: Layout, stores: Stores, codes: Sequence[Code]) -> bool:
    """Whether rows of the origin may take this way: they live as long as time lets them, codes are columns, and sorted
    indexes, which are rebuilt with every row, are not used."""
    origin = program.visits[0]
    return (
        not program.counted
        and all(own_code(code.expression) for code in codes)
        and all(step.access != "sorted" for step in program.route.steps)
        and (origin not in stores or not stores[origin].sorted_indexes)
    )


def plain_columns(layout: Layout) -> list[Plain] | None:
    """The columns of the answers, if nothing is computed or tested for them and all are of fixed width."""
    chosen = [e for _, e in layout.columns if isinstance(e, Plain) and cell_of(e.type) is not None]
    return chosen if len(chosen) == len(layout.columns) else None
