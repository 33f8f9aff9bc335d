"""Operators connected by FIFO queues and run in turns by a scheduler, as H04 runs its pipelines.

In production an operator pulls whole batches from its inputs. Here every operator has a queue at its output, and when
it is its turn it takes at most `quantum` changes from each of its inputs. The answers are the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import ClassVar

import pyarrow as pa

from watersmeet.model.time import BEGINNING_US
from watersmeet.operators.continuous.delta import Delta, merged
from watersmeet.operators.continuous.node import Node


class Fifo:
    """The changes that an operator has made and the next has not taken yet; to the next it is the operator."""

    STATE = ("node", "queue", "complete", "longest", "_filled_until")
    ITEMS: ClassVar = {"queue": Delta}

    held_rows = 0
    nbytes = 0

    def __init__(self, node: Node, quantum: int) -> None:
        self.node = node
        self.quantum = quantum
        self.queue: deque[Delta] = deque()
        self.complete = BEGINNING_US
        self.longest = 0

    @property
    def schema(self) -> pa.Schema:
        return self.node.schema

    @property
    def netted(self) -> bool:
        return self.node.netted

    def inputs(self) -> Iterator[Node]:
        yield self.node

    def next_event(self) -> int:
        return self.node.next_event()

    def turn(self, until: int) -> bool:
        """Let the operator run on what is in its input queues; whether it made anything or time went on for it."""
        made = self.node.take(until)
        if len(made):
            self.queue.append(made)
        moved = self.node.complete > self._filled_until
        self._filled_until = self.node.complete
        self.longest = max(self.longest, sum(map(len, self.queue)))
        return bool(len(made)) or moved

    _filled_until = BEGINNING_US

    def take(self, until: int) -> Delta:
        """At most a quantum of changes, whole instants only: what happens at once is seen at once."""
        # All that is in the queue is before `until`, which the operators were run with.
        taken: list[Delta] = []
        left = self.quantum
        while self.queue and left > 0:
            now, later = self._cut(self.queue.popleft(), left)
            taken.append(now)
            left -= len(now)
            if len(later):
                self.queue.appendleft(later)
        self.complete = int(self.queue[0].instants[0]) if self.queue else self._filled_until
        return merged(taken, self.schema)

    @staticmethod
    def _cut(delta: Delta, count: int) -> tuple[Delta, Delta]:
        if len(delta) <= count:
            return delta, delta.before(int(delta.instants[0]))[0]  # nothing is before its first instant
        return delta.before(int(delta.instants[count - 1]) + 1)


class Network:
    """A tree of operators with queues between them; asked for changes, it runs operators in turn until all is done."""

    STATE = ("root",)

    def __init__(self, root: Fifo, queues: list[Fifo]) -> None:
        """queues: all of them, those nearer the inputs first."""
        self.root = root
        self.queues = queues

    @property
    def schema(self) -> pa.Schema:
        return self.root.schema

    @property
    def netted(self) -> bool:
        return self.root.netted

    @property
    def complete(self) -> int:
        return self.root._filled_until

    held_rows = 0
    nbytes = 0

    def inputs(self) -> Iterator[Node]:
        yield self.root

    def next_event(self) -> int:
        return self.root.next_event()

    def take(self, until: int) -> Delta:
        working = True
        while working:
            turns = [queue.turn(until) for queue in self.queues]  # everyone has a turn
            working = any(turns)
        made = list(self.root.queue)
        self.root.queue.clear()
        return merged(made, self.schema)
