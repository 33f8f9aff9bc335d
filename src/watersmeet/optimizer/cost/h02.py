"""H02 gives no formulas; this is what its merge join does, in the same unit as the others."""

from __future__ import annotations

from collections.abc import Sequence


def merge_comparisons(rates: Sequence[float], loops: float) -> float:
    """Comparisons a unit of time: the sweep compares each arrival with the heads of the other streams; rows that can
    meet are then joined by nested loops.

    >>> merge_comparisons([10, 20, 30], loops=1000)
    1120
    """
    return sum(rates) * (len(rates) - 1) + loops
