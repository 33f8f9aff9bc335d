"""Experiments in miniature, and results that were tampered with, to see that verdicts notice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from watersmeet.lab.experiment import Experiment, ExperimentTrial, Panel, Result

TIMED = (
    "processing time (s)",
    "maximum input rate (tuples/s)",
    "milliseconds per unit time",
    "µs per row of input",
)
Line = Sequence[float | None]


class Miniatures:
    """The experiments of a paper at their small scale, made quicker still; each is run once for all tests."""

    def __init__(self, experiments: Iterable[Experiment], quicker: Mapping[str, Mapping[str, Any]], seed: int) -> None:
        self.by_id = {one.id: one for one in experiments}
        self._quicker = quicker
        self._seed = seed
        self._results: dict[str, Result] = {}

    def result(self, name: str) -> Result:
        if name not in self._results:
            self._results[name] = self.again(name)
        return self._results[name]

    def again(self, name: str) -> Result:
        settings = {**self.by_id[name].settings["small"], **self._quicker.get(name, {})}
        return self.by_id[name].run(ExperimentTrial(settings, self._seed))

    def failing(self, name: str, result: Result | None = None) -> list[str]:
        """What does not hold of the experiment's own result, if no other is given."""
        return failing(self.by_id[name], self.result(name) if result is None else result)


def failing(experiment: Experiment, result: Result) -> list[str]:
    """What does not hold, without the checks that look at time, which a busy machine may change."""
    return [check.says for check in experiment.checks if not check.timed and not check.holds(result)]


def with_lines(result: Result, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Result:
    """The result with the lines of every panel changed."""
    # What is made up has no spread.
    changed = [replace(one, lines=change(dict(one.lines)), low={}, high={}) for one in result.panels]
    return Result(changed, result.numbers)


def swapped(result: Result, one: str, other: str) -> Result:
    names = {one: other, other: one}
    return with_lines(result, lambda lines: {names.get(name, name): line for name, line in lines.items()})


def without_times(result: Result) -> list[Panel]:
    return [panel for panel in result.panels if "µs" not in panel.y_label]


def with_line(result: Result, panel: int, name: str, change: Callable[[Line], Line]) -> Result:
    """The result with one line of a panel changed."""
    panels = list(result.panels)
    lines = {**panels[panel].lines, name: change(panels[panel].lines[name])}
    panels[panel] = replace(panels[panel], lines=lines, low={}, high={})  # what is made up has no spread
    return replace(result, panels=panels)


def with_number(result: Result, name: str, value: float) -> Result:
    assert name in result.numbers
    return replace(result, numbers={**result.numbers, name: value})


def counted(result: Result) -> object:
    """What must be the same in every run: all but wall time."""
    panels = [
        (one.title, list(one.x), {name: list(line) for name, line in one.lines.items()})
        for one in result.panels
        if one.y_label not in TIMED
    ]
    numbers = {
        name: value
        for name, value in result.numbers.items()
        if not name.startswith(("time", "rate", "best interval by time"))
    }
    return panels, numbers
