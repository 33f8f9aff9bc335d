"""What stands for an operator that begins late, with rows that others have kept: nothing is answered before the answer
is whole.

Rows wait until time has come to the instant from which all is there that the windows look at. Then those before that
instant are taken in quietly, all at once, what comes from there on is answered as if the operator had always run, and
nothing stands for it any more. Where windows count rows, that instant is known once as many have come. If there can be
none, rows are let go of, and nothing is answered.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from watersmeet.model.time import BEGINNING_US, FOREVER_US
from watersmeet.operators.answers import Answer
from watersmeet.operators.codes import Mask
from watersmeet.operators.contract import End, Operator, Rows, WaitingRows, Wrapper
from watersmeet.operators.saving import Saved
from watersmeet.operators.waiting import Waiting, waiting_rows_of

# What is to be given of all that was answered before, when the answer becomes whole at an instant: what it is then.
GivenAtFirst = Callable[[Sequence[pa.RecordBatch], int], Iterable[pa.RecordBatch]]


# A window that counts rows is whole with those from an instant on, so many of them.
Counted = tuple[int, int]


class LateStart(Wrapper):
    STATE = ("waiting", "begun", "whole_us", "starts_us", "counted")

    def __init__(
        self,
        inner: Operator,
        aliases: Iterable[str],
        changes: bool,
        given_at_first: GivenAtFirst,
        has_started: Callable[[], None],
    ) -> None:
        """changes: whether it answers by changes: then what is there at first is so after all that happens at this
        instant. has_started: is told when the operator inside goes on by itself."""
        self.inner, self._changes = inner, changes
        self._given_at_first, self._has_started = given_at_first, has_started
        self.waiting = {alias: Waiting() for alias in aliases}
        self.begun: list[str] = []  # the inputs of which rows had come before
        self.whole_us = BEGINNING_US  # as far as windows in time go
        self.starts_us: int | None = None  # answers are given from here on, whole or not
        self.counted: dict[str, Counted] = {}

    def begin(
        self,
        kept: Mapping[str, Rows],
        begun: Sequence[str],
        whole_us: int,
        counted: Mapping[str, Counted],
        starts_us: int | None,
    ) -> None:
        """With rows that were kept; from an instant on, and after as many rows, the answer is whole. starts_us: give
        what there is from this one on."""
        for alias, rows in kept.items():
            self.waiting[alias].add(rows)
        self.begun, self.whole_us, self.starts_us, self.counted = list(begun), whole_us, starts_us, dict(counted)

    def _start_us(self, reached_us: int) -> int | None:
        """From when on there are answers, if that is known, time having come so far."""
        if self.starts_us is not None:
            return self.starts_us
        for alias, one in list(self.counted.items()):
            at_us = self._time_of(alias, one)
            if at_us is None or at_us > reached_us:  # an older row may come
                return None
            self.whole_us = max(self.whole_us, at_us)
            del self.counted[alias]
        return self.whole_us

    def _time_of(self, alias: str, counted: Counted) -> int | None:
        """When as many rows had come."""
        since_us, count = counted
        times = [rows.times[rows.times >= since_us] for rows in self.waiting[alias].parts]
        if sum(map(len, times)) < count:
            return None
        return int(np.partition(np.concatenate(times), count - 1)[count - 1])

    def starts_by(self, reached_us: int) -> bool:
        """Whether there are answers, if nothing comes any more that is older."""
        start_us = self._start_us(reached_us)
        return start_us is not None and start_us <= reached_us

    @property
    def is_in_vain(self) -> bool:
        """Whether it never starts."""
        return self.starts_us is None and self.whole_us >= FOREVER_US

    def start(self) -> Iterator[pa.RecordBatch]:
        """Time has come to where there are answers."""
        start_us = self.whole_us if self.starts_us is None else self.starts_us
        quiet_us = start_us + self._changes
        before = {alias: one.release(quiet_us) for alias, one in self.waiting.items()}
        old = {alias: rows for alias, rows in before.items() if rows is not None}
        self.inner.begun_before(self.begun, quiet_us)
        found = [one for one in self.inner.take(old, dict.fromkeys(self.waiting, quiet_us)) if one.num_rows]
        yield from self._given_at_first(found, start_us)
        for alias, one in self.waiting.items():
            rows = one.release(FOREVER_US)
            if rows is not None:
                yield from self.inner.push(alias, rows)
        self._has_started()

    @staticmethod
    def is_in(saved: Saved, name: str) -> bool:
        """Whether one stands for the operator of this name that is in a state."""
        return f"{name}.whole_us" in saved.values

    # ---- rows and time ----------------------------------------------------------------------------------------------

    def push(self, alias: str, rows: Rows) -> Iterator[pa.RecordBatch]:
        self.answers_to(alias, rows)
        yield from ()

    def answers_to(self, alias: str, rows: Rows) -> Iterable[Answer]:
        if not self.is_in_vain:
            self.waiting[alias].add(rows)
        return []

    def advance(self, watermarks: Mapping[str, int]) -> Iterator[pa.RecordBatch]:
        if self.starts_by(min(watermarks.values()) - self._changes):
            yield from self.start()
            yield from self.inner.advance(watermarks)

    def finish(self, newest_us: int) -> Generator[pa.RecordBatch, None, End]:
        if not self.starts_by(newest_us):  # what waits goes on waiting
            return End(newest_us)
        yield from self.start()
        return (yield from self.inner.finish(newest_us))

    @property
    def wake_us(self) -> int | None:
        if self.starts_us is not None:
            return self.starts_us
        # Rows that are counted bring time with them, and for ever nobody waits.
        return None if self.counted or self.whole_us >= FOREVER_US else self.whole_us

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
