"""A whole batch for a join in bounded memory is taken in steps.

Time goes on inside a batch too. If rows that have left their windows stayed until its end, they would take the memory
of others, and nothing in a priority such as PROB's says that they are useless.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf

import numpy as np

from watersmeet.operators.contract import Rows
from watersmeet.operators.keeping.sharing import STEPS_OF_A_WINDOW

MOST_STEPS = 64


def moments_of(batch: Mapping[str, Rows], lives_us: Iterable[float]) -> list[int]:
    """Instants that cut a batch into periods which are short against the windows; the last is just after its end."""
    times = np.unique(np.concatenate([rows.times for rows in batch.values()])) if batch else np.empty(0, np.int64)
    if not times.size:
        return []
    whole = int(times[-1]) - int(times[0]) + 1
    step = max(min(min(lives_us, default=inf), whole) / STEPS_OF_A_WINDOW, whole / MOST_STEPS, 1.0)
    periods = ((times - times[0]) / step).astype(np.int64)
    firsts = times[np.flatnonzero(np.diff(periods, prepend=-1))]
    return [*firsts[1:].tolist(), int(times[-1]) + 1]
