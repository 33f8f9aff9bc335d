"""The first rows of keys: duplicates that come within a while are left out before a query sees them, at once."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from watersmeet.model.catalog import Deduplication
from watersmeet.model.time import BEGINNING_US
from watersmeet.operators.answers import Answer
from watersmeet.operators.codes import Mask
from watersmeet.operators.continuous.row_ids import RowIds
from watersmeet.operators.contract import End, Operator, Positions, Rows, WaitingRows, Wrapper
from watersmeet.operators.kernels import firsts as kernel
from watersmeet.operators.slots import Slots

FEW = 64


class Firsts:
    """The times of the rows that were taken, by key, for as long as a row to come may be too near one of them."""

    STATE = ("ids", "slots", "_heads", "_named", "_following", "_taken_us", "_pruned_us", "_after_sweep", "until_us")

    def __init__(self, rule: Deduplication) -> None:
        self.rule = rule
        self.ids = RowIds()
        self.slots = Slots()
        self._heads: Positions = np.full(self.ids.room, -1, np.int64)
        self._named: Mask = np.zeros(self.ids.room, np.bool_)  # which keys have a number
        self._following: Positions = np.empty(0, np.int64)
        self._taken_us: Positions = np.empty(0, np.int64)
        self._pruned_us = BEGINNING_US
        self._after_sweep = 0
        self.until_us = BEGINNING_US  # no row before this comes any more

    @property
    def nbytes(self) -> int:
        arrays = (self._heads, self._named, self._following, self._taken_us)
        return self.ids.nbytes + self.slots.nbytes + sum(array.nbytes for array in arrays)

    def of(self, rows: Rows) -> Rows:
        """Those of new rows, in the order they came, that are the first."""
        self._pruned_us = self.until_us
        self._sweep()
        return self._taken(rows, self.rule.within_us)

    def again(self, rows: Rows) -> Rows:
        """Take rows back that were taken before: of those that are alike in key and time the first was."""
        return self._taken(rows, 0)

    def _taken(self, rows: Rows, within_us: int) -> Rows:
        n = len(rows)
        keys, slots = self._keys(rows), self.slots.take(n)
        self._following = _longer(self._following, self.slots.room)
        self._taken_us = _longer(self._taken_us, self.slots.room)
        first, gone = np.empty(n, np.bool_), np.empty(self.slots.room, np.int64)
        times = np.array(rows.times)
        used, dropped = kernel.take_firsts(
            keys, times, within_us, self._pruned_us, self._heads, self._following, self._taken_us, slots, first, gone
        )
        self.slots.give_back(np.concatenate([slots[used:][::-1], gone[:dropped]]))
        return rows if bool(first.all()) else rows.take(np.flatnonzero(first))

    def were_taken(self, rows: Rows) -> Mask:
        """Which of rows that have just come were the first, and of those that came before all that were."""
        found = np.empty(len(rows), np.bool_)
        keys = self._keys(rows)
        kernel.were_taken(keys, np.array(rows.times), self._heads, self._following, self._taken_us, found)
        forgotten: Mask = rows.times + self.rule.within_us < self._pruned_us
        return found | forgotten

    def _keys(self, rows: Rows) -> Positions:
        keys = self.ids.of([rows.data.column(name) for name in self.rule.keys], len(rows))
        room = self.ids.room
        if room > self._heads.size:
            heads, named = np.full(room, -1, np.int64), np.zeros(room, np.bool_)
            heads[: self._heads.size], named[: self._named.size] = self._heads, self._named
            self._heads, self._named = heads, named
        self._named[keys] = True
        return keys

    def _sweep(self) -> None:
        """Forget keys of which nothing is held; seldom enough that a key costs little, often enough that there are
        never more than twice as many as needed."""
        if self.ids.live <= 2 * self._after_sweep + FEW:
            return
        gone = np.empty(self.slots.room, np.int64)
        within = (self.rule.within_us, self._pruned_us)
        dropped = kernel.let_go(*within, self._heads, self._following, self._taken_us, gone)
        self.slots.give_back(gone[:dropped])
        idle = np.flatnonzero(self._named & (self._heads < 0))
        self._named[idle] = False
        self.ids.forget(idle)
        self._after_sweep = self.ids.live


class Deduplicate(Wrapper):
    """Any operator, some of whose inputs have their duplicates left out.

    A row that was left out is not needed by a restart either; of the others those whose times may still be asked for.
    """

    STATE = ("inner", "firsts")

    def __init__(self, inner: Operator, rules: Mapping[str, Deduplication]) -> None:
        """rules: by the names that rows are pushed under."""
        self.inner = inner
        self.firsts = {alias: Firsts(rule) for alias, rule in rules.items()}

    # ---- what it adds -----------------------------------------------------------------------------------------------

    def _first(self, alias: str, rows: Rows) -> Rows:
        if alias not in self.firsts or len(rows) == 0:
            return rows
        first = self.firsts[alias].of(rows)
        self.counters.duplicate_rows += len(rows) - len(first)
        return first

    def push(self, alias: str, rows: Rows) -> Iterator[pa.RecordBatch]:
        yield from self.inner.push(alias, self._first(alias, rows))

    def answers_to(self, alias: str, rows: Rows) -> Iterable[Answer]:
        return self.inner.answers_to(alias, self._first(alias, rows))

    def take(self, batch: Mapping[str, Rows], watermarks: Mapping[str, int]) -> Iterator[pa.RecordBatch]:
        first = {alias: self._first(alias, rows) for alias, rows in batch.items()}
        yield from self.inner.take(first, watermarks)
        self._note(watermarks)

    def advance(self, watermarks: Mapping[str, int]) -> Iterator[pa.RecordBatch]:
        yield from self.inner.advance(watermarks)
        self._note(watermarks)

    def answers_until(self, watermarks: Mapping[str, int]) -> Iterable[Answer]:
        answers = self.inner.answers_until(watermarks)
        if type(answers) is not list:
            return self._noted(answers, watermarks)
        self._note(watermarks)
        return answers

    def _noted(self, answers: Iterable[Answer], watermarks: Mapping[str, int]) -> Iterator[Answer]:
        yield from answers
        self._note(watermarks)

    def settle(self) -> Iterable[pa.RecordBatch]:
        return self.inner.settle()

    def _note(self, watermarks: Mapping[str, int]) -> None:
        for firsts in self.firsts.values():
            firsts.until_us = max(firsts.until_us, min(watermarks.values()))

    def restore(self, log: Mapping[str, Rows], complete_until: int, ends: Sequence[End] = ()) -> None:
        for firsts in self.firsts.values():
            firsts.until_us = complete_until
        taken = {alias: self.firsts[alias].again(rows) if alias in self.firsts else rows for alias, rows in log.items()}
        self.inner.restore(taken, complete_until, ends)

    def begun_before(self, aliases: Iterable[str], complete_until: int) -> None:
        self.inner.begun_before(aliases, complete_until)

    def pass_end(self, end: End, aliases: Iterable[str]) -> None:
        self.inner.pass_end(end, aliases := list(aliases))
        self._note(dict.fromkeys(aliases, end.answered_us + 1))

    def still_needed(self, alias: str, rows: Rows, complete_until: int) -> Mask:
        return self._needed(self.inner.still_needed(alias, rows, complete_until), alias, rows, complete_until)

    def worth_keeping(self, alias: str, rows: Rows, complete_until: int) -> Mask:
        return self._needed(self.inner.worth_keeping(alias, rows, complete_until), alias, rows, complete_until)

    def _needed(self, needed: Mask, alias: str, rows: Rows, complete_until: int) -> Mask:
        """needed: by the operator inside."""
        if alias not in self.firsts:
            return needed
        firsts = self.firsts[alias]
        needed = needed | (rows.times + firsts.rule.within_us >= complete_until)
        # Where only times are asked about, they are those of rows that were noted down before.
        return needed & firsts.were_taken(rows) if rows.data.num_rows == len(rows) else needed

    # ---- what the operator inside says ------------------------------------------------------------------------------

    @property
    def piece_rows(self) -> int | None:
        return self.inner.piece_rows

    @property
    def read_rows(self) -> int | None:
        return self.inner.read_rows

    @property
    def together_rows(self) -> int | None:
        return None  # which of equal rows is the first goes by how they come

    @property
    def wake_us(self) -> int | None:
        return self.inner.wake_us

    @property
    def to_come(self) -> int:
        return self.inner.to_come

    @property
    def goes_on(self) -> bool:
        return self.inner.goes_on

    @property
    def delays(self) -> Mapping[str, float] | None:
        return self.inner.delays

    def over_nothing(self) -> Iterator[pa.RecordBatch]:
        yield from self.inner.over_nothing()

    def finish(self, newest_us: int) -> Generator[pa.RecordBatch, None, End]:
        return (yield from self.inner.finish(newest_us))

    def waiting_rows(self) -> dict[str, WaitingRows]:
        return self.inner.waiting_rows()

    @property
    def kept_rows(self) -> int:
        return self.inner.kept_rows + sum(firsts.slots.used for firsts in self.firsts.values())

    @property
    def state_bytes(self) -> int:
        return self.inner.state_bytes + sum(firsts.nbytes for firsts in self.firsts.values())


def _longer(array: Positions, room: int) -> Positions:
    if room <= array.size:
        return array
    grown = np.empty(room, np.int64)
    grown[: array.size] = array
    return grown
