"""DGR03's policies replayed on known arrivals, for checks and for the ceilings of a plan: EXACT, RAND, PROB, LIFE.

After each instant the rows in memory and the new ones compete; a policy says who goes while there are too many. What
can meet nothing any more goes first. Fixed allocation keeps the streams apart, variable allocation lets them compete.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from watersmeet.errors import DataError
from watersmeet.shedding.arrivals import Arrivals, Numbers
from watersmeet.shedding.kernels.policies import LIFE, PROB, RAND, shed
from watersmeet.shedding.optimum import Allocation, halves
from watersmeet.shedding.statistics import Probabilities, measured

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

    >>> from watersmeet.shedding.arrivals import one_per_tick
    >>> streams = one_per_tick([1, 1, 1, 3, 2], [2, 3, 1, 1, 3], window=3)
    >>> streams.results(simulate(streams, "exact")), streams.results(simulate(streams, "prob", 2))
    (7, 4)
    """
    if policy == "exact":
        return arrivals.last.copy()
    if policy not in _NUMBERS:
        raise DataError(f"there is no policy {policy!r}; there are exact, rand, prob and life")
    pools, sizes = _pools(memory, allocation)
    table = measured(arrivals) if probabilities is None else probabilities
    ends = arrivals.times + np.asarray(arrivals.windows, np.int64)[arrivals.streams] - 1
    until = np.empty(len(arrivals), np.int64)
    shed(
        _NUMBERS[policy], arrivals.streams, arrivals.instants, arrivals.last, ends, arrivals.times,
        table[1 - arrivals.streams, arrivals.keys], pools, sizes, seed, until,
    )  # fmt: skip
    return until


def _pools(memory: int | tuple[int, int], allocation: Allocation) -> tuple[Numbers, Numbers]:
    """The pool of each stream, and the size of each pool."""
    if allocation == "fixed":
        pools, sizes = [0, 1], list(halves(memory) if isinstance(memory, int) else memory)
    elif isinstance(memory, int):
        pools, sizes = [0, 0], [memory]
    else:
        raise DataError("variable allocation shares one memory; give one number of rows, or allocation='fixed'")
    if min(sizes) < 0:
        raise DataError(f"memory is a number of rows, 0 or more, but {min(sizes)} was given")
    return np.array(pools), np.array(sizes)
