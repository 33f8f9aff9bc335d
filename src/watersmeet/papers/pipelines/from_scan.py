"""StreamScan with what stands in FROM above it: Select, Project and W-JOIN.

W-JOIN finds partners by the engine's own join, which forgets rows as time passes. It outputs tuples with the timestamps
of their members, and nothing when they expire.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from watersmeet.model.time import BEGINNING_US, FOREVER_US
from watersmeet.operators.continuous.delta import Delta, Int64s
from watersmeet.operators.continuous.from_many import FromMany
from watersmeet.operators.continuous.from_one import FromOne
from watersmeet.operators.continuous.lives import Lifetimes, death_times
from watersmeet.operators.continuous.negative_join import NegativeJoin
from watersmeet.operators.continuous.node import Node, next_event_below
from watersmeet.operators.continuous.sources import StreamSource
from watersmeet.papers.pipelines.contract import Noticing
from watersmeet.papers.pipelines.tuples import NEGATIVE, POSITIVE, Int64Table, Tuples, no_tuples, together
from watersmeet.physical.hidden import time_column

NO_WINDOWS = np.empty(0, np.int64)
UNNUMBERED = -1


class WExpire:
    """W-Expire as part of StreamScan: it runs when a tuple of its own stream arrives, so what has left a window waits
    for the next one. A join of several goes by the slowest, as its tuples are to come in order."""

    STATE = ()

    def __init__(self, scans: list[StreamSource]) -> None:
        self.scans = scans

    def reach(self, until: int, entered: Delta) -> int:
        if until >= FOREVER_US:
            return until
        # The tuple that arrives also tells of what leaves at its own instant.
        return min(until, *(_newest_arrival(scan) + 1 for scan in self.scans))

    def noticed(self, left: Delta, entered: Delta) -> Delta:
        return left


class FromScan:
    """The tuples of FROM under time probing or input triggering, with the timestamps of their constituents."""

    STATE = ("node", "_reached", "_next")

    def __init__(self, node: FromOne | FromMany, windows: Int64s, noticing: Noticing) -> None:
        """node: chooses rows, or joins them; it is not asked to let them go."""
        self.node = node
        self.windows = windows
        self.schema = node.schema
        self.noticing = noticing
        self._reached = BEGINNING_US
        self._next = 0

    @property
    def held_rows(self) -> int:
        return self.node.join.kept_rows if isinstance(self.node, FromMany) else 0

    @property
    def nbytes(self) -> int:
        return self.node.join.state_bytes if isinstance(self.node, FromMany) else 0

    def nodes(self) -> Iterator[Node]:
        yield from self.node.inputs()

    def next_event(self) -> int:
        return next_event_below(self.node)

    def waiting_times(self) -> Int64s:
        return _waiting_times(self.node)

    def get_time(self) -> int:
        return self._reached

    def get_next(self, until: int) -> Tuples:
        made = self._joined(self.node, until) if isinstance(self.node, FromMany) else self._chosen(self.node, until)
        if self.noticing == "in_time" or until >= FOREVER_US:
            self._reached = max(self._reached, until)
        elif len(made):
            self._reached = max(self._reached, int(made.instants[-1]) + 1)
        return made

    def _chosen(self, node: FromOne, until: int) -> Tuples:
        lives = node.source.take(until)
        if lives is None:
            return no_tuples(self.schema, self.windows.size)
        born = node._born(lives)
        births = born.births
        entered, kept = node._chosen(_entering(born.data, births), births)
        stamps = births if kept is None else births[kept]
        return self._tuples(entered.data, entered.instants, stamps.reshape(-1, 1))

    def _joined(self, node: FromMany, until: int) -> Tuples:
        found = list(node._combinations(node._taken(until)))
        for _ in node.join.advance(dict.fromkeys(node.join.windows.streams, until)):
            raise AssertionError("a join gives no results when time passes")
        if not found:
            return no_tuples(self.schema, self.windows.size)
        data = pa.concat_batches(found)
        stamps = np.stack([_times(data, one.alias) for one in node.ranged], axis=1)
        births = np.maximum.reduce([_times(data, alias) for alias in node.sources])
        by_birth = np.argsort(births, kind="stable")
        chosen = data.select(self.schema.names).take(pa.array(by_birth))
        return self._tuples(chosen, births[by_birth], stamps[by_birth])

    def _tuples(self, data: pa.RecordBatch, instants: Int64s, stamps: Int64Table) -> Tuples:
        count = instants.size  # a batch without columns has no number of rows
        order = np.arange(self._next, self._next + count)
        self._next += count
        return Tuples(data, instants, np.full(count, POSITIVE, np.int64), order, stamps)


class FromExpire:
    """The tuples of FROM under negative tuples: windows send each once more as it leaves, and W-JOIN joins it again."""

    STATE = ("node", "_ahead")

    windows = NO_WINDOWS

    def __init__(self, node: FromOne | NegativeJoin) -> None:
        self.node = node
        self.schema = node.schema
        self._ahead = no_tuples(self.schema, 0)

    @property
    def held_rows(self) -> int:
        return self.node.held_rows

    @property
    def nbytes(self) -> int:
        return self.node.nbytes

    @property
    def sent_again(self) -> int:
        """Negative tuples that windows sent."""
        return self.node.sent_again

    def nodes(self) -> Iterator[Node]:
        yield from self.node.inputs()

    def next_event(self) -> int:
        return self.node.next_event()

    def waiting_times(self) -> Int64s:
        return _waiting_times(self.node)

    def get_time(self) -> int:
        return self.node.complete

    def get_next(self, until: int) -> Tuples:
        delta = self.node.take(until)
        kinds = np.where(delta.diffs > 0, POSITIVE, NEGATIVE)
        # What W-JOIN finds again as a member leaves has no number to be known by, so none of its tuples has.
        order = np.full(len(delta), UNNUMBERED) if isinstance(self.node, NegativeJoin) else delta.order
        made = Tuples(delta.data, delta.instants, kinds, order, np.empty((len(delta), 0), np.int64))
        # What came after all that is known to have left waits, as tuples are to come in order.
        now, self._ahead = together([self._ahead, made], self.schema).before(self.get_time())
        return now


def _newest_arrival(scan: StreamSource) -> int:
    """Of all tuples that have come, read or not."""
    waiting = scan.waiting.newest_us
    return scan.waiting.last_us if waiting is None else max(waiting, scan.waiting.last_us)


def _waiting_times(node: FromOne | FromMany) -> Int64s:
    """Of the tuples that have arrived and not been read."""
    sources = node.sources.values() if isinstance(node, FromMany) else (node.source,)
    parts = [rows.times for one in sources if isinstance(one, StreamSource) for rows in one.waiting._parts]
    return np.concatenate([np.empty(0, np.int64), *parts])


def lasting(node: FromOne | FromMany) -> Int64s:
    """How long each constituent counts after its timestamp."""
    one = np.zeros(1, np.int64)
    if isinstance(node, FromMany):
        return np.concatenate([death_times(one, each.window, node.extra_us) for each in node.ranged])
    assert isinstance(node.source, StreamSource)
    assert isinstance(node.source.lifetimes, Lifetimes)
    return death_times(one, node.source.lifetimes.window, node.source.lifetimes.extra_us)


def _entering(data: pa.RecordBatch, births: Int64s) -> Delta:
    return Delta(data, births, np.ones(births.size, np.int64), np.arange(births.size))


def _times(data: pa.RecordBatch, alias: str) -> Int64s:
    values: Int64s = data.column(time_column(alias)).view(pa.int64()).to_numpy(zero_copy_only=False)
    return values
