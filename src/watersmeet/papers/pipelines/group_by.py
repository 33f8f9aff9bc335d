"""W-GROUP-BY and W-AGGREGATE (Algorithm 4.3): each tuple that comes or expires makes a new value of its group, which
overrides the one before. The tuples of the window are held, but where negative tuples are enough to count down.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from watersmeet.model.time import BEGINNING_US
from watersmeet.operators.continuous.delta import Delta, Int64s
from watersmeet.operators.continuous.group_by import GroupByOperator
from watersmeet.operators.continuous.node import Node
from watersmeet.papers.pipelines.contract import Noticing, PublishedOperator
from watersmeet.papers.pipelines.kernels.expiry import ENTERED
from watersmeet.papers.pipelines.state import State
from watersmeet.papers.pipelines.tuples import INVALID, NEVER, POSITIVE, Tuples


class Contents:
    """The tuples of a window as rows that enter and leave: what the values of groups, or the answer, are made of."""

    STATE = ("child", "state")

    netted = False

    def __init__(self, child: PublishedOperator, noticing: Noticing, work: dict[str, int]) -> None:
        self.child = child
        self.schema = child.schema
        self.state = State(self.schema, child.windows, noticing, work)

    @property
    def complete(self) -> int:
        return self.state.clock

    @property
    def held_rows_here(self) -> int:
        return self.state.held

    @property
    def held_rows(self) -> int:
        return self.child.held_rows + self.state.held

    @property
    def nbytes(self) -> int:
        return self.child.nbytes + self.state.nbytes

    def inputs(self) -> Iterator[Node]:
        yield from self.child.nodes()

    def next_event(self) -> int:
        return min(self.child.next_event(), self.state.next_end())

    def take(self, until: int) -> Delta:
        happened = self.state.process(self.child.get_next(until), self.child.get_time)
        diffs = np.where(happened.causes == ENTERED, 1, -1)
        data = pa.RecordBatch.from_arrays(self.state.data(happened.slots), schema=self.schema)
        delta = Delta(data, happened.instants, diffs, self.state.number[happened.slots])
        self.state.release(happened)
        return delta


class Increments:
    """Positive and negative tuples as they come, for aggregates that count up and down (section 6.4): none is held."""

    STATE = ("child", "_clock")

    netted = False
    held_rows_here = 0

    def __init__(self, child: PublishedOperator) -> None:
        self.child = child
        self.schema = child.schema
        self._clock = BEGINNING_US

    @property
    def complete(self) -> int:
        return self._clock

    @property
    def held_rows(self) -> int:
        return self.child.held_rows

    @property
    def nbytes(self) -> int:
        return self.child.nbytes

    def inputs(self) -> Iterator[Node]:
        yield from self.child.nodes()

    def next_event(self) -> int:
        return self.child.next_event()

    def take(self, until: int) -> Delta:
        tuples = self.child.get_next(until)
        self._clock = max(self._clock, self.child.get_time())
        return Delta(tuples.data, tuples.instants, np.where(tuples.kinds == POSITIVE, 1, -1), tuples.order)


class WGroupBy:
    """The engine's aggregates over what is held. A value that is overridden is withdrawn under its number (AMB-33)."""

    STATE = ("groups",)

    windows: Int64s

    def __init__(self, groups: GroupByOperator, noticing: Noticing) -> None:
        """groups: over `Contents`, or `Increments`."""
        self.groups = groups
        self.schema = groups.schema
        self.windows = np.full(0 if noticing == "negative" else 1, NEVER, np.int64)

    held_rows = 0  # its node tells what there is
    nbytes = 0

    def nodes(self) -> Iterator[Node]:
        yield self.groups

    def next_event(self) -> int:
        return self.groups.next_event()

    def get_time(self) -> int:
        return self.groups.complete

    def get_next(self, until: int) -> Tuples:
        delta = self.groups.take(until)
        kinds = np.where(delta.diffs > 0, POSITIVE, INVALID)
        stamps = np.full((len(delta), self.windows.size), NEVER, np.int64)
        return Tuples(delta.data, delta.instants, kinds, delta.order, stamps)
