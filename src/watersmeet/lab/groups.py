"""What an experiment is of: a figure or table of a paper, or something else of it, which is counted apart."""

from __future__ import annotations

from functools import cache
from typing import Final, Literal

from watersmeet.lab.coverage.table import items
from watersmeet.lab.experiment import Experiment, Verdict

FIGURE: Final = "experiment"  # the kind of those rows of the catalogue that are figures and tables
Group = Literal["figures and tables", "worked examples", "formulas", "extensions", "real data and sensitivity"]
FIGURES: Final = "figures and tables"
BESIDE: Final = "real data and sensitivity"  # what the papers do not have
GROUPS: dict[str, Group] = {
    FIGURE: FIGURES,
    "worked example": "worked examples",
    "formula": "formulas",
    "open": "extensions",
}
# What our own experiments ask holds or does not: nothing was there to be reproduced.
OF_OURS: dict[Verdict, str] = {
    "reproduced": "holds",
    "reproduced with a difference": "holds in part",
    "not reproduced": "does not hold",
}


def group(experiment: Experiment) -> Group:
    """
    >>> from watersmeet.lab import registry
    >>> [group(registry.experiments()[name]) for name in ("K05-E4", "D-W1", "H04-M4", "D-O1", "D-E7s")]
    ['figures and tables', 'worked examples', 'formulas', 'extensions', 'real data and sensitivity']
    """
    kind = _kinds().get(experiment.id)
    return GROUPS.get(kind, BESIDE) if kind else BESIDE


def is_figure(experiment: Experiment) -> bool:
    return group(experiment) == FIGURES


def in_words(experiment: Experiment, verdict: Verdict) -> str:
    """A verdict as it is told: only what a paper has can be reproduced."""
    return verdict if group(experiment) in (FIGURES, "worked examples") else OF_OURS[verdict]


@cache
def _kinds() -> dict[str, str]:
    return {item.id: item.kind for item in items()}
