"""What the generators share: a start in time, tables in the order of their times, and shares that fall off."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.errors import DataError
from watersmeet.model.time import UNITS_US

START_US = 1_767_225_600 * UNITS_US["second"]  # 2026-01-01 00:00
SECOND_US, HOUR_US, DAY_US = UNITS_US["second"], UNITS_US["hour"], UNITS_US["day"]

Numbers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Columns = dict[str, npt.NDArray[np.generic] | pa.Array]


def table(times_us: Numbers, columns: Columns) -> pa.Table:
    """Rows in the order given, with their times since the start as `ts`, the last column."""
    return pa.table({**columns, "ts": pa.array(START_US + times_us, pa.timestamp("us"))})


def in_time_order(times_us: Numbers, columns: dict[str, npt.NDArray[np.generic]]) -> pa.Table:
    order = np.argsort(times_us, kind="stable")
    return table(times_us[order], {name: values[order] for name, values in columns.items()})


def zipf_shares(domain: int, skew: float) -> Floats:
    """How likely each of `domain` ranks is: the k-th as 1 / k^skew; skew 0 is uniform.

    >>> zipf_shares(3, 1.0).round(3).tolist(), zipf_shares(4, 0).tolist()
    ([0.545, 0.273, 0.182], [0.25, 0.25, 0.25, 0.25])
    """
    at_least("domain", domain, 1)
    at_least("skew", skew, 0)
    weights = np.arange(1, domain + 1, dtype=np.float64) ** -skew
    shares: Floats = weights / weights.sum()
    return shares


def drawn(rng: np.random.Generator, shares: Floats, size: int) -> Numbers:
    """So many draws from 0, 1, … with the given shares."""
    ranks = np.searchsorted(np.cumsum(shares), rng.random(size), side="right")
    # The sum of all shares may come out a little below 1, and a draw beyond it.
    return np.minimum(ranks, shares.size - 1).astype(np.int64)


def at_least(name: str, value: float, least: float) -> None:
    if not value >= least:
        raise DataError(f"{name} is at least {least}, but {value} was given")
