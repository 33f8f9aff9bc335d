"""RSTREAM … EVERY d: the whole answer, again and again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from watersmeet.model.pace import Pace
from watersmeet.model.time import BEGINNING_US, FOREVER_US
from watersmeet.operators.continuous.delta import Delta, Int64s, joined, no_changes
from watersmeet.operators.continuous.multiset import Multiset
from watersmeet.operators.continuous.node import Node, Unary
from watersmeet.operators.continuous.value_order import answer_order
from watersmeet.operators.kernels import changes as kernel
from watersmeet.operators.waiting import Waiting
from watersmeet.plan.nodes import SortKey


class Snapshots(Unary):
    """At every instant of a pace, from the first event on and up to the last, all rows that are
    in the answer then, as rows that enter."""

    STATE = ("child", "_rows", "_next", "_number")

    netted = True

    def __init__(self, child: Node, every: Pace, streams: Sequence[Waiting], order: Sequence[SortKey] = ()) -> None:
        """streams: the streams that the answer is made of. order: in which every answer is given, if in any."""
        super().__init__(child, child.schema)
        self.every = every
        self.streams = list(streams)
        self.order = list(order)
        self._rows = Multiset(self.schema, kernel.UNION_ALL)
        self._next = BEGINNING_US
        self._number = 0

    @property
    def pace_us(self) -> int:
        return self.every.usual_us

    @property
    def held_rows(self) -> int:
        return self._rows.ids.live

    @property
    def nbytes(self) -> int:
        return self._rows.nbytes

    def next_event(self) -> int:
        return min(self.child.next_event(), self._due())

    def to_come(self, until: int) -> int:
        """How many rows are given before an instant if nothing changes."""
        due, stop = self._due(), min(until, self.child.next_event(), self._end())
        return int(self._rows.left.sum()) * self.every.count_between(due, stop) if due < stop else 0

    def pass_over(self, until: int) -> None:
        """Time has come to an instant, and what was to be given up to it was given in another life."""
        self._apply(self.child.take(until))
        if self._span()[0] < FOREVER_US:
            self._next = max(self._next, self._multiple_from(min(until, self.child.complete)))

    def take(self, until: int) -> Delta:
        delta = self.child.take(until)
        sent: list[pa.RecordBatch] = []
        instants: list[Int64s] = []
        first, _ = self._span()
        stop = min(self._end(), until, self.child.complete)
        moment = self._after_ends(max(self._next, self._multiple_from(first)))
        while moment < stop:
            now, delta = delta.before(moment + 1)
            self._apply(now)
            changes = min(stop, self._multiple_from(int(delta.instants[0]))) if len(delta) else stop
            if self._rows.ids.live:  # the same again and again until something changes
                whole, moments = self._whole(), self._moments(moment, changes)
                sent.append(_repeated(whole, moments.size))
                instants.append(np.repeat(moments, whole.num_rows))
            moment = self._after_ends(max(self.every.first_from(moment + 1), changes))
        self._apply(delta)
        if first < FOREVER_US:
            self._next = max(self._next, self._multiple_from(stop))
        return self._as_delta(sent, instants)

    def _due(self) -> int:
        """When something is given next if nothing changes."""
        if not self._rows.ids.live:
            return FOREVER_US
        moment = self._after_ends(max(self._next, self._multiple_from(self._span()[0])))
        return moment if moment < self._end() else FOREVER_US

    def _end(self) -> int:
        """From which instant on nothing is given any more."""
        # While a stream goes on, time has come as far as it has because an event has.
        if not all(stream.ended for stream in self.streams):
            return FOREVER_US
        waits = [stream.newest_us for stream in self.streams if stream.newest_us is not None]
        return max(self._span()[1], *waits) + 1 if waits else self._span()[1] + 1

    def _after_ends(self, moment: int) -> int:
        """The first answer from here on that was or is to be given: when all input ended, none was after its last
        event, and none is for what was answered by then."""
        for ends in zip(*(stream.ends for stream in self.streams), strict=True):
            answered_us = ends[0][1]
            if max(last for last, _ in ends) < moment <= answered_us:
                moment = self._multiple_from(answered_us + 1)
        return moment

    def _moments(self, first: int, stop: int) -> Int64s:
        """When answers are given, from the first on."""
        moments = self.every.between(first, stop)
        for ends in zip(*(stream.ends for stream in self.streams), strict=True):
            moments = moments[(moments <= max(last for last, _ in ends)) | (moments > ends[0][1])]
        return moments

    def _multiple_from(self, instant: int) -> int:
        return self.every.first_from(instant)

    def _span(self) -> tuple[int, int]:
        """The first and the last event time of the rows that were given out."""
        firsts = [stream.first_us for stream in self.streams if stream.first_us is not None]
        return min(firsts, default=FOREVER_US), max(stream.last_us for stream in self.streams)

    def _apply(self, delta: Delta) -> None:
        if len(delta):
            self._rows.apply(delta, np.zeros(len(delta), np.bool_))

    def _whole(self) -> pa.RecordBatch:
        ids = np.flatnonzero(self._rows.left > 0)
        repeated = np.repeat(ids, self._rows.left[ids])
        whole = pa.RecordBatch.from_arrays(self._rows.rows.get(repeated), schema=self.schema)
        return whole.take(pa.array(answer_order(whole, self.order))) if self.order else whole

    def _as_delta(self, sent: list[pa.RecordBatch], instants: list[Int64s]) -> Delta:
        data = joined(sent, self.schema)
        if data.num_rows == 0:
            return no_changes(self.schema)
        order = np.arange(self._number, self._number + data.num_rows)
        self._number += data.num_rows
        return Delta(data, np.concatenate(instants), np.ones(data.num_rows, np.int64), order)


def _repeated(rows: pa.RecordBatch, times: int) -> pa.RecordBatch:
    return rows if times == 1 else rows.take(pa.array(np.tile(np.arange(rows.num_rows), times)))
