"""Keys that have many of the rows that come, by a sample of them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from watersmeet.operators.codes import Codes
from watersmeet.plan.spread import quoted

SAMPLE = 4096
LEAST_SHARE = 1 / 64  # of the rows
LEAST_ROWS = 16  # of a sample: with fewer, chance decides


def frequent(codes: Codes, keys: pa.Array) -> Iterator[tuple[str, int]]:
    """About how many rows there are of each, in words that may be said in OPTIONS (spread = …).

    >>> keys = pa.array([7] * 300 + list(range(100, 200)))
    >>> list(frequent(keys.to_numpy(), keys))
    [('7', 300)]
    """
    step = max(codes.size // SAMPLE, 1)
    some = np.arange(0, codes.size, step)
    _, first, counts = np.unique(codes[some], return_index=True, return_counts=True)
    many = np.flatnonzero(counts >= max(LEAST_ROWS, LEAST_SHARE * some.size))
    for at, count in zip(some[first[many]].tolist(), counts[many].tolist(), strict=True):
        if keys[at].is_valid:
            yield quoted(str(keys[at])), count * step
