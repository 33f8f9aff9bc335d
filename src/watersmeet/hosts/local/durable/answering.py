"""Answers the batches of a durable run, one at a time; where many answers come, in parts under numbers of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from math import inf
from threading import Event, Lock
from time import monotonic

import numpy as np

from watersmeet.hosts.local.durable.batch_clock import BatchClock
from watersmeet.hosts.local.durable.batches import BatchRecord, Begins, Ready, Step
from watersmeet.hosts.local.durable.journal import Journal
from watersmeet.hosts.local.durable.progress import Progress
from watersmeet.hosts.local.durable.table_loads import TableLoads
from watersmeet.hosts.local.execution import BATCH_ROWS
from watersmeet.hosts.local.pushed_execution import PushedExecution
from watersmeet.io.connectors.contract import SourceBatch
from watersmeet.io.event_times import TimedBatch
from watersmeet.operators.answers import Answer, as_batches
from watersmeet.operators.saving import load_state
from watersmeet.plan.nodes import AT
from watersmeet.runtime.beginning import Beginning
from watersmeet.runtime.skipped_batches import way_past

Give = Callable[[list[Answer]], None]
# A batch of which more answers come is given in parts, each under a number of its own. Where a part ends follows from
# the answers alone, however they came, so a batch that is repeated has the same parts.
PART_ROWS = 1 << 20


class LeftInTheMiddle(BaseException):
    """A stop was asked for, and the batch in hand is not finished: a later start repeats it."""


class Answering:
    def __init__(
        self,
        execution: PushedExecution,
        wall: BatchClock,
        loads: TableLoads,
        journal: Journal,
        progress: Progress,
        give: Give,
    ) -> None:
        """give: takes the answers of the batch that `progress` names."""
        self.execution, self.wall = execution, wall
        self.lock = Lock()  # of the operators and clocks
        self.stop = Event()
        self.stop_by_s = inf
        self.may_wait: Callable[[Sequence[Step]], bool] = lambda steps: False  # whether a part need not be on the disk
        # Returns when the batch in hand is on the disk; and tells of that who waits for it. A batch that is answered at
        # once is on its way there meanwhile.
        self.come_to_disk: Callable[[], None] = lambda: None
        self.tell_written: Callable[[], None] = lambda: None
        self._loads, self._journal, self._progress, self.give = loads, journal, progress, give
        self._records: Iterator[BatchRecord] = iter(())  # what is still to be repeated
        self._in_hand = -1  # the batch that is being answered, or its part
        self._part_rows = 0
        self._found: list[Answer] = []  # its answers that were not handed on yet
        self._found_rows = 0

    def expect(self, records: Iterator[BatchRecord]) -> None:
        """These are to be repeated."""
        self._records = records

    def next_record(self) -> BatchRecord | None:
        """What is to be repeated next, if anything still is; the parts of a batch are answered with it."""
        return next(self._records, None)

    def parts_behind(self) -> list[BatchRecord]:
        """The parts of the batch whose record was the last."""
        found: list[BatchRecord] = []
        while (record := self.next_record()) is not None:
            if not record.goes_on:
                self._records = chain([*found, record], self._records)
                return found
            found.append(record)
        self._records = iter(found)
        return found

    def answer(self, number: int, steps: Sequence[Ready], part_rows: int, *, goes_on: bool = True) -> list[Answer]:
        """The answers of a batch that are to be given under its number, or under that of its last part. goes_on:
        whether time goes on with it."""
        self._in_hand, self._found, self._found_rows, self._part_rows = number, [], 0, part_rows
        self.execution.floods.way_out = partial(way_past, number)
        with self.lock:
            try:
                for ready in steps:
                    self._take(ready)
                if goes_on and self.execution.clock.watches_the_wall:
                    self._gather(self.execution.tick())
            finally:
                self.come_to_disk()  # before anybody can see what came of it
            self._progress.number = self._in_hand
        return self._found

    def _take(self, ready: Ready) -> None:
        step = ready.step
        if step.batch is not None and ready.timed is not None:
            self._take_rows(step.stream, step.batch, ready.timed)
        elif step.kind == "table":
            self._loads.take(step)
        elif step.kind == "memory":
            self.execution.have_memory(step.number)
        elif step.begins is not None:
            self._gather(self.execution.begin_late(self._beginning(step.begins)))
        elif step.given is not None:
            self._gather([step.given])
        elif step.kind == "flush":
            self._gather(self.execution.flush())
        elif step.kind == "end" and not self.execution.clock.clocks[step.stream].ended:
            self._gather(self.execution.end([step.stream]))
        elif step.kind == "promise":
            self._gather(self.execution.promise(step.stream, step.until_us))

    def _beginning(self, begins: Begins) -> Beginning:
        beginning = Beginning(clock.stream for clock in self.execution.clock.clocks.values())
        load_state(beginning, begins.state)
        return beginning

    def _take_rows(self, stream: str, batch: SourceBatch, timed: TimedBatch) -> None:
        clock, rows = self.execution.clock.clocks[stream], timed.rows
        if batch.waiting or clock.partitions.newest_us:
            clock.know_partitions(batch.waiting, self.execution.wall.now_us())
        clock.hand_over(batch.left_out)
        if timed.skipped or timed.bad is not None:
            self.execution.leave_out_of(stream, timed)
        # In pieces as large as the operator takes them; that follows from its state, so a repeat has the same.
        at, count = 0, rows.times.size
        while at < count:
            until = min(at + (self.execution.operator.piece_rows or BATCH_ROWS), count)
            piece = rows if until - at == count else rows.slice(at, until)
            self._gather(self.execution.push(stream, piece, batch.partition))
            at = until

    def _gather(self, blocks: Iterable[Answer]) -> None:
        overdue = False
        if type(blocks) is not list:
            self._come_to_disk_first()
        for one in blocks:
            # One that only took long is finished; here more come.
            if overdue:
                left = "the batch in hand was left in the middle of its answers, and the next start repeats it"
                raise LeftInTheMiddle(f"{left}; {self.execution.floods.way_out()}")
            if one.num_rows:
                self._found.append(one)
                self._found_rows += one.num_rows
                if self._found_rows > self._part_rows:
                    self._give_parts()
            overdue = self.stop.is_set() and monotonic() > self.stop_by_s

    def _come_to_disk_first(self) -> None:
        """What may take long is begun when those know who wait only for the disk."""
        self.come_to_disk()
        self.lock.release()
        try:
            self.tell_written()
        finally:
            self.lock.acquire()

    def _give_parts(self) -> None:
        """Where more was found than is given at once: all but the last part."""
        self._come_to_disk_first()
        while (parts := cut(self._found, self._part_rows)) is not None and self._begin_part(self._in_hand + 1):
            self._progress.number = self._in_hand
            answers, self._found = parts
            self._in_hand += 1
            self.lock.release()
            try:
                self.give(answers)
            finally:
                self.lock.acquire()
        self._found_rows = sum(one.num_rows for one in self._found)

    def _begin_part(self, number: int) -> bool:
        """Write down that the answers in hand go on under another number; False if they were not divided there."""
        following = self.next_record()
        if following is not None and not following.goes_on:
            self._records = chain([following], self._records)
            return False
        if following is None:
            record = BatchRecord(number, self.wall.now, self.wall.today, [Step("more", "")], self._part_rows)
            self._journal.append(number, record.parts(), soon=self.may_wait(()))
        self._progress.written = number
        return True


def cut(answers: Sequence[Answer], rows: int) -> tuple[list[Answer], list[Answer]] | None:
    """The first answers, about so many rows, and the others; None if there are fewer. What changes at one instant is
    not divided."""
    before: list[Answer] = []
    held = 0
    for place, one in enumerate(answers):
        if held + one.num_rows > rows:
            (batch,) = as_batches([one])
            at = rows - held
            if AT in batch.schema.names:
                instants = batch.column(AT).to_numpy(zero_copy_only=False)
                first = int(np.searchsorted(instants, instants[at]))
                at = first if held + first else int(np.searchsorted(instants, instants[at], side="right"))
            return [*before, batch.slice(0, at)], [batch.slice(at), *answers[place + 1 :]]
        before.append(one)
        held += one.num_rows
    return None
