"""H04's wrong way (Figure 2): an operator lets tuples go by its own clock, while others are still on their way to it.

No option asks for it. It is here so that what the paper warns of can be seen, on any query of the operators as printed
(`lab/slow_paths.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from watersmeet.errors import DataError
from watersmeet.model.time import FOREVER_US
from watersmeet.operators.continuous.delta import Int64s
from watersmeet.operators.continuous.node import Node
from watersmeet.papers.pipelines.contract import PublishedOperator
from watersmeet.papers.pipelines.distinct import WDistinct
from watersmeet.papers.pipelines.from_scan import FromScan
from watersmeet.papers.pipelines.group_by import Contents, WGroupBy
from watersmeet.papers.pipelines.set_operations import Binary
from watersmeet.papers.pipelines.tuples import Tuples, no_tuples, together

Delays = Callable[[Int64s], Int64s]


class SlowPath:
    """The way from a scan to the operator above it, on which tuples take their time, and none overtakes another.

    Probed for the time it answers with the oldest tuple on its way, or with the time that it is if there is none;
    `voluntary` makes it answer with the time that it is in any case, which is what an operator thinks that goes by its
    own clock."""

    STATE = ("below", "waiting", "now")

    held_rows = 0
    nbytes = 0

    def __init__(self, below: FromScan, delays: Delays, *, voluntary: bool) -> None:
        """delays: how long tuples of these times take, both in microseconds."""
        self.below = below
        self.delays = delays
        self.voluntary = voluntary
        self.schema = below.schema
        self.windows = below.windows
        self.waiting = no_tuples(below.schema, below.windows.size)
        self.now = 0

    def nodes(self) -> Iterator[Node]:
        yield from self.below.nodes()

    def next_event(self) -> int:
        return min(self.below.next_event(), self._oldest)

    @property
    def _oldest(self) -> int:
        return int(self.waiting.instants[0]) if len(self.waiting) else FOREVER_US

    def get_time(self) -> int:
        return self.now if self.voluntary else min(self.now, self._oldest)

    def get_next(self, until: int) -> Tuples:
        self.now = until
        waiting = together([self.waiting, self.below.get_next(until)], self.schema)
        there = waiting.instants + self.delays(waiting.instants) < until
        arrived = len(waiting) if there.all() else int(np.argmin(there))
        everyone = np.arange(len(waiting))
        self.waiting = waiting.take(everyone[arrived:])
        return waiting.take(everyone[:arrived])


def slow_down(contents: Contents, delays: Delays, *, voluntary: bool) -> list[SlowPath]:
    """Put a slow path above every scan of an answer whose operators probe for the time (`pipeline = 'tpa_scan'`)."""

    def slowed(one: PublishedOperator) -> PublishedOperator:
        match one:
            case FromScan(noticing="in_time"):
                paths.append(SlowPath(one, delays, voluntary=voluntary))
                return paths[-1]
            case WDistinct():
                one.child = slowed(one.child)
            case Binary():
                one.both.left, one.both.right = slowed(one.both.left), slowed(one.both.right)
            case WGroupBy() if isinstance(one.groups.child, Contents):
                one.groups.child.child = slowed(one.groups.child.child)
            case _:
                raise DataError(
                    f"{type(one).__name__} does not probe for the time",
                    hint="write OPTIONS (pipeline = 'tpa_scan'), without a schedule",
                )
        return one

    paths: list[SlowPath] = []
    contents.child = slowed(contents.child)
    return paths
