"""Medians and how far the single measurements lie apart, as lines of a panel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import TypeVar

from watersmeet.lab.experiment import Line, Panel

K = TypeVar("K")


def in_turn(contenders: Mapping[K, Callable[[], float]], repeats: int) -> dict[K, list[float]]:
    """Measure each several times, in turn, so that a slow minute of the machine hits all alike."""
    samples: dict[K, list[float]] = {name: [] for name in contenders}
    for _ in range(repeats):
        for name, contender in contenders.items():
            samples[name].append(contender())
    return samples


def spread_panel(
    title: str,
    x_label: str,
    y_label: str,
    x: Sequence[float | str],
    samples: Mapping[str, Sequence[Sequence[float]]],
    *,
    more: Mapping[str, Line] | None = None,
    x_log: bool = False,
    y_log: bool = False,
    bars: bool = False,
    spread: str = "the least and the most of several runs",
) -> Panel:
    """A panel of medians, with the least and the most of the samples at each x; `more` are lines without a spread.

    >>> panel = spread_panel("Time", "rows", "s", [1, 2], {"a": [[3, 1, 2], [5, 5]]}, more={"model": [2, 4]})
    >>> panel.lines, panel.low, panel.high
    ({'a': [2, 5.0], 'model': [2, 4]}, {'a': [1, 5]}, {'a': [3, 5]})
    """
    return Panel(
        title,
        x_label,
        y_label,
        x,
        {**{name: [median(one) for one in line] for name, line in samples.items()}, **(more or {})},
        x_log=x_log,
        y_log=y_log,
        bars=bars,
        low={name: [min(one) for one in line] for name, line in samples.items()},
        high={name: [max(one) for one in line] for name, line in samples.items()},
        spread=spread,
    )
