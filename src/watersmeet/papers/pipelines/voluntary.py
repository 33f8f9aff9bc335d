"""H04's wrong way (Figure 2): an operator lets tuples go by its own clock, while others are still on their way to it.

No query runs like this, and no option asks for it. It is here so that what the paper warns of can be seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from watersmeet.model.time import FOREVER_US
from watersmeet.operators.continuous.group_by import GroupByOperator
from watersmeet.operators.continuous.node import Node
from watersmeet.papers.pipelines.group_by import Contents
from watersmeet.papers.pipelines.tuples import POSITIVE, Tuples
from watersmeet.plan.expressions import Aggregate, Column


class SlowPath:
    """A select below a SUM. A tuple of time t comes out at `arrives[t]`. Probed for the time it answers with the oldest
    tuple on its way, or with the time that it is; `voluntary` makes it answer with the time that it is in any case,
    which is what an operator thinks that goes by its own clock."""

    STATE = ()

    held_rows = 0
    nbytes = 0
    schema = pa.schema([("value_0", pa.int64())])

    def __init__(self, values: Mapping[int, int], arrives: Mapping[int, int], window: int, *, voluntary: bool) -> None:
        self.coming = {tick: (arrives.get(tick, tick), value) for tick, value in values.items()}
        self.windows = np.array([window], np.int64)
        self.voluntary = voluntary
        self.now = 0

    def nodes(self) -> Iterator[Node]:
        yield from ()

    def next_event(self) -> int:
        return FOREVER_US

    def get_time(self) -> int:
        on_their_way = [] if self.voluntary else [tick for tick in self.coming if tick < self.now]
        return min([self.now, *on_their_way])

    def get_next(self, until: int) -> Tuples:
        self.now = until
        there = sorted(tick for tick, (arrives, _) in self.coming.items() if arrives < until)
        # In order: one that is late holds back those behind it.
        late = [tick for tick in self.coming if tick not in there]
        if not self.voluntary and late:
            there = [tick for tick in there if tick < min(late)]
        values = [self.coming.pop(tick)[1] for tick in there]
        ticks = np.array(there, np.int64)
        data = pa.record_batch([pa.array(values, pa.int64())], schema=self.schema)
        return Tuples(data, ticks, np.full(ticks.size, POSITIVE), ticks, ticks.reshape(-1, 1))


def sums(
    values: Mapping[int, int], window: int, arrives: Mapping[int, int], ticks: range, *, voluntary: bool
) -> dict[int, list[int]]:
    """The sums that are told at each tick."""
    path = SlowPath(values, arrives, window, voluntary=voluntary)
    total = Aggregate("sum", (Column("", "value_0", pa.int64()),), pa.int64())
    groups = GroupByOperator(
        Contents(path, "in_time", {}),
        0,
        [(total, "value_0")],
        None,
        [("s", Column("", "value_0", pa.int64()))],
        fifo=False,
    )
    told: dict[int, list[int]] = {}
    for tick in ticks:
        delta = groups.take(tick + 1)
        entered = delta.data.column("s").to_pylist()
        told[tick] = [value for value, diff in zip(entered, delta.diffs.tolist(), strict=True) if diff > 0]
    return told
