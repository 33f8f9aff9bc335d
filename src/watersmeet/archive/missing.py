"""The combinations that a join in bounded memory lost, found in what it recorded (see recording).

The exact join over the recorded rows, of which only those combinations are kept that were not given. It asks nothing
of the order in which rows come, so any stretch of time can be completed on its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.dataclass import dataclass
from watersmeet.model.time import BEGINNING_US, FOREVER_US, Times
from watersmeet.model.windows import RowsWindow
from watersmeet.operators.codes import Codes, Mask
from watersmeet.operators.contract import Rows
from watersmeet.operators.join.keeping import Keeping
from watersmeet.operators.join.layout import Layout
from watersmeet.operators.join.window_join import WindowJoin
from watersmeet.operators.join.window_store import WindowStore
from watersmeet.operators.keeping.recording import DEATH, GONE, INPUT, ROW, TIME, TURN, Numbers, columns_to_record
from watersmeet.operators.payload import payload_column
from watersmeet.operators.row_windows import Deaths
from watersmeet.physical.strategy import JoinStrategy
from watersmeet.plan.expressions import Expression, columns_of

PIECE_ROWS = 1 << 16
_NO_NUMBERS = np.empty(0, np.int64)


@dataclass(frozen=True)
class Stretch:
    """What is to be completed: combinations whose newest member lies in [from_us, until_us), and whose last member came
    in a turn after `after_turn` and up to `to_turn`."""

    from_us: int = BEGINNING_US
    until_us: int = FOREVER_US
    after_turn: int = 0
    to_turn: int = FOREVER_US


@dataclass(frozen=True)
class Recorded:
    """The recorded rows of one stream."""

    rows: Rows
    numbers: Numbers
    deaths: Times

    def between(self, from_us: int, until_us: int) -> Iterator[tuple[Rows, Deaths]]:
        """Those of a time, in pieces."""
        wanted = np.flatnonzero((self.rows.times >= from_us) & (self.rows.times < until_us))
        for start in range(0, wanted.size, PIECE_ROWS):
            piece = wanted[start : start + PIECE_ROWS]
            yield self.rows.take(piece), Deaths(self.numbers[piece], self.deaths[piece], _NO_NUMBERS, _NO_NUMBERS)


class NotGiven(Keeping):
    """Keeps with every row when it came and when it was gone; and answers only with combinations that were not given
    when they came about, if that was after some turn."""

    def __init__(self, layout: Layout, after_turn: int) -> None:
        super().__init__(layout)
        self.after_turn = after_turn

    def make_store(self, alias: str) -> WindowStore:
        store = super().make_store(alias)
        if not self.layout.inputs[alias].is_table:
            store.payload |= {name: payload_column(pa.int64(), store.capacity) for name in (TURN, GONE)}
        return store

    def whole(self, visits: Sequence[str], numbers: Codes, rows: Rows) -> Iterator[Codes]:
        missing = self._are_missing(visits, numbers, rows)
        if missing.any():
            yield numbers[:, missing]

    def _are_missing(self, visits: Sequence[str], numbers: Codes, rows: Rows) -> Mask:
        came, gone = (_int64(rows.data.column(name))[numbers[0]] for name in (TURN, GONE))
        for alias, members in zip(visits[1:], numbers[1:], strict=True):
            payload = self.stores[alias].payload
            # Static tables were always there.
            if TURN in payload:
                came = np.maximum(came, _int64(payload[TURN].gather(members)))
                gone = np.minimum(gone, _int64(payload[GONE].gather(members)))
        # Some member was gone before the last one came. `gone` is the last turn in which a row was there.
        missing: Mask = (gone < came) & (came > self.after_turn)
        return missing


class MissingJoin:
    """Finds the combinations that are missing from an answer."""

    def __init__(self, strategy: JoinStrategy, columns: tuple[tuple[str, Expression], ...], stretch: Stretch) -> None:
        counted = [one.alias for one in strategy.join.streams if isinstance(one.window, RowsWindow)]
        self.stretch = stretch
        self.streams = [one.alias for one in strategy.join.streams]
        selected = {c for _, e in columns for c in columns_of(e)}
        self.recorded = {alias: columns_to_record(strategy, alias, selected) for alias in self.streams}
        # What was recorded has passed its stream's own filters; static tables have not.
        filters = {alias: tests for alias, tests in strategy.filters.items() if alias not in self.streams}
        keeping = partial(NotGiven, after_turn=stretch.after_turn)
        self.joining = WindowJoin(replace(strategy, filters=filters), columns, keeping=keeping, announced=counted)
        self.mortal = set(counted)

    def load_table(self, alias: str, data: pa.RecordBatch) -> None:
        self.joining.load_table(alias, data)

    def complete(self, records: pa.Table) -> Iterator[pa.RecordBatch]:
        """The missing combinations of the stretch, from all the records it needs."""
        stretch = self.stretch
        held = {alias: self._recorded(number, alias, records) for number, alias in enumerate(self.streams)}
        # Rows before the stretch are only kept; every combination with a newest member in it is found below, once.
        for alias, recorded in held.items():
            for rows, deaths in recorded.between(self.needed_from_us(alias), stretch.from_us):
                self.joining.store(alias, rows, deaths if alias in self.mortal else None)
        for alias, recorded in held.items():
            for rows, deaths in recorded.between(stretch.from_us, stretch.until_us):
                yield from self.joining.join_and_keep(alias, rows, deaths if alias in self.mortal else None)

    def needed_from_us(self, alias: str) -> int:
        """How old a row of a stream may be to be part of a combination of the stretch."""
        if self.stretch.from_us <= BEGINNING_US:
            return BEGINNING_US
        reached = dict.fromkeys(self.joining.windows.streams, self.stretch.from_us)
        # Rows of the stretch itself are not kept beforehand: they are joined.
        return min(self.joining.cutoff_us(alias, reached), self.stretch.from_us)

    def _recorded(self, number: int, alias: str, records: pa.Table) -> Recorded:
        own = records.filter(pc.equal(records[INPUT], number))
        # By turn only the rows are cut: that a row was gone may have been recorded much later.
        rows = own.filter(pc.and_(pc.is_valid(own[TURN]), pc.less_equal(own[TURN], self.stretch.to_turn)))
        numbers = _int64(rows[ROW])
        gone = _by_number(own, GONE, numbers)
        one = self.joining.inputs[alias]
        assert one.time is not None
        time = rows[TIME].combine_chunks()
        values = {column.name: rows[f"{alias}.{column.name}"] for column in self.recorded[alias]}
        # Records have times as integers; here they become the column that they were.
        values |= {one.time: time.view(one.schema.field(one.time).type), TURN: rows[TURN], GONE: pa.array(gone)}
        data = pa.table(values).combine_chunks().to_batches()
        batch = data[0] if data else pa.RecordBatch.from_pylist([], schema=pa.table(values).schema)
        return Recorded(Rows(batch, _int64(time)), numbers, _by_number(own, DEATH, numbers))


def _int64(column: pa.Array | pa.ChunkedArray) -> Numbers:
    values: Numbers = column.to_numpy(zero_copy_only=False) if isinstance(column, pa.Array) else column.to_numpy()
    return values.astype(np.int64, copy=False)


def _by_number(own: pa.Table, name: str, numbers: Numbers) -> Numbers:
    """What was recorded of rows under a name, with the row or later; FOREVER_US where nothing was."""
    not_null = own.filter(pc.is_valid(own[name]))
    keys, values = _int64(not_null[ROW]), _int64(not_null[name])
    order = np.argsort(keys, kind="stable")
    keys, values = keys[order], values[order]
    found = np.searchsorted(keys, numbers)
    known = found < keys.size
    known[known] = keys[found[known]] == numbers[known]
    result = np.full(numbers.size, FOREVER_US, np.int64)
    result[known] = values[found[known]]
    return result
