"""What stands for an operator that begins late, with rows that others have kept: nothing is answered before the answer
is whole.

Rows wait until time has come to the instant from which all is there that the windows look at. Then those before that
instant are taken in quietly, all at once, what comes from there on is answered as if the operator had always run, and
nothing stands for it any more.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence

import pyarrow as pa

from watersmeet.model.time import BEGINNING_US, FOREVER_US
from watersmeet.operators.answers import Answer
from watersmeet.operators.codes import Mask
from watersmeet.operators.contract import End, Operator, Rows, WaitingRows, Wrapper
from watersmeet.operators.saving import Saved
from watersmeet.operators.waiting import Waiting, waiting_rows_of

# What is to be given of all that was answered before, when the answer becomes whole at an instant: what it is then.
GivenAtFirst = Callable[[Sequence[pa.RecordBatch], int], Iterable[pa.RecordBatch]]


class LateStart(Wrapper):
    STATE = ("waiting", "begun", "whole_us")

    def __init__(
        self,
        inner: Operator,
        aliases: Iterable[str],
        given_at_first: GivenAtFirst,
        is_whole: Callable[[], None],
    ) -> None:
        """is_whole: is told when the operator inside goes on by itself."""
        self.inner = inner
        self._given_at_first, self._is_whole = given_at_first, is_whole
        self.waiting = {alias: Waiting() for alias in aliases}
        self.begun: list[str] = []  # the inputs of which rows had come before
        self.whole_us = BEGINNING_US

    def begin(self, kept: Mapping[str, Rows], begun: Sequence[str], whole_us: int) -> None:
        """With rows that were kept; from an instant on the answer is whole."""
        for alias, rows in kept.items():
            self.waiting[alias].add(rows)
        self.begun, self.whole_us = list(begun), whole_us

    def _become_whole(self) -> Iterator[pa.RecordBatch]:
        """Time has come to where the answer is whole."""
        before = {alias: one.release(self.whole_us) for alias, one in self.waiting.items()}
        old = {alias: rows for alias, rows in before.items() if rows is not None}
        self.inner.begun_before(self.begun, self.whole_us)
        found = [one for one in self.inner.take(old, dict.fromkeys(self.waiting, self.whole_us)) if one.num_rows]
        yield from self._given_at_first(found, self.whole_us)
        for alias, one in self.waiting.items():
            rows = one.release(FOREVER_US)
            if rows is not None:
                yield from self.inner.push(alias, rows)
        self._is_whole()

    @staticmethod
    def is_in(saved: Saved, name: str) -> bool:
        """Whether one stands for the operator of this name that is in a state."""
        return f"{name}.whole_us" in saved.values

    # ---- rows and time ----------------------------------------------------------------------------------------------

    def push(self, alias: str, rows: Rows) -> Iterator[pa.RecordBatch]:
        self.waiting[alias].add(rows)
        yield from ()

    def answers_to(self, alias: str, rows: Rows) -> Iterable[Answer]:
        self.waiting[alias].add(rows)
        return []

    def advance(self, watermarks: Mapping[str, int]) -> Iterator[pa.RecordBatch]:
        if min(watermarks.values()) >= self.whole_us:
            yield from self._become_whole()
            yield from self.inner.advance(watermarks)

    def finish(self, newest_us: int) -> Generator[pa.RecordBatch, None, End]:
        if newest_us < self.whole_us:  # what waits goes on waiting
            return End(newest_us)
        yield from self._become_whole()
        return (yield from self.inner.finish(newest_us))

    @property
    def wake_us(self) -> int | None:
        return self.whole_us

    def waiting_rows(self) -> dict[str, WaitingRows]:
        return waiting_rows_of(self.waiting)

    # ---- what a restart would miss ----------------------------------------------------------------------------------

    @property
    def is_kept_whole(self) -> bool:
        return True

    def restore(self, log: Mapping[str, Rows], complete_until: int, ends: Sequence[End] = ()) -> None:
        raise AssertionError("what begins late is kept whole")

    def still_needed(self, alias: str, rows: Rows, complete_until: int) -> Mask:
        raise AssertionError("what begins late is kept whole")

    # ---- what it holds ----------------------------------------------------------------------------------------------

    @property
    def kept_rows(self) -> int:
        return sum(map(len, self.waiting.values()))

    @property
    def state_bytes(self) -> int:
        return self.inner.state_bytes + sum(one.nbytes for one in self.waiting.values())
