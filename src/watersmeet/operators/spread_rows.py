"""Where rows go along one dimension in which some keys are spread (physical/partitioning.py).

Every row has a coordinate that is its home: that of its key, or, where rows of a spread key are dealt out, one that
goes by the row. Copies of a row lie in the other coordinates; where rows are counted, only that at home is.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from watersmeet.model.time import Times
from watersmeet.operators.codes import Codes, Mask
from watersmeet.operators.kernels.spread import coordinates
from watersmeet.physical.partitioning import SpreadKeys

Positions = npt.NDArray[np.int64]
_STEP = 0x9E3779B97F4A7C15 >> 1  # between the numbers of neighbours, so that rows of one time are dealt out too


def are_spread(spread: SpreadKeys | None, keys: Codes) -> Mask:
    """Which rows have a key that is spread."""
    return np.isin(keys, np.array(() if spread is None else spread.codes, np.int64))


def is_copied(spread: SpreadKeys | None, name: str) -> bool:
    """Whether rows of a stream may be copies."""
    return spread is not None and name != spread.split


def homes(spread: SpreadKeys | None, name: str, keys: Codes, times: Times, size: int) -> Positions:
    """The coordinate of each row. The same rows have the same ones again, as when a batch is repeated."""
    found: Positions = coordinates(keys, size)
    if spread is not None and name == spread.split:
        dealt = np.flatnonzero(are_spread(spread, keys))
        with np.errstate(over="ignore"):
            found[dealt] = coordinates(times[dealt] + np.arange(dealt.size) * np.int64(_STEP), size)
    return found


def spread_out(
    spread: SpreadKeys | None, name: str, keys: Codes, times: Times, size: int
) -> tuple[Positions, Positions, Mask]:
    """The positions of rows, with a coordinate of each and whether it is home: of copies once for each of them."""
    at, where = np.arange(keys.size), homes(spread, name, keys, times, size)
    is_home = np.ones(keys.size, np.bool_)
    if not is_copied(spread, name):
        return at, where, is_home
    copied = np.flatnonzero(are_spread(spread, keys))
    steps = np.tile(np.arange(1, size), copied.size)
    copies = np.repeat(copied, size - 1)
    return (
        np.concatenate([at, copies]),
        np.concatenate([where, (where[copies] + steps) % size]),
        np.concatenate([is_home, np.zeros(copies.size, np.bool_)]),
    )


def lie_in(spread: SpreadKeys | None, name: str, keys: Codes, times: Times, size: int, coordinate: int) -> Mask:
    """Which of all rows have a place there, be they at home or copies."""
    here: Mask = homes(spread, name, keys, times, size) == coordinate
    return here | are_spread(spread, keys) if is_copied(spread, name) else here


def are_copies(spread: SpreadKeys | None, name: str, keys: Codes, size: int, coordinate: int) -> Mask:
    """Which of the rows that lie there are at home elsewhere."""
    if not is_copied(spread, name):
        return np.zeros(keys.size, np.bool_)
    found: Mask = are_spread(spread, keys) & (coordinates(keys, size) != coordinate)
    return found
