"""What an experiment is: settings by scale, a run that measures, and checks that decide the verdict.

A verdict is never written by hand: it follows from the checks, each of which looks at measured numbers only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Literal

from watersmeet.dataclass import dataclass
from watersmeet.errors import DataError

Scale = Literal["small", "paper", "10x", "100x"]
SCALES: tuple[Scale, ...] = ("small", "paper", "10x", "100x")
Verdict = Literal["reproduced", "reproduced with a difference", "not reproduced"]


Line = Sequence[float | None]


@dataclass(frozen=True)
class Panel:
    """One plot: a line per name over the same x, with the axes of the paper. The title says what is to be seen.

    `bars` is for x that are words. On a logarithmic axis they become points, as a bar there has no foot to stand on.
    `low` and `high` belong to lines that were measured several times, a median say: the least and the most of it, or
    what else `spread` says. They are drawn as error bars, or a band where there are many points, and are in the table.
    `table_only`: the numbers are shown, no plot; for what no axis suits, such as instants.
    """

    title: str
    x_label: str
    y_label: str
    x: Sequence[float | str]
    lines: Mapping[str, Line]
    x_log: bool = False
    y_log: bool = False
    bars: bool = False
    low: Mapping[str, Line] = field(default_factory=dict)
    high: Mapping[str, Line] = field(default_factory=dict)
    spread: str = "the least and the most of several runs"
    table_only: bool = False

    def __post_init__(self) -> None:
        for name, line in self.lines.items():
            if len(line) != len(self.x):
                raise ValueError(f"line {name!r} of {self.title!r} has {len(line)} points for {len(self.x)} of x")
        if set(self.low) != set(self.high) or not set(self.low) <= set(self.lines):
            raise ValueError(f"low and high of {self.title!r} must be of the same lines, which it has")
        for name in self.low:
            for below, value, above in zip(self.low[name], self.lines[name], self.high[name], strict=True):
                if None not in (below, value, above) and not below <= value <= above:  # type: ignore[operator]
                    raise ValueError(f"line {name!r} of {self.title!r} is at {value}, outside of {below} to {above}")


@dataclass(frozen=True)
class Result:
    """What a run measured: its plots, and single numbers by name."""

    panels: Sequence[Panel] = ()
    numbers: Mapping[str, float] = field(default_factory=dict)

    def line(self, name: str, panel: int = 0) -> Sequence[float | None]:
        return self.panels[panel].lines[name]


@dataclass(frozen=True)
class Check:
    """One test of the numbers. What it is of decides what it weighs:

    - a statement of the paper (`essential`): which is better, where a line rises or turns, what is equal; at the
      paper's setting and on the paper's metric. Where one fails the experiment is not reproduced;
    - a `degree`: by how much, in the paper's words or numbers. Where only such fail it is reproduced with a difference;
    - anything else, which weighs nothing: `elsewhere` says at which other setting, on which other metric, or by whose
      machinery.

    `words` are those of the paper that are tested, as printed; the threshold comes from them and was there before the
    run. `why` is the reason for a check that fails, or may fail on some machines and seeds; `note` is what a reader
    must know even where it holds. The report shows all of it whether or not the check holds. `timed` ones look at
    processor time; they compare within one run only.
    """

    says: str
    holds: Callable[[Result], bool]
    degree: bool = False
    elsewhere: str = ""
    words: str = ""
    why: str = ""
    timed: bool = False
    note: str = ""

    def __post_init__(self) -> None:
        if self.degree and self.elsewhere:
            raise ValueError(f"the check {self.says!r} is of a degree, or elsewhere")
        if self.degree and not self.why:
            raise ValueError(f"the check {self.says!r} may fail, so it needs a reason")

    @property
    def essential(self) -> bool:
        return not self.degree and not self.elsewhere


@dataclass(frozen=True)
class ExperimentTrial:
    """What a run is given: its settings, a seed, and a call that tells how far it has come (done, of)."""

    settings: Mapping[str, Any]
    seed: int = 1
    tell: Callable[[int, int], None] = lambda done, of: None

    def seeds(self, count: int) -> list[int]:
        """Several seeds for one figure; those of runs with other seeds below 1,000 are others.

        >>> ExperimentTrial({}, seed=2).seeds(3)
        [2, 1002, 2002]
        """
        return [self.seed + 1000 * number for number in range(count)]


@dataclass(frozen=True)
class Experiment:
    """A figure or table of a paper, or something else of it.

    `settings` holds one set of parameters per scale it makes sense at. `claim` is what a figure shows, in the paper's
    words; of what is no figure, what is asked, in ours. `found` is what came out, in a line; `plot` says which panel is
    the figure's.

    `data` says what it runs over: of generated streams how they are made, of real ones where they come from.
    `reconstructed` says of each setting that the paper does not give what was chosen, and why; settings that are not
    in it are the paper's own, at the scale `paper`. Keys may also be other things that the paper leaves open, such as
    "query". `note` is what a reader must know of the whole experiment, whatever its verdict.
    """

    id: str
    paper: str
    shows: str
    claim: str
    settings: Mapping[Scale, Mapping[str, Any]]
    run: Callable[[ExperimentTrial], Result]
    checks: Sequence[Check]
    data: str = ""
    reconstructed: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
    found: Callable[[Result], str] | None = None
    plot: int = 0

    def __post_init__(self) -> None:
        if "small" not in self.settings:
            raise ValueError(f"{self.id} needs settings for the small scale")
        if not any(check.essential for check in self.checks):
            raise ValueError(f"{self.id} needs a check that can fail it")

    def verdict(self, result: Result) -> Verdict:
        return _verdict([check for check in self.checks if not check.holds(result)])


def _verdict(failed: Sequence[Check]) -> Verdict:
    if any(check.essential for check in failed):
        return "not reproduced"
    return "reproduced with a difference" if any(check.degree for check in failed) else "reproduced"


@dataclass(frozen=True)
class Judgement:
    verdict: Verdict
    held: tuple[Check, ...]
    failed: tuple[Check, ...]


def judge(experiment: Experiment, result: Result) -> Judgement:
    """Look at the numbers only. Numbers that the checks cannot read are of another version of the experiment."""
    try:
        held = tuple(check for check in experiment.checks if check.holds(result))
    except (LookupError, TypeError, ValueError) as error:
        raise DataError(
            f"the checks of {experiment.id} cannot read its numbers ({type(error).__name__}: {error})",
            hint=f"measure them again: watersmeet lab run {experiment.id} --force",
        ) from error
    failed = tuple(check for check in experiment.checks if check not in held)
    return Judgement(_verdict(failed), held, failed)
