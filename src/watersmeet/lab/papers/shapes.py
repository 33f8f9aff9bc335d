"""What checks ask of the lines of a plot: are they near, level, rising, one below the other?"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import cast

from watersmeet.lab.experiment import Result


def line_of(result: Result, name: str, panel: int = 0) -> list[float]:
    """A line that has no gaps."""
    return [cast(float, y) for y in result.line(name, panel)]


def value_at(result: Result, name: str, x: float, panel: int = 0) -> float:
    """A line where it stands over x, which must be one of the points."""
    y = result.line(name, panel)[list(result.panels[panel].x).index(x)]
    if y is None:
        raise ValueError(f"the line {name!r} has no point at {x:g}")
    return y


def points(result: Result, name: str, panel: int = 0) -> list[tuple[float, float]]:
    """x and y of a line over numbers, gaps left out."""
    both = zip(cast(Sequence[float], result.panels[panel].x), result.line(name, panel), strict=True)
    return [(x, y) for x, y in both if y is not None]


def mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers)


def ratios(above: Sequence[float], below: Sequence[float]) -> list[float]:
    return [one / other for one, other in zip(above, below, strict=True)]


def near(value: float, expected: float, share: float) -> bool:
    """Within a share of what is expected."""
    return abs(value - expected) <= share * abs(expected)


def all_near(numbers: Sequence[float], expected: Sequence[float], share: float) -> bool:
    return all(near(one, other, share) for one, other in zip(numbers, expected, strict=True))


def is_level(numbers: Sequence[float], share: float) -> bool:
    """All within a share of the last."""
    return all(near(one, numbers[-1], share) for one in numbers)


def is_rising(numbers: Sequence[float]) -> bool:
    return all(one < following for one, following in pairwise(numbers))


def is_falling(numbers: Sequence[float]) -> bool:
    return is_rising(numbers[::-1])


def falls_then_rises(numbers: Sequence[float]) -> bool:
    """With its least value inside, not at either end."""
    least = numbers.index(min(numbers))
    return 0 < least < len(numbers) - 1 and is_falling(numbers[: least + 1]) and is_rising(numbers[least:])


def all_below(numbers: Sequence[float], others: Sequence[float]) -> bool:
    return all(one <= other for one, other in zip(numbers, others, strict=True))
