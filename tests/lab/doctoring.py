"""Results that were tampered with, to see that verdicts notice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from watersmeet.lab.experiment import Result

TIMED = ("processing time (s)", "maximum input rate (tuples/s)")
Line = Sequence[float | None]


def with_line(result: Result, panel: int, name: str, change: Callable[[Line], Line]) -> Result:
    """The result with one line of a panel changed."""
    panels = list(result.panels)
    panels[panel] = replace(panels[panel], lines={**panels[panel].lines, name: change(panels[panel].lines[name])})
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
    numbers = {name: value for name, value in result.numbers.items() if not name.startswith(("time", "rate"))}
    return panels, numbers
