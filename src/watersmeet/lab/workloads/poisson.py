"""Streams with exponential gaps between their rows, as H02 and H04 make their synthetic data.

A rate is a number of rows a second, or a schedule: so many rows at one rate, then so many at the next, round and round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Int64s = npt.NDArray[np.int64]
Schedule = Sequence[tuple[float, int]]  # (rows a second, for how many rows)
SECOND_US = 1_000_000


def poisson(rates: Mapping[str, float | Schedule], *, seconds: float, keys: int, seed: int = 1) -> dict[str, pa.Table]:
    """A stream per name with columns `k`, an integer below `keys`, and `ts`.

    `rates` has for each stream its rows a second, or a schedule of (rate, rows); it lasts so many `seconds`.

    >>> streams = poisson({"a": 1000, "d": [(10, 100), (1000, 100)]}, seconds=10, keys=50)
    >>> {name: round(table.num_rows, -2) for name, table in streams.items()}
    {'a': 10000, 'd': 200}
    >>> streams["a"].schema.names
    ['k', 'ts']
    """
    made = {}
    for place, (name, rate) in enumerate(rates.items()):
        rng = np.random.default_rng([seed, place])
        times = arrival_times(rng, rate, seconds)
        made[name] = pa.table({"k": rng.integers(0, keys, times.size), "ts": times.astype("M8[us]")})
    return made


def arrival_times(rng: np.random.Generator, rate: float | Schedule, seconds: float) -> Int64s:
    """The instants before `seconds`, in microseconds, rising."""
    schedule = [(float(rate), 1)] if isinstance(rate, int | float) else list(rate)
    rows = sum(count for _, count in schedule)
    lasts = sum(count / each for each, count in schedule)
    expected = seconds / lasts * rows
    # Six standard deviations more than expected, so that the gaps drawn surely reach the end.
    rounds = int((expected + 6 * np.sqrt(expected)) / rows) + 2
    means = np.tile(np.concatenate([np.full(count, SECOND_US / each) for each, count in schedule]), rounds)
    times: Int64s = np.cumsum(rng.exponential(means)).astype(np.int64)
    return times[times < seconds * SECOND_US]
