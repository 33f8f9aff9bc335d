"""RSTREAM … EVERY d: the whole answer, again and again."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from watersmeet.model.time import BEGINNING_US
from watersmeet.operators.continuous.delta import Delta, joined, no_changes
from watersmeet.operators.continuous.multiset import Multiset
from watersmeet.operators.continuous.node import Node
from watersmeet.operators.kernels import changes as kernel


class Snapshots:
    """At every multiple of `every_us` since 1970, from the first event on and up to the last, all rows that are
    in the answer then, as rows that enter."""

    netted = True

    def __init__(self, child: Node, every_us: int, span: Callable[[], tuple[int, int]]) -> None:
        """span: the first and the last event time seen so far."""
        self.child = child
        self.schema = child.schema
        self.every_us = every_us
        self.span = span
        self._rows = Multiset(self.schema, kernel.UNION_ALL)
        self._next = BEGINNING_US
        self._number = 0

    @property
    def complete(self) -> int:
        return self.child.complete

    @property
    def held_rows(self) -> int:
        return self._rows.ids.live

    @property
    def nbytes(self) -> int:
        return self._rows.nbytes

    def inputs(self) -> Iterator[Node]:
        yield self.child

    def next_event(self) -> int:
        return min(self.child.next_event(), max(self._next, self.span()[0]))

    def take(self, until: int) -> Delta:
        delta = self.child.take(until)
        first, last = self.span()
        if last == BEGINNING_US:
            return no_changes(self.schema)
        start = max(self._next, -(-first // self.every_us) * self.every_us)
        stop = min(until, last + 1)
        moments = np.arange(start, stop, self.every_us)
        sent: list[pa.RecordBatch] = []
        instants: list[np.ndarray[tuple[int], np.dtype[np.int64]]] = []
        for moment in moments:
            now, delta = delta.before(int(moment) + 1)
            self._apply(now)
            whole = self._whole()
            sent.append(whole)
            instants.append(np.full(whole.num_rows, moment, np.int64))
        self._apply(delta)
        if moments.size:
            self._next = int(moments[-1]) + self.every_us
        return self._as_delta(sent, instants)

    def _apply(self, delta: Delta) -> None:
        if len(delta):
            self._rows.apply(delta, np.zeros(len(delta), np.bool_))

    def _whole(self) -> pa.RecordBatch:
        ids = np.flatnonzero(self._rows.left > 0)
        repeated = np.repeat(ids, self._rows.left[ids])
        return pa.RecordBatch.from_arrays(self._rows.rows.get(repeated), schema=self.schema)

    def _as_delta(
        self, sent: list[pa.RecordBatch], instants: list[np.ndarray[tuple[int], np.dtype[np.int64]]]
    ) -> Delta:
        data = joined(sent, self.schema)
        if data.num_rows == 0:
            return no_changes(self.schema)
        order = np.arange(self._number, self._number + data.num_rows)
        self._number += data.num_rows
        return Delta(data, np.concatenate(instants), np.ones(data.num_rows, np.int64), order)
