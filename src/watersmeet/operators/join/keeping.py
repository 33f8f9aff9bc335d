"""What a join keeps of its rows, whom it lets in and what it accounts for; and the way in which most joins do that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import ClassVar

import pyarrow as pa

from watersmeet.operators.codes import Codes
from watersmeet.operators.contract import Counters, Positions, Rows
from watersmeet.operators.few_rows import Cells
from watersmeet.operators.join.door import Admitted, Door
from watersmeet.operators.join.layout import Layout
from watersmeet.operators.join.program import OUTPUT_ROWS, Program
from watersmeet.operators.join.window_store import WindowStore
from watersmeet.operators.memory_bound import MemoryBound
from watersmeet.operators.payload import FixedColumn, PayloadColumn
from watersmeet.operators.row_windows import Deaths
from watersmeet.physical.strategy import Code, JoinStrategy
from watersmeet.plan.expressions import Column, Expression


class Keeping:
    """Keeps every row as long as it can match, and lets every row in that can.

    A join owns the walk: it asks the `stores`, and its rows come through the `door`. Its way of keeping is told of
    everything else that happens, in this order: rows come (`pieces`, or `rounds` with `died`), combinations are found
    (`whole`), the rows were joined (`joined`) or need not be (`store`), time goes on (`advanced`). Ways that keep less,
    or account for more, answer these moments differently.
    """

    # What rows and time change beside the stores and the ROWS windows, which the join saves itself.
    STATE: ClassVar[tuple[str, ...]] = ("counters",)
    # Whether rows lie in stores with those of other joins, and may be there already.
    shares: ClassVar[bool] = False

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.row_windows = layout.row_windows()
        self.stores: dict[str, WindowStore] = {alias: self.make_store(alias) for alias in layout.looked_up}
        self.door = Door(layout)
        self._counters = Counters()

    @property
    def keeps_all(self) -> bool:
        """Whether nothing else happens at these moments than what is written here."""
        return type(self) in (Keeping, JoinedAgain)

    def is_own(self, alias: str) -> bool:
        """Whether all that lies in the store of an input is its own."""
        return True

    def make_store(self, alias: str) -> WindowStore:
        layout = self.layout
        codes = len(layout.code_positions[alias])
        keys = layout.index_keys(alias)
        return WindowStore(codes, *keys, layout.payload(alias, self.more_of(alias)), counted=alias in layout.mortal)

    def more_of(self, alias: str) -> Sequence[Expression]:
        """What is stored of an input beside what results need."""
        return ()

    @property
    def elsewhere(self) -> frozenset[str]:
        """The inputs whose rows lie where others look for them as well, and are saved there."""
        return frozenset()

    # ---- what is accounted ------------------------------------------------------------------------------------------

    @property
    def counters(self) -> Counters:
        return self._counters

    @property
    def kept_rows(self) -> int:
        return sum(map(self.rows_of, self._streams))

    @property
    def state_bytes(self) -> int:
        return sum(map(self.bytes_of, self.stores))

    @property
    def held_by_input(self) -> dict[str, tuple[int, int]]:
        return {alias: (self.rows_of(alias), self.bytes_of(alias)) for alias in self._streams}

    @property
    def _streams(self) -> list[str]:
        return [alias for alias in self.stores if not self.layout.inputs[alias].is_table]

    def rows_of(self, alias: str) -> int:
        return len(self.stores[alias])

    def bytes_of(self, alias: str) -> int:
        return self.stores[alias].nbytes

    @property
    def piece_rows(self) -> int | None:
        """How many rows of a stream are best pushed at a time; None: any number."""
        return None

    @property
    def rows_in_hand(self) -> int | None:
        """How many rows of each stream are best taken together, with what is kept of them decided before they are
        joined (see `hands`, `in_hand`); None: nothing is to be decided."""
        return None

    @property
    def bounded(self) -> MemoryBound | None:
        """What may be asked of a bound on the memory, if there is one."""
        return None

    # ---- moments ----------------------------------------------------------------------------------------------------

    def pieces(self, alias: str, rows: Rows) -> Iterable[Rows]:
        """New rows of one input: the pieces to join and store one after another."""
        return (rows,)

    def rounds(self, batch: Mapping[str, Rows], *, quietly: bool) -> Iterable[Mapping[str, Rows]]:
        """Rows of several inputs, complete up to one instant: the parts to take one after another, each complete up to
        an instant too. With `quietly` they were joined before."""
        return (batch,)

    def steps(self, batch: Mapping[str, Rows]) -> Iterable[tuple[Mapping[str, Rows], int | None]] | None:
        """A whole batch of a host: the parts to take one after another, each with the time it is complete up to, if
        time may go on after it. None: one input after another, then time."""
        return None

    def hands(self, batch: Mapping[str, Rows]) -> Iterable[tuple[Mapping[str, Rows], int]]:
        """A whole batch: the parts to take in hand in turn, each with the time before which it is complete."""
        raise AssertionError("nothing is to be decided")

    def in_hand(self, admitted: Mapping[str, Admitted], watermarks: Mapping[str, int]) -> AbstractContextManager[None]:
        """Rows of several inputs come, after which time may go on so far. While this lasts they are joined, then time
        goes on."""
        raise AssertionError("nothing is to be decided")

    def moments(self, batch: Mapping[str, Rows]) -> Sequence[int]:
        """Instants up to which the rows of a batch should be given one after the other, before the rest."""
        return ()

    def died(self, deaths: Mapping[str, Deaths]) -> None:
        """ROWS windows have taken in new rows, which push others out."""

    def walk(self, program: Program, admitted: Admitted) -> Iterator[tuple[Codes, Rows | None]]:
        """New rows of one input look for partners: the combinations that are found (see Program.run), in pieces, and
        the new rows, if these do not lie in their store already."""
        for numbers in program.found(admitted, self.stores, OUTPUT_ROWS):
            yield numbers, admitted.rows

    def whole(self, visits: Sequence[str], numbers: Codes, rows: Rows) -> Iterable[Codes]:
        """Combinations of new rows were found (see Program.run): those to answer with, in any number of pieces."""
        return (numbers,)

    def joined(self, alias: str, admitted: Admitted) -> None:
        """Rows have met all that is stored."""
        self.store(alias, admitted)

    def store(self, alias: str, admitted: Admitted) -> None:
        """Keep rows, so that others meet them."""
        store = self.stores.get(alias)
        if store is None or len(admitted) == 0:
            return
        put(store, admitted, self.layout.code_positions[alias])
        if alias not in self.layout.uncounted:
            self.counters.stored_rows += len(admitted)

    def expire(self, alias: str, cutoff_us: int) -> int:
        """Forget rows of an input that are older than the cutoff; returns how many."""
        return self.stores[alias].expire(cutoff_us)

    def since(self, alias: str, instant_us: int) -> Positions | None:
        """Where all its rows of an input lie that are not older than an instant, in the order of their times; None: it
        does not have them all."""
        return self.stores[alias].since(instant_us) if self.keeps_all else None

    def index_by(self, alias: str, strategy: JoinStrategy) -> None:
        """Rows of an input are to be found by the routes of this strategy from now on."""
        self.stores[alias].index_by(*self.layout.index_keys(alias, strategy))

    def advanced(self, complete_until: int) -> None:
        """No row before this time will come any more, of any input; rows that nothing can reach are gone."""

    def restored(self, complete_until: int) -> None:
        """Rows were stored that were joined in another life, up to this time. Counting begins anew."""
        self._counters = Counters()

    def undivided(self, *, at_rest: bool) -> str | None:
        """Why the rows of all keys belong together, if they do."""
        return None if self.keeps_all else "rows of all keys share the memory that is bounded"

    def be_at_rest(self) -> None:
        """What was put off is done, before the rows are taken over elsewhere."""

    def taken_over(self) -> None:
        """Rows that were kept elsewhere were put into the stores."""

    def count_on(self, counters: Counters) -> None:
        """Count on from where others had come."""
        self._counters = counters


class JoinedAgain(Keeping):
    """Stores what it takes to join a row once more, as it leaves."""

    def __init__(self, layout: Layout, again: Mapping[str, pa.Schema]) -> None:
        self._again = again
        super().__init__(layout)

    def more_of(self, alias: str) -> Sequence[Expression]:
        return [Column(alias, field.name, field.type) for field in self._again.get(alias, ())]


def put(store: WindowStore, admitted: Admitted, codes: Iterable[Code]) -> None:
    """Append rows to their store, which holds these codes of them."""
    rows, deaths = admitted.rows, admitted.deaths
    payload = stored_payload(rows, store.payload)
    own = [admitted.codes[code] for code in codes]
    if deaths is None:
        store.append(rows.times, own, payload)
    else:
        store.append(rows.times, own, payload, deaths.serials, deaths.times)


def stored_payload(rows: Rows, columns: Mapping[str, PayloadColumn]) -> dict[str, pa.Array | Cells]:
    """What goes into some columns of a store."""
    return {name: _payload(rows, name, column) for name, column in columns.items()}


def _payload(rows: Rows, name: str, column: PayloadColumn) -> pa.Array | Cells:
    """The values of a column as whoever stores them takes them soonest."""
    cells = rows.cells(name) if isinstance(column, FixedColumn) else None
    return rows.data.column(name) if cells is None else cells
