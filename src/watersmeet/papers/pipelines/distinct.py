"""W-DISTINCT (Algorithm 4.1): all tuples of the window in H, those reported in DL; one that expires is replaced."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from watersmeet.operators.continuous.delta import Int64s
from watersmeet.operators.continuous.node import Node
from watersmeet.papers.pipelines.contract import Noticing, PublishedOperator, grown
from watersmeet.papers.pipelines.kernels.expiry import NONE
from watersmeet.papers.pipelines.kernels.outputs import distinct, number_outputs
from watersmeet.papers.pipelines.state import State
from watersmeet.papers.pipelines.tuples import Tuples


class Chains:
    """Slots by value as an operator has seen them so far, a mark for each, and the numbers of its outputs."""

    STATE = ("newest", "oldest", "older", "newer", "marks", "numbers", "following")

    def __init__(self) -> None:
        self.newest = self.oldest = self.older = self.newer = self.marks = self.numbers = np.empty(0, np.int64)
        self.following = 0

    def make_room(self, values: int, slots: int) -> None:
        self.newest, self.oldest = grown(self.newest, values, NONE), grown(self.oldest, values, NONE)
        self.older, self.newer = grown(self.older, slots, NONE), grown(self.newer, slots, NONE)
        self.marks, self.numbers = grown(self.marks, slots, 0), grown(self.numbers, slots, 0)

    @property
    def tables(self) -> tuple[Int64s, Int64s, Int64s, Int64s]:
        return self.newest, self.oldest, self.older, self.newer

    def number(self, out: Int64s, made: int) -> Int64s:
        self.following = int(number_outputs(out, made, self.numbers, self.following))
        return out[:made]


class WDistinct:
    STATE = ("child", "state", "_chains")

    def __init__(self, child: PublishedOperator, noticing: Noticing, work: dict[str, int]) -> None:
        self.child = child
        self.schema, self.windows = child.schema, child.windows
        self.state = State(self.schema, self.windows, noticing, work)
        self._chains = Chains()
        self.work = work

    @property
    def held_rows(self) -> int:
        return self.child.held_rows + self.state.held

    @property
    def nbytes(self) -> int:
        return self.child.nbytes + self.state.nbytes

    def nodes(self) -> Iterator[Node]:
        yield from self.child.nodes()

    def next_event(self) -> int:
        return min(self.child.next_event(), self.state.next_end())

    def get_time(self) -> int:
        return self.state.clock

    def get_next(self, until: int) -> Tuples:
        happened = self.state.process(self.child.get_next(until), self.child.get_time)
        self._chains.make_room(self.state.newest.size, self.state.room)
        out = np.zeros((2 * len(happened) + 1, 5), np.int64)
        made = distinct(
            happened.slots, happened.instants, happened.causes, self.state.value, *self._chains.tables,
            self._chains.marks, out,
        )  # fmt: skip
        output = given(self._chains.number(out, made), self.state)
        self.work["distinct_outputs"] = self.work.get("distinct_outputs", 0) + int((output.kinds > 0).sum())
        self.state.release(happened)
        return output


def given(out: Int64s, state: State) -> Tuples:
    """Outputs that are tuples of a state, with its timestamps."""
    slots = out[:, 2]
    data = pa.RecordBatch.from_arrays(state.data(slots), schema=state.schema)
    return Tuples(data, out[:, 1].copy(), out[:, 0].copy(), out[:, 4].copy(), state.stamps[slots])
