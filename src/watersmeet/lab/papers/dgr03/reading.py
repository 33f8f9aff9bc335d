"""How checks read results, and how lines are made of several draws."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from watersmeet.lab.experiment import Panel, Result

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
SPREAD = "the least and the most of the draws"
WINDOW = "window size w"


def lines_of_draws(by_x: Sequence[Sequence[Mapping[str, float]]]) -> list[dict[str, Floats]]:
    """The lines of each draw, from what all draws gave at each x."""
    return [{name: np.array([one[name] for one in draw]) for name in draw[0]} for draw in zip(*by_x, strict=True)]


def panel_of(
    title: str, x_label: str, y_label: str, x: Sequence[float], of_draws: Sequence[Mapping[str, Floats]]
) -> Panel:
    """The mean of each line over the draws, with its least and most where there are several."""
    stacked = {name: np.array([one[name] for one in of_draws], np.float64) for name in of_draws[0]}
    lines = {name: line.mean(axis=0).tolist() for name, line in stacked.items()}
    # Lines of the model would hide the bars of the engine's, which they lie upon.
    spread = {name: line for name, line in stacked.items() if len(of_draws) > 1 and not name.endswith("model")}
    low = {name: np.minimum(line.min(axis=0), lines[name]).tolist() for name, line in spread.items()}
    high = {name: np.maximum(line.max(axis=0), lines[name]).tolist() for name, line in spread.items()}
    return Panel(title, x_label, y_label, x, lines, low=low, high=high, spread=SPREAD)


def numbers(result: Result, name: str, panel: int = 0) -> Floats:
    """A line as an array."""
    return np.asarray(result.line(name, panel), np.float64)


def everywhere(condition: Callable[[Result], Bools | bool]) -> Callable[[Result], bool]:
    return lambda result: bool(np.all(condition(result)))


def memories(result: Result) -> Floats:
    return np.asarray(result.panels[0].x, np.float64)


def up_to_w(result: Result) -> Bools:
    """Which memories are at most w."""
    return memories(result) <= result.numbers[WINDOW]


def from_w(result: Result) -> Bools:
    return memories(result) >= result.numbers[WINDOW]


def at_w(result: Result, name: str) -> float:
    return float(numbers(result, name)[memories(result) == result.numbers[WINDOW]][0])
