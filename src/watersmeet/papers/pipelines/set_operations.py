"""W-UNION, W-MINUS (Algorithm 4.2) and W-INTERSECT, duplicates kept; without ALL a W-DISTINCT follows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from watersmeet.model.time import BEGINNING_US, FOREVER_US
from watersmeet.operators.continuous.delta import Bools, Int64s
from watersmeet.operators.continuous.node import Node
from watersmeet.operators.continuous.row_ids import RowIds
from watersmeet.papers.pipelines.contract import Noticing, PublishedOperator, grown
from watersmeet.papers.pipelines.distinct import Chains, given
from watersmeet.papers.pipelines.kernels.expiry import ENTERED
from watersmeet.papers.pipelines.kernels.outputs import intersect, minus
from watersmeet.papers.pipelines.state import Happened, State, side_by_side
from watersmeet.papers.pipelines.tuples import NEVER, Int64Table, Tuples, no_tuples, together


class Both:
    """The tuples of two inputs up to what both have reached, so that they are processed by increasing maxTS."""

    STATE = ("left", "right", "_ahead")

    def __init__(self, left: PublishedOperator, right: PublishedOperator) -> None:
        self.left, self.right = left, right
        self.schema = left.schema
        self._ahead = [no_tuples(one.schema, one.windows.size) for one in (left, right)]

    def get_next(self, until: int) -> list[Tuples]:
        sides = (self.left, self.right)
        came = [
            together([ahead, one.get_next(until)], one.schema) for ahead, one in zip(self._ahead, sides, strict=True)
        ]
        cut = [one.before(self.get_time()) for one in came]
        self._ahead = [later for _, later in cut]
        # The right side takes the names of the left one.
        return [_named(now, self.schema) for now, _ in cut]

    def get_time(self) -> int:
        return min(self.left.get_time(), self.right.get_time())


def _named(tuples: Tuples, schema: pa.Schema) -> Tuples:
    data = tuples.data.rename_columns(schema.names).cast(schema)
    return Tuples(data, tuples.instants, tuples.kinds, tuples.order, tuples.stamps)


class Binary:
    """What the set operations have in common."""

    def __init__(self, left: PublishedOperator, right: PublishedOperator) -> None:
        self.both = Both(left, right)
        self.schema = left.schema

    @property
    def held_rows(self) -> int:
        return self.both.left.held_rows + self.both.right.held_rows + self.own_rows

    @property
    def nbytes(self) -> int:
        return self.both.left.nbytes + self.both.right.nbytes

    @property
    def own_rows(self) -> int:
        return 0

    def nodes(self) -> Iterator[Node]:
        yield from self.both.left.nodes()
        yield from self.both.right.nodes()

    def next_event(self) -> int:
        return min(self.both.left.next_event(), self.both.right.next_event())


class WUnion(Binary):
    """Forwards the tuples of both inputs by increasing maxTS. A tuple has no constituents of the other side."""

    STATE = ("both", "_next")

    def __init__(self, left: PublishedOperator, right: PublishedOperator) -> None:
        super().__init__(left, right)
        self.windows = side_by_side(left.windows.tolist(), right.windows.tolist())

    def get_time(self) -> int:
        return self.both.get_time()

    def get_next(self, until: int) -> Tuples:
        left, right = self.both.get_next(until)
        widths = self.both.left.windows.size, self.both.right.windows.size
        return together(
            [
                _renumbered(left, 0, _beside(left.stamps, _absent(len(left), widths[1]))),
                _renumbered(right, 1, _beside(_absent(len(right), widths[0]), right.stamps)),
            ],
            self.schema,
        )


def _absent(rows: int, columns: int) -> Int64Table:
    return np.full((rows, columns), NEVER, np.int64)


def _beside(left: Int64Table, right: Int64Table) -> Int64Table:
    return np.concatenate([left, right], axis=1)


def _renumbered(tuples: Tuples, side: int, stamps: Int64Table) -> Tuples:
    """Numbers of both sides differ; those below 0, which only say from where a tuple came, stay below it."""
    order = np.where(tuples.order < 0, 2 * tuples.order - side, 2 * tuples.order + side)
    return Tuples(tuples.data, tuples.instants, tuples.kinds, order, stamps)


class Sides:
    """H_S and H_R, with one number for equal rows of both, and F_S and F_R, how many of each there are."""

    STATE = ("left", "right", "ids", "left_values", "right_values", "counts", "_reached")

    def __init__(self, both: Both, noticing: Noticing, work: dict[str, int]) -> None:
        self.noticing = noticing
        # A tuple of either side tells the operator the time, so its states are told by the operator.
        inside: Noticing = "negative" if noticing == "negative" else "in_time"
        self.left, self.right = (State(both.schema, one.windows, inside, work) for one in (both.left, both.right))
        self._reached = BEGINNING_US
        self.ids = RowIds()
        self.left_values = self.right_values = np.empty(0, np.int64)
        self.counts = np.empty(0, np.int64)

    @property
    def held(self) -> int:
        return self.left.held + self.right.held

    @property
    def clock(self) -> int:
        return self._reached

    def process(self, both: Both, until: int) -> tuple[Happened, Happened]:
        left, right = both.get_next(until)
        self._reached = self._local_clock(both, (left, right))
        happened = self.left.process(left, self._time), self.right.process(right, self._time)
        self.left_values = self._valued(self.left_values, self.left, left, happened[0])
        self.right_values = self._valued(self.right_values, self.right, right, happened[1])
        return happened

    def _local_clock(self, both: Both, came: tuple[Tuples, Tuples]) -> int:
        reached = both.get_time()
        if self.noticing == "at_next_input" and reached < FOREVER_US:
            reached = max((int(one.instants[-1]) + 1 for one in came if len(one)), default=self._reached)
        return max(self._reached, reached)

    def _time(self) -> int:
        return self._reached

    def _valued(self, values: Int64s, state: State, tuples: Tuples, happened: Happened) -> Int64s:
        """The common numbers of the slots; those taken are in the order of the positive tuples."""
        came = tuples.take(np.flatnonzero(tuples.kinds > 0))
        taken = happened.slots[happened.causes == ENTERED]
        values = grown(values, state.room, 0)
        values[taken] = self.ids.of(came.data.columns, len(came))
        self.counts = grown(self.counts, self.ids.room, 0)
        np.add.at(self.counts, values[taken], 1)
        return values

    def release(self, left: Happened, right: Happened) -> None:
        gone = [left.slots[left.causes != ENTERED], right.slots[right.causes != ENTERED]]
        values = np.concatenate([self.left_values[gone[0]], self.right_values[gone[1]]])
        np.subtract.at(self.counts, values, 1)
        values = np.unique(values)
        self.ids.forget(values[self.counts[values] == 0])
        self.left.release(left)
        self.right.release(right)


def in_order(left: Happened, right: Happened) -> tuple[Int64s, Int64s, Int64s, Bools]:
    """What happened on both sides, by instant, in the order in which each side saw it."""
    slots = np.concatenate([left.slots, right.slots])
    instants = np.concatenate([left.instants, right.instants])
    causes = np.concatenate([left.causes, right.causes])
    is_right = np.arange(slots.size) >= len(left)
    order = np.argsort(instants, kind="stable")
    return slots[order], instants[order], causes[order], is_right[order]


class WMinus(Binary):
    STATE = ("both", "sides", "_chains", "_f_s", "_f_r")

    def __init__(
        self, left: PublishedOperator, right: PublishedOperator, noticing: Noticing, work: dict[str, int]
    ) -> None:
        super().__init__(left, right)
        self.windows = left.windows
        self.sides = Sides(self.both, noticing, work)
        self._chains = Chains()
        self._f_s = self._f_r = np.empty(0, np.int64)

    @property
    def own_rows(self) -> int:
        return self.sides.held

    def get_time(self) -> int:
        return self.sides.clock

    def get_next(self, until: int) -> Tuples:
        happened = self.sides.process(self.both, until)
        values, left = self.sides.ids.room, self.sides.left
        self._chains.make_room(values, left.room)
        self._f_s, self._f_r = grown(self._f_s, values, 0), grown(self._f_r, values, 0)
        events = in_order(*happened)
        out = np.zeros((events[0].size + 1, 5), np.int64)
        made = minus(
            *events, self.sides.left_values, self.sides.right_values, *self._chains.tables, self._f_s, self._f_r,
            self._chains.marks, out,
        )  # fmt: skip
        output = given(self._chains.number(out, made), left)
        self.sides.release(*happened)
        return output


class WIntersect(Binary):
    STATE = ("both", "sides", "_left", "_right")

    def __init__(
        self, left: PublishedOperator, right: PublishedOperator, noticing: Noticing, work: dict[str, int]
    ) -> None:
        super().__init__(left, right)
        self.windows = side_by_side(left.windows.tolist(), right.windows.tolist())
        self.sides = Sides(self.both, noticing, work)
        self._left, self._right = Chains(), Chains()

    @property
    def own_rows(self) -> int:
        return self.sides.held

    def get_time(self) -> int:
        return self.sides.clock

    def get_next(self, until: int) -> Tuples:
        happened = self.sides.process(self.both, until)
        left, right = self.sides.left, self.sides.right
        self._left.make_room(self.sides.ids.room, left.room)
        self._right.make_room(self.sides.ids.room, right.room)
        events = in_order(*happened)
        out = np.zeros((2 * events[0].size + 1, 5), np.int64)
        made = intersect(
            *events, self.sides.left_values, self.sides.right_values, *self._left.tables, *self._right.tables,
            self._left.marks, self._right.marks, out,
        )  # fmt: skip
        pairs = self._left.number(out, made)
        found = given(pairs, left)
        output = Tuples(
            found.data, found.instants, found.kinds, found.order, _beside(found.stamps, right.stamps[pairs[:, 3]])
        )
        self.sides.release(*happened)
        return output
