"""What a join in bounded memory must write down so that the combinations it lost can be found later.

Rows are numbered in their stream, and every push of new rows is a *turn*. Of a row is recorded the turn in which it
came and the turn after which it lost its memory. A combination was given if and only if no member had lost its memory
before the last one came; so the two numbers of each row tell all combinations that are missing:

    the first turn after which a member was gone  <  the last turn in which a member came.

Where losses are counted exactly, only rows that can be part of one are recorded: those that lose their memory, and the
others that a loss is made of, each once. Else all rows are. Of ROWS windows also the deaths are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.model.time import FOREVER_US, Times
from watersmeet.operators.codes import Codes
from watersmeet.operators.contract import Positions, Rows
from watersmeet.operators.join.combinations import held_as_code
from watersmeet.operators.keeping.kernels.slots import Slots
from watersmeet.operators.keeping.store import SheddingStore
from watersmeet.operators.memory_bound import Page
from watersmeet.operators.payload import moved
from watersmeet.operators.row_windows import Deaths
from watersmeet.physical.strategy import Code, JoinStrategy
from watersmeet.plan.expressions import Column, columns_of

INPUT, ROW, TIME, TURN, GONE, DEATH = "#input", "#row", "#time", "#turn", "#gone", "#death"
_OWN = pa.schema([(INPUT, pa.int8()), *((name, pa.int64()) for name in (ROW, TIME, TURN, GONE, DEATH))])

Numbers = npt.NDArray[np.int64]


def columns_to_record(strategy: JoinStrategy, alias: str, selected: Iterable[Column]) -> list[Column]:
    """What a row of a stream must be found again by, and what its results show; its time is recorded anyway."""
    codes = (*strategy.probing_codes(alias), *strategy.stored_codes(alias))
    compared = [code.expression for code in codes]
    shown = [*selected, *(c for e in (*compared, *strategy.residuals, *strategy.verified) for c in columns_of(e))]
    time = next(one.time for one in strategy.join.inputs if one.alias == alias)
    return sorted({c for c in shown if c.stream == alias and c.name != time}, key=lambda c: c.name)


def recorded_schema(columns: Mapping[str, list[Column]]) -> pa.Schema:
    """Records of all streams lie in one table; those of one stream are NULL in the columns of the others."""
    return pa.schema([*_OWN, *(pa.field(f"{a}.{c.name}", c.type) for a, own in columns.items() for c in own)])


@dataclass
class Ledger:
    """What is known of the rows of a stream that have memory, by slot, and what waits to be taken."""

    STATE: ClassVar = ("numbers", "turns", "recorded", "next_number", "waiting")

    numbers: Numbers = field(default_factory=lambda: np.empty(0, np.int64))
    turns: Numbers = field(default_factory=lambda: np.empty(0, np.int64))
    recorded: npt.NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))
    next_number: int = 0
    waiting: list[dict[str, pa.Array]] = field(default_factory=list)

    def make_room(self, slots: int) -> None:
        held = self.numbers.size
        if held < slots:
            self.numbers, self.turns = moved(self.numbers, 0, held, slots), moved(self.turns, 0, held, slots)
            self.recorded = moved(self.recorded, 0, held, slots)


class Recorder:
    """Follows one join in bounded memory. Whoever runs the join takes the records away now and then."""

    STATE = ("turn", "recorded_rows", "taken_rows", "waiting_bytes", "ledgers", "_in_losses", "_told")

    def __init__(
        self,
        columns: Mapping[str, list[Column]],
        code_positions: Mapping[str, Mapping[Code, int]],
        *,
        everything: bool,
    ) -> None:
        self.columns = {alias: list(own) for alias, own in columns.items()}
        self.schema = recorded_schema(self.columns)
        self.everything = everything
        self.turn = 0
        self.recorded_rows = 0
        self.taken_rows = 0
        self.waiting_bytes = 0
        self.ledgers = {alias: Ledger() for alias in columns}
        # Values that are their own codes lie among the codes of a store, not in its payload.
        self._codes = {
            alias: {c.name: code_positions[alias].get(Code(alias, c)) for c in own if held_as_code(c)}
            for alias, own in columns.items()
        }
        self._in_losses: npt.NDArray[np.bool_] | None = None  # of the rows that are being joined
        self._joined: npt.NDArray[np.bool_] | None = None  # the same of those that were, and are being stored
        self._stored_rows = 0  # how many of these are
        self._told = (0, 0)

    # ---- what the join tells ----------------------------------------------------------------------------------------

    def lost(self, visits: Sequence[str], numbers: Codes, new_rows: int, stores: Mapping[str, SheddingStore]) -> None:
        """Some combinations of new rows had members that were gone: their other members are needed too."""
        if self.everything:
            return
        if self._in_losses is None:
            self._in_losses = np.zeros(new_rows, np.bool_)
        self._in_losses[numbers[0]] = True
        for alias, members in zip(visits[1:], numbers[1:], strict=True):
            if alias in stores:
                self._record_members(alias, stores[alias], members)

    def _record_members(self, alias: str, store: SheddingStore, members: Positions) -> None:
        ledger, slots = self.ledgers[alias], store.slot_of[members]
        wanted = slots >= 0
        wanted[wanted] = ~ledger.recorded[slots[wanted]]
        if wanted.any():
            positions = np.unique(members[wanted])
            self._record_stored(alias, store, positions, store.slot_of[positions], None)

    def met(self) -> None:
        """New rows have met all that is stored: whatever goes from now on, they have met it."""
        self.turn += 1
        self._joined, self._in_losses, self._stored_rows = self._in_losses, None, 0

    def stored(self, alias: str, store: SheddingStore, rows: Rows, first: int) -> None:
        """The next of the rows that were joined lie in their store from a position on."""
        ledger, count = self.ledgers[alias], len(rows)
        ledger.make_room(store.free.size)
        slots = store.slot_of[first : first + count]
        if store.serials is not None:
            numbers = store.serials[first : first + count]
        else:
            numbers = np.arange(ledger.next_number, ledger.next_number + count)
            ledger.next_number += count
        ledger.numbers[slots], ledger.turns[slots] = numbers, self.turn
        recorded, before = self._joined, self._stored_rows
        self._stored_rows += count
        if self.everything:
            recorded = np.ones(count, np.bool_)
        elif recorded is not None:
            recorded = recorded[before : before + count]
        ledger.recorded[slots] = False if recorded is None else recorded
        if recorded is not None:
            where = np.flatnonzero(recorded)
            values = {c.name: rows.data.column(c.name).take(pa.array(where)) for c in self.columns[alias]}
            self._record(alias, numbers[where], rows.times[where], np.full(where.size, self.turn), None, values)

    def shed(self, alias: str, store: SheddingStore, positions: Positions, slots: Slots) -> None:
        """Rows have lost their memory just now; their payload is still in their slots."""
        ledger = self.ledgers[alias]
        known = ledger.recorded[slots]
        # What was written down before lacks only the turn after which it was gone.
        if known.any():
            these = slots[known]
            self._add(alias, {ROW: ledger.numbers[these], TIME: store.times[positions[known]], GONE: self.turn})
        if not known.all():
            self._record_stored(alias, store, positions[~known], slots[~known], self.turn)

    def died(self, alias: str, deaths: Deaths) -> None:
        """A ROWS window has pushed rows out."""
        sure = deaths.times != FOREVER_US
        numbers = np.concatenate([deaths.pushed_out, deaths.serials[sure]])
        if numbers.size:
            self._add(alias, {ROW: numbers, DEATH: np.concatenate([deaths.pushed_out_at, deaths.times[sure]])})

    # ---- records ----------------------------------------------------------------------------------------------------

    def _record_stored(
        self, alias: str, store: SheddingStore, positions: Positions, slots: Slots, gone: int | None
    ) -> None:
        ledger, codes = self.ledgers[alias], self._codes[alias]
        ledger.recorded[slots] = True
        values: dict[str, pa.Array] = {}
        for column in self.columns[alias]:
            code = codes.get(column.name)
            if code is None:
                values[column.name] = store.columns[column.name].gather_slots(slots)
            else:
                values[column.name] = pa.array(store.codes[code][positions]).view(column.type)
        self._record(alias, ledger.numbers[slots], store.times[positions], ledger.turns[slots], gone, values)

    def _record(
        self,
        alias: str,
        numbers: Numbers,
        times: Times,
        turns: Numbers,
        gone: int | None,
        values: Mapping[str, pa.Array],
    ) -> None:
        self.recorded_rows += numbers.size
        own: dict[str, Numbers | int] = {ROW: numbers, TIME: times, TURN: turns}
        self._add(
            alias,
            own if gone is None else {**own, GONE: gone},
            {f"{alias}.{name}": column for name, column in values.items()},
        )

    def _add(self, alias: str, own: Mapping[str, Numbers | int], values: Mapping[str, pa.Array] | None = None) -> None:
        count = len(own[ROW])  # type: ignore[arg-type]
        filled = {name: pa.array(np.full(count, v) if isinstance(v, int) else v) for name, v in own.items()}
        record = {**filled, **(values or {})}
        self.ledgers[alias].waiting.append(record)
        self.waiting_bytes += 8 * count * len(filled) + sum(_size(column) for column in (values or {}).values())

    def take(self, results: int, lost: int | None) -> Page:
        """All that was recorded since the last time; the join has given and lost so many in all, as far as it knows."""
        lost = None if self.everything else lost
        tables = [self._table(i, ledger.waiting) for i, ledger in enumerate(self.ledgers.values()) if ledger.waiting]
        for ledger in self.ledgers.values():
            ledger.waiting = []
        self.waiting_bytes, self.taken_rows = 0, self.recorded_rows
        # Promoted: what a record does not tell, and the columns of other streams, are NULL.
        records = pa.concat_tables([self.schema.empty_table(), *tables], promote_options="default")
        before, self._told = self._told, (results, lost or 0)
        return Page(records, results - before[0], None if lost is None else lost - before[1])

    def _table(self, number: int, waiting: list[dict[str, pa.Array]]) -> pa.Table:
        table = pa.concat_tables((pa.table(one) for one in waiting), promote_options="default")
        return table.append_column(INPUT, pa.array(np.full(table.num_rows, number, np.int8)))


def _size(column: pa.Array) -> int:
    """About how many bytes; Arrow takes long to say it exactly."""
    return 8 * len(column) if pa.types.is_primitive(column.type) else int(column.nbytes)
