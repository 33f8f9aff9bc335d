"""A whole batch for a join in bounded memory, taken in steps.

Time goes on inside a batch too. If rows that have left their windows stayed until its end, they would take the memory
of others, and nothing in a priority such as PROB's says that they are useless.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import inf

import numpy as np
import pyarrow as pa

from watersmeet.operators.contract import Operator, Rows
from watersmeet.operators.join.window_join import WindowJoin
from watersmeet.operators.keeping.bounded import BoundedMemory
from watersmeet.operators.keeping.durable import shedding_join_of
from watersmeet.operators.keeping.pieces import parts_until
from watersmeet.operators.keeping.sharing import STEPS_OF_A_WINDOW

MOST_STEPS = 64


def push_in_steps(operator: Operator, batch: Mapping[str, Rows], until_us: int) -> Iterator[pa.RecordBatch]:
    """Rows of several streams that came together, each in time order: they meet before they compete for memory. No
    row before `until_us` will come after them, so time goes on that far; then no more rows are kept than the bound
    says."""
    bounded = shedding_join_of(operator)
    if bounded is None:
        yield from _pushed(operator, batch)
        return
    streams = bounded.layout.strategy.join.windows.streams
    # An operator that holds rows back lets them through as time goes on; and to know how far behind it is, a join
    # must see all there is.
    at_once = not isinstance(operator, WindowJoin) or bounded.queue is not None
    if at_once:
        yield from _pushed(operator, batch)
    if bounded.queue is None:
        for part, done_us in _steps(bounded, batch):
            if not at_once:
                yield from _pushed(operator, part)
            yield from operator.advance(dict.fromkeys(streams, min(done_us, until_us)))
    if batch:
        yield from operator.advance(dict.fromkeys(streams, until_us))
    bounded.shed_to_bound()


def _pushed(operator: Operator, batch: Mapping[str, Rows]) -> Iterator[pa.RecordBatch]:
    if isinstance(operator, WindowJoin):
        yield from operator.push_together(batch)
        return
    for alias, rows in batch.items():
        yield from operator.push(alias, rows)


def _steps(bounded: BoundedMemory, batch: Mapping[str, Rows]) -> Iterator[tuple[dict[str, Rows], int]]:
    """Rows by periods that are short against the windows, and up to which time each part is complete."""
    times = np.unique(np.concatenate([rows.times for rows in batch.values()])) if batch else np.empty(0, np.int64)
    if not times.size:
        return
    shortest = min((life for life, in_rows in bounded.lives.values() if not in_rows), default=inf)
    whole = int(times[-1]) - int(times[0]) + 1
    step = max(min(shortest, whole) / STEPS_OF_A_WINDOW, whole / MOST_STEPS, 1.0)
    periods = ((times - times[0]) / step).astype(np.int64)
    firsts = times[np.flatnonzero(np.diff(periods, prepend=-1))]
    yield from parts_until(batch, (*firsts[1:].tolist(), int(times[-1]) + 1))
