"""Streams of keys that are not equally frequent, as in DGR03, section 4."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pyarrow as pa

from watersmeet.errors import DataError
from watersmeet.lab.workloads.making import SECOND_US, Numbers, at_least, drawn, table, zipf_shares


def zipf(
    rows: int = 20_000,
    seed: int = 1,
    *,
    streams: int = 2,
    domain: int = 50,
    skew: float | tuple[float, ...] = 1.0,
    correlated: bool = False,
    arrivals: Literal["tick", "poisson"] = "tick",
    rate: float = 1.0,
) -> dict[str, pa.Table]:
    """Keys 0 to domain - 1, drawn independently, the k-th most frequent as often as 1 / k^skew.

    rows: of all streams together.
    streams: their number; they are called s1, s2, …
    domain: how many keys there are.
    skew: one for all streams or one for each; 0 makes keys equally frequent.
    correlated: whether the same keys are frequent in all streams; else each stream has a ranking of its own.
    arrivals: `tick` is one row of each stream at every tick; `poisson` is gaps that are exponential.
    rate: rows a second of each stream.

    >>> streams = zipf(rows=6, seed=1, domain=3)
    >>> streams["s1"].column_names, [table.num_rows for table in streams.values()]
    (['key', 'ts'], [3, 3])
    >>> [str(ts) for ts in streams["s2"]["ts"].to_pylist()]
    ['2026-01-01 00:00:00', '2026-01-01 00:00:01', '2026-01-01 00:00:02']
    """
    at_least("streams", streams, 1)
    if not rate > 0:
        raise DataError(f"rate is more than 0, but {rate} was given")
    skews = skew if isinstance(skew, tuple) else (skew,) * streams
    if len(skews) != streams:
        raise DataError(f"skew is one number or one for each of {streams} streams, but {len(skews)} were given")
    rng = np.random.default_rng(seed)
    common, size = rng.permutation(domain), rows // streams
    made = {}
    for number, own in enumerate(skews, 1):
        # Which keys are frequent, apart from how frequent: a key's number says nothing about its rank.
        ranking = common if correlated else rng.permutation(domain)
        keys = ranking[drawn(rng, zipf_shares(domain, own), size)]
        made[f"s{number}"] = table(_times(rng, size, arrivals, rate), {"key": keys.astype(np.int64)})
    return made


def _times(rng: np.random.Generator, size: int, arrivals: str, rate: float) -> Numbers:
    if arrivals == "tick":
        return np.asarray(np.arange(size) * SECOND_US / rate, np.int64)
    if arrivals == "poisson":
        return np.asarray(np.cumsum(rng.exponential(SECOND_US / rate, size)), np.int64)
    raise DataError(f"arrivals are 'tick' or 'poisson', but {arrivals!r} was given")
