"""H04's prototype: operators connected by FIFO queues, each given its turn by a scheduler, a few tuples at a time.

Without it an operator asks the one below for all that there is. The answers are the same; what differs is what waits
between operators. `round_robin` gives everyone a turn. `memory` gives it to the operator that is expected to free most:
what it takes out of its queues less what it makes of it, as measured so far; streams are read only when nothing waits.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from watersmeet.model.time import BEGINNING_US
from watersmeet.operators.continuous.delta import Delta, merged
from watersmeet.operators.continuous.node import Node
from watersmeet.papers.pipelines.contract import PublishedOperator
from watersmeet.papers.pipelines.from_scan import FromExpire, FromScan
from watersmeet.papers.pipelines.group_by import Contents
from watersmeet.papers.pipelines.tuples import Tuples, no_tuples, together

QUANTUM = 8  # tuples taken from a queue in one turn


class Fifo:
    """What an operator has made and the next has not taken yet; to the next it is the operator."""

    STATE = ("producer", "_waiting", "taken", "made")

    def __init__(self, producer: PublishedOperator, inputs: list[Fifo]) -> None:
        """inputs: the queues that the producer takes from."""
        self.producer = producer
        self.inputs = inputs
        self.schema, self.windows = producer.schema, producer.windows
        self._waiting = no_tuples(self.schema, self.windows.size)
        self.taken = self.made = 0

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def held_rows(self) -> int:
        return self.producer.held_rows + len(self)

    @property
    def nbytes(self) -> int:
        return self.producer.nbytes

    def nodes(self) -> Iterator[Node]:
        yield from self.producer.nodes()

    def next_event(self) -> int:
        return self.producer.next_event()

    def get_time(self) -> int:
        """How far whoever takes from here may think that time has come: to the first tuple that waits."""
        return int(self._waiting.instants[0]) if len(self) else self.producer.get_time()

    def get_next(self, until: int) -> Tuples:
        everyone = np.arange(len(self))
        now, self._waiting = self._waiting.take(everyone[:QUANTUM]), self._waiting.take(everyone[QUANTUM:])
        return now

    @property
    def ready(self) -> int:
        """How many tuples its operator could take now."""
        return sum(min(QUANTUM, len(one)) for one in self.inputs)

    @property
    def freed(self) -> float:
        """How many tuples less would wait after its turn."""
        gain = 1.0 if self.taken == 0 else 1 - self.made / self.taken
        return gain * self.ready

    def turn(self, until: int) -> bool:
        """Let the operator run; whether it took or made anything, or time went on for it."""
        before, waited = self.producer.get_time(), sum(map(len, self.inputs))
        made = self.producer.get_next(self._read_until(until))
        self.taken += waited - sum(map(len, self.inputs))
        self.made += len(made)
        self._waiting = together([self._waiting, made], self.schema)
        return bool(len(made)) or waited > sum(map(len, self.inputs)) or self.producer.get_time() > before

    def _read_until(self, until: int) -> int:
        """StreamScan reads a few tuples at a time."""
        if not isinstance(self.producer, FromScan | FromExpire):
            return until
        waiting = np.sort(self.producer.waiting_times())
        return min(until, int(waiting[QUANTUM - 1]) + 1) if waiting.size > QUANTUM else until


class FifoNetwork:
    """Gives turns until all is done up to an instant."""

    STATE = ("contents",)

    netted = False

    def __init__(self, contents: Contents, queues: list[Fifo], schedule: str, work: dict[str, int]) -> None:
        """contents: what makes the log of the answer, from the last of the `queues`, which go from the streams up."""
        self.contents = contents
        self.queues = queues
        self.schedule = schedule
        self.work = work

    @property
    def schema(self) -> pa.Schema:
        return self.contents.schema

    @property
    def complete(self) -> int:
        return self.contents.complete

    held_rows = 0
    nbytes = 0

    def inputs(self) -> Iterator[Node]:
        yield self.contents

    def next_event(self) -> int:
        return self.contents.next_event()

    def take(self, until: int) -> Delta:
        made: list[Delta] = []
        reached = BEGINNING_US - 1
        while self._everyone(until, made) or self.contents.complete > reached:
            reached = self.contents.complete
            while self.schedule == "memory" and self._best(until, made):
                pass
        return merged(made, self.schema)

    def _everyone(self, until: int, made: list[Delta]) -> bool:
        """A turn for each operator; by memory only for those that read, and for those that only learn the time."""
        moved = False
        for queue in self.queues:
            if self.schedule == "round_robin" or not queue.ready:
                moved |= queue.turn(until)
                self._measure()
            while self.schedule == "memory" and self._best(until, made):
                moved = True
        return self._answer(until, made) or moved

    def _best(self, until: int, made: list[Delta]) -> bool:
        """A turn for the operator that frees most; the answer frees all that it takes."""
        if self._answer(until, made):
            return True
        ready = [queue for queue in self.queues if queue.ready]
        if not ready:
            return False
        moved = max(ready, key=lambda one: one.freed).turn(until)
        self._measure()
        return moved

    def _answer(self, until: int, made: list[Delta]) -> bool:
        waited = len(self.queues[-1])
        made.append(self.contents.take(until))
        return waited > len(self.queues[-1])

    def _measure(self) -> None:
        waiting = sum(map(len, self.queues))
        self.work["queued_most"] = max(self.work.get("queued_most", 0), waiting)
        self.work["turns"] = self.work.get("turns", 0) + 1
