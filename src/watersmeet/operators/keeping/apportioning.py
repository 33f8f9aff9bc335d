"""An amount given out to many: to those that are worth most first, or to all in proportion."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[np.int64]
Amounts = npt.NDArray[np.float64]


def filled(room: Amounts, worth: Amounts, memory: float) -> Amounts:
    """How much of the room each cell needs it gets, those first that are worth most.

    >>> filled(np.array([5.0, 4.0, 3.0]), np.array([1.0, 3.0, 2.0]), 6).tolist()
    [0.0, 4.0, 2.0]
    """
    order = np.argsort(-worth, kind="stable")
    wanted = room[order]
    before = np.cumsum(wanted) - wanted
    kept = np.empty_like(room)
    kept[order] = np.clip(memory - before, 0.0, wanted)
    return kept


def shared_out(total: int, least: int, wanted: Amounts) -> Counts:
    """Whole numbers in proportion to what is wanted, none below the least, that add up to the total if it is enough.

    >>> shared_out(10, 1, np.array([3.0, 1.0, 0.0])).tolist(), shared_out(10, 1, np.zeros(3)).tolist()
    ([7, 2, 1], [4, 3, 3])
    """
    free = max(total - least * wanted.size, 0)
    sum_wanted = float(wanted.sum())
    parts = np.maximum(wanted * (total / sum_wanted) - least, 0.0) if sum_wanted > 1e-100 else np.ones(wanted.size)
    parts *= free / max(float(parts.sum()), 1.0)
    shares = np.floor(parts).astype(np.int64)
    # What rounding left over goes where it cut off most.
    most_cut = np.argsort(shares - parts, kind="stable")[: max(free - int(shares.sum()), 0)]
    shares[most_cut] += 1
    return shares + least
