"""What an experiment is: settings by scale, a run that measures, and checks that decide the verdict.

A verdict is never written by hand: it follows from the checks, each of which looks at measured numbers only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Scale = Literal["small", "paper", "10x", "100x"]
SCALES: tuple[Scale, ...] = ("small", "paper", "10x", "100x")
Verdict = Literal["reproduced", "reproduced with a difference", "not reproduced"]


@dataclass(frozen=True)
class Panel:
    """One plot: a line per name over the same x, with the axes of the paper. `bars` for x that are words."""

    title: str
    x_label: str
    y_label: str
    x: Sequence[float | str]
    lines: Mapping[str, Sequence[float | None]]
    x_log: bool = False
    y_log: bool = False
    bars: bool = False

    def __post_init__(self) -> None:
        for name, line in self.lines.items():
            if len(line) != len(self.x):
                raise ValueError(f"line {name!r} of {self.title!r} has {len(line)} points for {len(self.x)} of x")


@dataclass(frozen=True)
class Result:
    """What a run measured: its plots, and single numbers by name."""

    panels: Sequence[Panel] = ()
    numbers: Mapping[str, float] = field(default_factory=dict)

    def line(self, name: str, panel: int = 0) -> Sequence[float | None]:
        return self.panels[panel].lines[name]


@dataclass(frozen=True)
class Check:
    """One thing the paper says, as a test of the numbers.

    Where an essential one fails the experiment is not reproduced; where another fails it is reproduced with a
    difference, and `why` is the reason given. `timed` ones look at wall time; they compare within one run only.
    """

    says: str
    holds: Callable[[Result], bool]
    essential: bool = True
    why: str = ""
    timed: bool = False

    def __post_init__(self) -> None:
        if not self.essential and not self.why:
            raise ValueError(f"the check {self.says!r} may fail, so it needs a reason")


@dataclass(frozen=True)
class ExperimentTrial:
    """What a run is given: its settings, a seed, and a call that tells how far it has come (done, of)."""

    settings: Mapping[str, Any]
    seed: int = 1
    tell: Callable[[int, int], None] = lambda done, of: None


@dataclass(frozen=True)
class Experiment:
    """A figure or table of a paper. `settings` holds one set of parameters per scale it makes sense at."""

    id: str
    paper: str
    shows: str
    claim: str
    settings: Mapping[Scale, Mapping[str, Any]]
    run: Callable[[ExperimentTrial], Result]
    checks: Sequence[Check]

    def __post_init__(self) -> None:
        if "small" not in self.settings:
            raise ValueError(f"{self.id} needs settings for the small scale")
        if not any(check.essential for check in self.checks):
            raise ValueError(f"{self.id} needs a check that can fail it")

    def verdict(self, result: Result) -> Verdict:
        failed = [check for check in self.checks if not check.holds(result)]
        if any(check.essential for check in failed):
            return "not reproduced"
        return "reproduced with a difference" if failed else "reproduced"
