"""How to part a memory among joins so that together they find most: by marginal recall.

What a join lets go of with less memory is worth less than what it keeps: how much less, its own ranking tells. So of
each is known what it finds, and by how many percent that grows with a percent of memory. Near what it has, recall is
taken for a power of the memory with that exponent. The best parts are those at which a row more would find as much in
any join, by its weight: where the curves are equally steep.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from watersmeet.dataclass import dataclass
from watersmeet.operators.keeping.kernels.priorities import LEVELS, LOWEST, SHIFT

Amounts = npt.NDArray[np.float64]

# Rows that are all worth the same make a straight line, and of a join of three and more it bends upwards: either is
# best filled to the end before the next. A little less than 1, so that parts change no faster than what was measured.
STRAIGHT, FLAT = 0.9, 0.01
LOWEST_PART = 1 / 16  # of the rows that are ranked, by which those at the margin are told
HALVINGS = 100
# What priorities of a level are about.
WORTH: Amounts = ((np.arange(LEVELS, dtype=np.int64) + LOWEST) << SHIFT).view(np.float64)
WORTH[0] = 0.0


@dataclass
class Curve:
    """Of a join: what its windows need, what it had, what part of its results it found with that, by how many percent
    this grows with a percent of memory, and how much it counts."""

    need: float
    had: float
    recall: float
    elasticity: float
    weight: float


def margin_of(sizes: npt.NDArray[np.int64]) -> float:
    """What the ranked rows that are worth least are worth against all, by how many there are of each level.

    >>> sizes = np.zeros(LEVELS, np.int64)
    >>> sizes[[LEVELS // 2, LEVELS // 2 + 16]] = 50, 50  # worth 1 and 2
    >>> round(margin_of(sizes), 3)
    0.667
    """
    total = int(sizes.sum())
    if not total:
        return 1.0
    mean = float(sizes @ WORTH) / total
    lowest = np.diff(np.minimum(np.cumsum(sizes), max(total * LOWEST_PART, 1.0)), prepend=0.0)
    return float(lowest @ WORTH / lowest.sum()) / mean if mean > 0 else 1.0


def best_parts(total: float, least: Amounts, curves: list[Curve]) -> Amounts:
    """The parts of a memory, none below its least. What nobody needs is parted by weight.

    >>> even = [Curve(100.0, 50.0, 0.5, 0.5, 1.0), Curve(100.0, 50.0, 0.5, 0.5, 1.0)]
    >>> best_parts(100.0, np.array([1.0, 1.0]), even).round(3).tolist()
    [50.0, 50.0]
    >>> steeper = [Curve(100.0, 50.0, 0.5, 0.5, 2.0), Curve(100.0, 50.0, 0.5, 0.5, 1.0)]
    >>> best_parts(100.0, np.array([1.0, 1.0]), steeper).round(3).tolist()
    [80.0, 20.0]
    >>> best_parts(400.0, np.array([1.0, 1.0]), steeper).round(3).tolist()
    [233.333, 166.667]
    """
    needs, had, recall, elasticity, weights = (
        np.array([getattr(one, name) for one in curves]) for name in ("need", "had", "recall", "elasticity", "weight")
    )
    needs = np.maximum(needs, least)
    if needs.sum() <= total:
        enough: Amounts = needs + (total - needs.sum()) * weights / weights.sum()
        return enough
    had, exponents = np.maximum(had, 1.0), np.clip(elasticity, FLAT, STRAIGHT)
    steep = np.log(weights * np.maximum(recall, 1e-6) * exponents / had)  # where each is

    def parts(level: float) -> Amounts:
        """Where the curves are as steep as that, in logarithms."""
        steps = np.exp(np.minimum((steep - level) / (1 - exponents), 50.0))
        clipped: Amounts = np.clip(had * steps, least, needs)
        return clipped

    low, high = float(steep.min()) - 50.0, float(steep.max()) + 50.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if parts(middle).sum() > total else (low, middle)
    over = parts(high) - least
    # Straight lines leave a step at the level.
    found: Amounts = least + over * max(total - float(least.sum()), 0.0) / max(float(over.sum()), 1e-9)
    return found
