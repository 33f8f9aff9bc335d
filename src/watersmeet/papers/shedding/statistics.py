"""How likely the next row of each stream has a key: what PROB and LIFE go by."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.errors import DataError
from watersmeet.papers.shedding.arrivals import Arrivals

Probabilities = npt.NDArray[np.float64]  # [stream, number of the key]


def measured(arrivals: Arrivals) -> Probabilities:
    """The share of each key among all rows of its stream: the paper's table, made from the whole data set.

    >>> from watersmeet.papers.shedding.arrivals import one_per_tick
    >>> measured(one_per_tick(["a", "a", "b", "a"], ["b", "b", "b", "b"], window=2)).tolist()
    [[0.75, 0.25], [0.0, 1.0]]
    """
    counts = np.bincount(arrivals.chains, minlength=2 * arrivals.key_count).reshape(2, -1).astype(np.float64)
    shares: Probabilities = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    return shares


def given(arrivals: Arrivals, first: Mapping[object, float], second: Mapping[object, float]) -> Probabilities:
    """Tables that say how likely each key is in the first and the second stream; other keys never come.

    >>> from watersmeet.papers.shedding.arrivals import one_per_tick
    >>> given(one_per_tick(["a", "b"], ["b", "c"], window=2), {"a": 0.5, "b": 0.5}, {"b": 0.9}).tolist()
    [[0.5, 0.5, 0.0], [0.0, 0.9, 0.0]]
    """
    if arrivals.values is None:
        raise DataError("these arrivals hold numbers of keys only; make them with `arrivals` to give tables by key")
    found: Probabilities = np.zeros((2, arrivals.key_count))
    for stream, table in enumerate((first, second)):
        if min(table.values(), default=0.0) < 0:
            raise DataError(f"a probability is 0 or more, but {min(table.values())} was given")
        places = pc.index_in(arrivals.values, pa.array(list(table), arrivals.values.type)).fill_null(-1).to_numpy()
        chances = np.append(np.fromiter(table.values(), np.float64, len(table)), 0.0)
        found[stream, : places.size] = chances[places]
    return found
