"""All that a host may know of an operator: it takes batches and time, gives batches, and can be remembered.

A host never asks what an operator is. What only some operators have (rows that wait, memory that is bounded, static
tables) every operator can be asked for, and the others have none.

What it holds can be had in three ways: the rows that would rebuild it (`still_needed`, `restore`), named arrays as they
are (`save`, `load`), and rows with keys that any number of operators of the plan can share (`keyed_state`,
`take_over`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.model.time import BEGINNING_US, Times
from watersmeet.operators.answers import Answer
from watersmeet.operators.counters import Counters as Counters
from watersmeet.operators.few_rows import Cells, cells_of, picked_from, rows_taken
from watersmeet.operators.kept_rows import KeptRows
from watersmeet.operators.keyed_state import KeyedState
from watersmeet.operators.memory_bound import MemoryBound
from watersmeet.operators.saving import Saved, load_state, state_of

if TYPE_CHECKING:  # they compute keys, and many read rows who compute nothing
    from watersmeet.operators.codes import Codes
    from watersmeet.operators.partition_key import PartitionKey
    from watersmeet.physical.strategy import Code

Results = Iterator[pa.RecordBatch]
Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, init=False)
class Rows:
    """Rows of one input in arrival order, with their event times.

    `coded`: the door of a join (join/admission) let these rows in before, elsewhere, and the codes it made of them lie
    in these columns of `data`, by the codes' words. Nobody needs to filter or encode them again; what only that needed
    may be missing.
    """

    STATE: ClassVar = ("data", "times", "coded")

    data: pa.RecordBatch
    times: Times
    coded: Mapping[str, str] | None = None

    def __init__(self, data: pa.RecordBatch, times: Times, coded: Mapping[str, str] | None = None) -> None:
        # What a frozen dataclass does itself takes three times as long, which a push of a few rows feels.
        own = self.__dict__
        own["data"], own["times"], own["coded"] = data, times, coded

    def __len__(self) -> int:
        return int(self.times.size)

    def cells(self, name: str) -> Cells | None:
        """The values of a column as NumPy has them (see `cells_of`), looked up once."""
        known: dict[str, Cells | None] = self.__dict__.setdefault("_cells", {})
        if name not in known:
            known[name] = cells_of(self.data.column(name))
        return known[name]

    @property
    def first_us(self) -> int:
        """The earliest of its times, of which there must be one; looked up once."""
        known: int | None = self.__dict__.get("_first_us")
        if known is None:
            known = self.times.item(0) if self.in_order else int(self.times.min())
            self.__dict__["_first_us"] = known
        return known

    @property
    def in_order(self) -> bool:
        """Whether its rows come in the order of their times; looked up once."""
        known: bool | None = self.__dict__.get("_in_order")
        if known is None:
            known = self.__dict__["_in_order"] = bool((self.times[1:] >= self.times[:-1]).all())
        return known

    def is_in_order(self) -> None:
        """Said by whoever knows."""
        self.__dict__["_in_order"] = True

    def take(self, positions: Positions) -> Rows:
        return Rows(rows_taken(self.data, positions), picked_from(self.times, positions), self.coded)

    def slice(self, start: int, stop: int) -> Rows:
        piece = Rows(self.data.slice(start, stop - start), self.times[start:stop], self.coded)
        if self.__dict__.get("_in_order"):
            piece.is_in_order()
        return piece

    def only(self, columns: Collection[str]) -> Rows:
        """With some of the columns: who picks some rows copies no others."""
        names = [name for name in self.data.schema.names if name in columns]
        if len(names) == self.data.num_columns:
            return self
        kept = Rows(self.data.select(names), self.times, self.coded)
        if self.in_order:
            kept.is_in_order()
        return kept

    def in_time_order(self) -> Rows:
        """The same rows by their times, those of equal time as they came."""
        return self if self.in_order else self.take(np.argsort(self.times, kind="stable"))

    @staticmethod
    def together(parts: Sequence[Rows]) -> Rows:
        """Several pieces of one input, at least one, as one."""
        if len(parts) == 1:
            return parts[0]
        try:
            data = pa.concat_batches([part.data for part in parts])
        except pa.ArrowInvalid:  # some were taken in by another host, which left behind what nobody asks for
            shared = [
                name for name in parts[0].data.schema.names if all(name in one.data.schema.names for one in parts)
            ]
            data = pa.concat_batches([part.data.select(shared) for part in parts])
        # Rows of one input came through one door, so all parts are coded alike.
        return Rows(data, np.concatenate([part.times for part in parts]), parts[0].coded)


@dataclass(frozen=True)
class WaitingRows:
    """The rows of one input that an operator has taken and not answered yet, and their first and last time."""

    rows: int
    oldest_us: int
    newest_us: int

    def and_also(self, others: WaitingRows | None) -> WaitingRows:
        if others is None:
            return self
        oldest_us, newest_us = min(self.oldest_us, others.oldest_us), max(self.newest_us, others.newest_us)
        return WaitingRows(self.rows + others.rows, oldest_us, newest_us)


@dataclass(frozen=True)
class End:
    """Where all input had come to an end, and everything was answered, before it went on after all."""

    answered_us: int  # the latest instant that was answered for; rows up to it are late if any come after all
    newest_us: Mapping[str, int] = field(default_factory=dict)  # the last time of each input, where it matters


class Operator(ABC):
    """Inputs are named by their alias in the query.

    The answers given here are those of an operator that holds nothing back and is rebuilt from its rows.
    """

    counters: Counters
    STATE: ClassVar[tuple[str, ...]]  # the fields that rows and time change (see saving.py)

    # ---- what a host goes by ----------------------------------------------------------------------------------------

    @property
    def piece_rows(self) -> int | None:
        """How many rows of a stream are best pushed at a time, if that matters."""
        return None

    @property
    def read_rows(self) -> int | None:
        """The same where a host reads streams in turns, and so may choose how far one gets ahead of the others."""
        return self.piece_rows

    @property
    def together_rows(self) -> int | None:
        """How many rows of each stream are best given together (`take`), where a host has them at hand, if that
        matters."""
        return None

    @property
    def lag_us(self) -> int:
        """For how long rows that time has passed may still wait to be joined, in event time."""
        return 0

    @property
    def wake_us(self) -> int | None:
        """The instant from which on there is something to answer, although nothing comes in; None if there is none."""
        return None

    @property
    def to_come(self) -> int:
        """How many more answers, at least, the rows and the time that are being answered will bring about; 0 if that is
        not known. To be asked for between two of the results of a call."""
        return 0

    @property
    def goes_on(self) -> bool:
        """Whether rows may come after `finish`; if not, it has to be rebuilt for them."""
        return True

    @property
    def parts(self) -> int:
        """How many operators of the plan it is, each with the rows of its keys."""
        return 1

    @property
    def is_kept_whole(self) -> bool:
        """Whether its rows alone do not tell its state, so that a host keeps what `save` gives and not its rows."""
        return False

    @property
    def bounded(self) -> MemoryBound | None:
        """The bound on its memory, if there is one."""
        return None

    @property
    def delays(self) -> Mapping[str, float] | None:
        """How late changes were noticed, mean and longest in seconds, where that may be later than they happened."""
        return None

    # ---- rows and time ----------------------------------------------------------------------------------------------

    @abstractmethod
    def push(self, alias: str, rows: Rows) -> Results:
        """Take new rows; results that are certain come at once, in blocks, of which some have no rows: between two of
        them whoever takes them may stop for good."""

    def answers_to(self, alias: str, rows: Rows) -> Iterable[Answer]:
        """The same; a few results are there at once, as a list, and their columns may be left to whoever asks for
        them."""
        return self.push(alias, rows)

    @abstractmethod
    def advance(self, watermarks: Mapping[str, int]) -> Results:
        """No row before these times will come any more: emit what waited for that, forget what it makes useless."""

    def answers_until(self, watermarks: Mapping[str, int]) -> Iterable[Answer]:
        """The same, as `answers_to` is what `push` gives."""
        return self.advance(watermarks)

    def settle(self) -> Iterable[pa.RecordBatch]:
        """Nothing more is at hand for now: answer what waits here only in the hope of a better order. A list is there
        at once."""
        return []

    def take(self, batch: Mapping[str, Rows], watermarks: Mapping[str, int]) -> Results:
        """Rows of several inputs that came together, each in time order, then time: all that one batch of a host
        brings."""
        for alias, rows in batch.items():
            yield from self.push(alias, rows)
        yield from self.advance(watermarks)

    def over_nothing(self) -> Results:
        """Of a fresh operator: the answer where no row has come of any input."""
        yield from ()

    def finish(self, newest_us: int) -> Generator[pa.RecordBatch, None, End]:
        """Nothing more will come, and nothing newer than this has: answer all that waits. Returns what a `restore` is
        to know of it if more comes after all."""
        yield from ()
        return End(BEGINNING_US)

    def waiting_rows(self) -> dict[str, WaitingRows]:
        """The rows that wait for time to go on, by input."""
        return {}

    def load_table(self, alias: str, data: pa.RecordBatch) -> None:
        """Read part of a static table in, before the first push."""
        raise AssertionError(f"there is no static table {alias} here")

    def forget_table(self, alias: str) -> None:
        """Forget the rows of a static table, between two pushes: others are read in instead."""
        raise AssertionError(f"no static table {alias} can be replaced here")

    # ---- what a restart would miss ----------------------------------------------------------------------------------

    @abstractmethod
    def restore(self, log: Mapping[str, Rows], complete_until: int, ends: Sequence[End] = ()) -> None:
        """Take back rows that were pushed before, and time that had come this far, without answering again. `ends`:
        every `finish` in between, in order."""

    def begun_before(self, aliases: Iterable[str], complete_until: int) -> None:
        """Before a `restore`: rows of these inputs had come before this time, though none of them may be needed now."""
        return

    def pass_end(self, end: End, aliases: Iterable[str]) -> None:
        """Take time to where all input had come to an end, as it was answered by another operator of the same plan."""
        for _ in self.advance(dict.fromkeys(aliases, end.answered_us + 1)):
            pass

    @abstractmethod
    def still_needed(self, alias: str, rows: Rows, complete_until: int) -> npt.NDArray[np.bool_]:
        """Which of all the rows ever pushed for an input a restore would miss, now that time has come this far."""

    def worth_keeping(self, alias: str, rows: Rows, complete_until: int) -> npt.NDArray[np.bool_]:
        """The same of rows that have just come, beside those that are kept already."""
        return self.still_needed(alias, rows, complete_until)

    def save(self, *, tables: bool = True) -> Saved:
        """All that rows and time have changed; its arrays are those in use, so it is valid until the next call. What
        came of static tables is left out if they will be read anew."""
        return state_of(self, tables=tables)

    def load(self, saved: Saved) -> None:
        """Bring a fresh operator of the same plan to where another was, with its static tables if they were saved."""
        load_state(self, saved)

    # ---- how its state divides --------------------------------------------------------------------------------------

    def undivided(self, key: PartitionKey) -> str | None:
        """Why one part holds all of its state, where rows are placed by a key; None: its state divides by that key, and
        so do its answers."""
        return f"the state of {type(self).__name__} does not divide by key"

    def keyed_state(self, key: PartitionKey) -> KeyedState:
        """All that rows and time have changed but what came of static tables, as rows with keys (see keyed_state.py);
        valid until the next call. What does not divide is whole: the first of several parts has it then."""
        if self.undivided(key) is None:
            return self.divided(key)
        return KeyedState(whole=self.save(tables=False).values, whole_rows=self.kept_rows)

    def take_over(self, state: KeyedState) -> None:
        """Bring a fresh operator of the same plan, static tables loaded, to where one or several others were."""
        if state.whole:
            self.load(Saved(state.whole))
        elif state.rows or state.counters or state.latest:
            self.take_rows_over(state)

    def key_columns(self, key: PartitionKey) -> frozenset[str]:
        """The columns of its answer in each of which every row has its key."""
        return frozenset()

    def divided(self, key: PartitionKey) -> KeyedState:
        """`keyed_state` of an operator whose state divides."""
        raise AssertionError(f"{type(self).__name__} divides and does not say how")

    def take_rows_over(self, state: KeyedState) -> None:
        """`take_over` of such a state."""
        raise AssertionError(f"{type(self).__name__} divides and does not say how")

    # ---- what it holds ----------------------------------------------------------------------------------------------

    def kept_of(self, alias: str, watermarks: Mapping[str, int]) -> KeptRows | None:
        """The rows of an input that it keeps as they came, now that time has come this far, so that others may begin
        with them; None if they cannot be had from it."""
        return None

    @property
    @abstractmethod
    def kept_rows(self) -> int: ...

    @property
    @abstractmethod
    def state_bytes(self) -> int: ...

    @property
    def held_by_input(self) -> dict[str, tuple[int, int]]:
        """Of the windows that a join keeps apart, by input: rows and bytes."""
        return {}

    @property
    def copies_held(self) -> Mapping[str, int]:
        """How many rows of its windows another operator of the same plan counts, by the names they are pushed under."""
        return {}

    @property
    def work_by_part(self) -> Mapping[str, int]:
        """Where it is several: how many rows each took in, copies among them, and answers that it gave, since it was
        made."""
        return {}

    @property
    def rows_by_key(self) -> Mapping[str, int]:
        """Where it is several: about how many rows came of keys that have many, by the names they are pushed under."""
        return {}

    def held_keys(self, name: str, key: Code) -> Codes | None:
        """The codes of a key of all rows in the window of a stream, by the name that they are pushed under, if a window
        has the rows as they came."""
        return None


class Wrapper(Operator):
    """An operator around another, which says all but what this one adds."""

    inner: Operator

    @property
    def counters(self) -> Counters:  # type: ignore[override]
        return self.inner.counters

    @property
    def lag_us(self) -> int:
        return self.inner.lag_us

    @property
    def parts(self) -> int:
        return self.inner.parts

    @property
    def is_kept_whole(self) -> bool:
        return self.inner.is_kept_whole

    @property
    def bounded(self) -> MemoryBound | None:
        return self.inner.bounded

    @property
    def held_by_input(self) -> dict[str, tuple[int, int]]:
        return self.inner.held_by_input

    @property
    def copies_held(self) -> Mapping[str, int]:
        return self.inner.copies_held

    @property
    def work_by_part(self) -> Mapping[str, int]:
        return self.inner.work_by_part

    @property
    def rows_by_key(self) -> Mapping[str, int]:
        return self.inner.rows_by_key

    def held_keys(self, name: str, key: Code) -> Codes | None:
        return self.inner.held_keys(name, key)

    def load_table(self, alias: str, data: pa.RecordBatch) -> None:
        self.inner.load_table(alias, data)

    def forget_table(self, alias: str) -> None:
        self.inner.forget_table(alias)
