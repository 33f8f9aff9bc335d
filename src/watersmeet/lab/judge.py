"""What a paper says, held against what was measured: every check of an experiment, and the verdict they give."""

from __future__ import annotations

from dataclasses import dataclass

from watersmeet.errors import DataError
from watersmeet.lab.experiment import Check, Experiment, Result, Verdict


@dataclass(frozen=True)
class Judgement:
    verdict: Verdict
    held: tuple[Check, ...]
    failed: tuple[Check, ...]


def judge(experiment: Experiment, result: Result) -> Judgement:
    """Look at the numbers only. Numbers that the checks cannot read are of another version of the experiment."""
    try:
        held = tuple(check for check in experiment.checks if check.holds(result))
        verdict = experiment.verdict(result)
    except (LookupError, TypeError, ValueError) as error:
        raise DataError(
            f"the checks of {experiment.id} cannot read its numbers ({type(error).__name__}: {error})",
            hint=f"measure them again: watersmeet lab run {experiment.id} --force",
        ) from error
    return Judgement(verdict, held, tuple(check for check in experiment.checks if check not in held))
