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
from watersmeet.shedding.durable import shedding_join_of
from watersmeet.shedding.join import SheddingJoin, slice_of

STEPS_OF_A_WINDOW = 16
MOST_STEPS = 64


def push_in_steps(operator: Operator, batch: Mapping[str, Rows], until_us: int) -> Iterator[pa.RecordBatch]:
    """Rows of several streams that came together, each in time order: they meet before they compete for memory. No
    row before `until_us` will come after them; whoever pushes them advances the operator that far."""
    joining = shedding_join_of(operator)
    if joining is None or joining.queue is not None:  # to know how far behind it is, a join must see all there is
        yield from _pushed(operator, batch)
        return
    steps = _steps(joining, batch)
    if operator is not joining:  # it holds rows back and lets them through as time goes on
        yield from _pushed(operator, batch)
    for part, done_us in steps:
        if operator is joining:
            yield from operator.push_together(part)
        yield from operator.advance(dict.fromkeys(joining.windows.streams, min(done_us, until_us)))
    joining.shed_to_bound()


def _pushed(operator: Operator, batch: Mapping[str, Rows]) -> Iterator[pa.RecordBatch]:
    if isinstance(operator, SheddingJoin):
        yield from operator.push_together(batch)
        return
    for alias, rows in batch.items():
        yield from operator.push(alias, rows)


def _steps(joining: SheddingJoin, batch: Mapping[str, Rows]) -> Iterator[tuple[dict[str, Rows], int]]:
    """Rows by periods that are short against the windows, and up to which time each part is complete."""
    times = np.unique(np.concatenate([rows.times for rows in batch.values()])) if batch else np.empty(0, np.int64)
    if not times.size:
        return
    shortest = min((life for life, in_rows in joining.lives.values() if not in_rows), default=inf)
    whole = int(times[-1]) - int(times[0]) + 1
    step = max(min(shortest, whole) / STEPS_OF_A_WINDOW, whole / MOST_STEPS, 1.0)
    periods = ((times - times[0]) / step).astype(np.int64)
    firsts = times[np.flatnonzero(np.diff(periods, prepend=-1))]
    starts = dict.fromkeys(batch, 0)
    for end in (*firsts[1:].tolist(), int(times[-1]) + 1):
        stops = {alias: int(np.searchsorted(rows.times, end)) for alias, rows in batch.items()}
        yield {a: slice_of(batch[a], starts[a], stops[a]) for a in batch if stops[a] > starts[a]}, end
        starts = stops
