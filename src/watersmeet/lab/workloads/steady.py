"""Streams of even pace: a row every 1/rate seconds, with a join attribute drawn uniformly."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

SECOND_US = 1_000_000


def steady(rates: Mapping[str, float], seconds: float, values: int, seed: int = 1) -> dict[str, pa.Table]:
    """For each stream its rows in time order: `ts`, and `attr` from 0 up to but without `values`.

    No two streams of a few have a row at the same instant: each is a microsecond behind the one before.

    >>> made = steady({"a": 2, "b": 1}, seconds=3, values=100)
    >>> made["a"].num_rows, made["b"].num_rows
    (6, 3)
    """
    rng = np.random.default_rng(seed)
    made = {}
    for behind_us, (name, rate) in enumerate(rates.items()):
        numbers = np.arange(int(seconds * rate), dtype=np.float64)
        times = (numbers * (SECOND_US / rate)).astype(np.int64) + behind_us
        attr = rng.integers(0, values, times.size)
        made[name] = pa.table({"ts": pa.array(times, pa.timestamp("us")), "attr": pa.array(attr)})
    return made
