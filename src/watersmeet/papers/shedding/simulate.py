"""DGR03's policies replayed on known arrivals, for checks and for the ceilings of a plan: EXACT, RAND, PROB, LIFE.

After each instant the rows in memory and the new ones compete; a policy says who goes while there are too many. What
can meet nothing any more goes first. Fixed allocation keeps the streams apart, variable allocation lets them compete.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.errors import DataError
from watersmeet.papers.shedding.arrivals import Arrivals, Numbers
from watersmeet.papers.shedding.kernels.policies import LIFE, PROB, RAND, shed
from watersmeet.papers.shedding.optimum import Allocation, sizes_of

# How likely the next row of each stream has a key, which PROB and LIFE go by: [stream, number of the key].
Probabilities = npt.NDArray[np.float64]


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


Policy = Literal["exact", "rand", "prob", "life"]
_NUMBERS = {"rand": RAND, "prob": PROB, "life": LIFE}


def simulate(
    arrivals: Arrivals,
    policy: Policy,
    memory: int | tuple[int, int] = 0,
    allocation: Allocation = "fixed",
    *,
    probabilities: Probabilities | None = None,
    seed: int = 0,
) -> Numbers:
    """The last instant at which each row is in memory; `arrivals.results` counts what is found by it.

    >>> from watersmeet.papers.shedding.arrivals import one_per_tick
    >>> streams = one_per_tick([1, 1, 1, 3, 2], [2, 3, 1, 1, 3], window=3)
    >>> streams.results(simulate(streams, "exact")), streams.results(simulate(streams, "prob", 2))
    (7, 4)
    """
    if policy == "exact":
        return arrivals.last.copy()
    if policy not in _NUMBERS:
        raise DataError(f"there is no policy {policy!r}; there are exact, rand, prob and life")
    sizes = np.array(sizes_of(memory, allocation))
    pools = np.array([0, sizes.size - 1])  # of each stream: the same with one size, one each with two
    table = measured(arrivals) if probabilities is None else probabilities
    # The remaining lifetime of LIFE is i + w - 1 - now, the arrivals that a row can still meet (AMB-31).
    ends = arrivals.times + np.asarray(arrivals.windows, np.int64)[arrivals.streams] - 1
    chances = table[1 - arrivals.streams, arrivals.keys]
    ranks, until = np.empty((2, len(arrivals)), np.int64)
    ranks[np.argsort(chances, kind="stable")] = np.arange(len(arrivals))  # of equals the older goes
    leaving = np.argsort(arrivals.last, kind="stable")
    shed(
        _NUMBERS[policy], arrivals.streams, arrivals.instants, arrivals.last, leaving, ends, arrivals.times, chances,
        ranks, pools, sizes, seed, until,
    )  # fmt: skip
    return until
