"""Rows that came together, cut into parts: by number or by time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import inf

import numpy as np

from watersmeet.operators.contract import Rows
from watersmeet.operators.keeping.sharing import STEPS_OF_A_WINDOW

MOST_STEPS = 64


def slice_of(rows: Rows, start: int, stop: int) -> Rows:
    return rows if start == 0 and stop >= len(rows) else rows.slice(start, stop)


def rounds(batch: Mapping[str, Rows], size: int) -> Iterator[tuple[dict[str, Rows], int]]:
    """Rows of several streams, each in time order, cut at common instants into parts of about `size` rows; with each
    part the time up to which it is complete."""
    times = np.sort(np.concatenate([rows.times for rows in batch.values()])) if batch else np.empty(0, np.int64)
    if not times.size:
        return
    # Cuts are instants, so rows of one time stay together however many there are.
    cuts = np.unique(times[size::size]).tolist()
    for part, end in parts_until(batch, (*cuts, int(times[-1]) + 1)):
        if part:
            yield part, end - 1


def parts_until(batch: Mapping[str, Rows], ends: Iterable[int]) -> Iterator[tuple[dict[str, Rows], int]]:
    """Rows of several streams, each in time order: those before each of these times that are not before an earlier
    one."""
    starts = dict.fromkeys(batch, 0)
    for end in ends:
        stops = {alias: int(np.searchsorted(rows.times, end)) for alias, rows in batch.items()}
        yield {a: slice_of(batch[a], starts[a], stops[a]) for a in batch if stops[a] > starts[a]}, end
        starts = stops


def moments_of(batch: Mapping[str, Rows], lives_us: Iterable[float]) -> list[int]:
    """Instants that cut a batch into periods which are short against the windows; the last is just after its end.

    Time goes on inside a batch too. If rows that have left their windows stayed until its end, they would take the
    memory of others, and nothing in a priority such as PROB's says that they are useless.
    """
    times = np.unique(np.concatenate([rows.times for rows in batch.values()])) if batch else np.empty(0, np.int64)
    if not times.size:
        return []
    whole = int(times[-1]) - int(times[0]) + 1
    step = max(min(min(lives_us, default=inf), whole) / STEPS_OF_A_WINDOW, whole / MOST_STEPS, 1.0)
    periods = ((times - times[0]) / step).astype(np.int64)
    firsts = times[np.flatnonzero(np.diff(periods, prepend=-1))]
    return [*firsts[1:].tolist(), int(times[-1]) + 1]
