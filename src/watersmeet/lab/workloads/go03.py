"""GO03's generator of streams: one row per iteration, of a stream chosen at random by its rate."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from watersmeet.errors import WatersmeetError
from watersmeet.optimizer.cost.inputs import StreamRate


def iterations_per_unit(streams: Sequence[StreamRate]) -> int:
    """Σλ: as many iterations as rows come in one unit of the paper's time, so that a window holds λT rows.

    >>> iterations_per_unit([StreamRate("s1", 10, 100, 500), StreamRate("s2", 5, 100, 50)])
    15
    """
    total = sum(one.rate for one in streams)
    if total <= 0 or total != int(total):
        raise WatersmeetError(f"the rates of the streams add up to {total:g}; the sum must be a whole number above 0")
    return int(total)


def go03(streams: Sequence[StreamRate], units: float, seed: int = 1) -> dict[str, pa.Table]:
    """For each stream its rows in time order: `ts`, an iteration being a microsecond, and `attr` from 1 to v.

    Stream i is chosen with probability λ_i/Σλ, and its values are uniform.

    >>> made = go03([StreamRate("s1", 3, 100, 500), StreamRate("s2", 1, 100, 50)], units=1000)
    >>> sum(table.num_rows for table in made.values())
    4000
    """
    rng = np.random.default_rng(seed)
    total = iterations_per_unit(streams)
    chosen = rng.choice(len(streams), int(units * total), p=[one.rate / total for one in streams])
    made = {}
    for place, one in enumerate(streams):
        times = np.flatnonzero(chosen == place)
        attr = rng.integers(1, int(one.distinct) + 1, times.size)
        made[one.name] = pa.table({"ts": pa.array(times, pa.timestamp("us")), "attr": pa.array(attr)})
    return made
