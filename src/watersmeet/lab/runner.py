"""Runs experiments one after another and keeps what they measure. What was measured before is not measured again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from watersmeet.errors import SetupError
from watersmeet.lab import store
from watersmeet.lab.experiment import Experiment, ExperimentTrial, Scale
from watersmeet.lab.judge import Judgement, judge
from watersmeet.lab.provenance import code_version, commit, machine

Tell = Callable[[int, int], None]
State = Literal["measured", "known", "skipped", "broken"]


@dataclass(frozen=True)
class ExperimentOutcome:
    """What became of one experiment; the judgement is of the stored numbers. `reason` says why it was skipped."""

    experiment: Experiment
    state: State
    seconds: float = 0.0
    judgement: Judgement | None = None
    reason: str = ""
    error: Exception | None = None


@dataclass(frozen=True)
class LabChoices:
    scale: Scale = "small"
    seed: int = 1
    results: Path = Path("results")
    force: bool = False


def run_all(
    experiments: Sequence[Experiment], choices: LabChoices, begin: Callable[[Experiment], Tell]
) -> Iterator[ExperimentOutcome]:
    """One outcome after another. One that is broken, or lacks something, does not keep the others from running."""
    for experiment in experiments:
        try:
            yield run_one(experiment, choices, begin(experiment))
        except SetupError as error:
            yield ExperimentOutcome(experiment, "skipped", reason=str(error).replace("\nhint: ", "; "))
        except Exception as error:
            yield ExperimentOutcome(experiment, "broken", error=error)


def run_one(experiment: Experiment, choices: LabChoices, tell: Tell = lambda done, of: None) -> ExperimentOutcome:
    settings = experiment.settings.get(choices.scale)
    if settings is None:
        scales = ", ".join(experiment.settings)
        return ExperimentOutcome(experiment, "skipped", reason=f"it has no scale {choices.scale}; it has {scales}")
    known = None if choices.force else _known(experiment, choices)
    record = known or _measure(experiment, choices, tell)
    return ExperimentOutcome(
        experiment, "measured" if known is None else "known", record.seconds, judge(experiment, record.result)
    )


def _known(experiment: Experiment, choices: LabChoices) -> store.Record | None:
    """The stored result, if the same code has measured it with the same settings."""
    record = store.find(choices.results, experiment.id, choices.scale, choices.seed)
    if record is None or record.code != code_version(experiment.paper):
        return None
    return record if record.settings == store.plain(experiment.settings[choices.scale]) else None


def _measure(experiment: Experiment, choices: LabChoices, tell: Tell) -> store.Record:
    settings = experiment.settings[choices.scale]
    started = time.perf_counter()
    result = experiment.run(ExperimentTrial(settings, choices.seed, tell))
    seconds = round(time.perf_counter() - started, 3)
    record = store.Record(
        experiment.id, choices.scale, choices.seed, settings, code_version(experiment.paper), commit(), machine(),
        seconds, result,
    )  # fmt: skip
    # Read back, so that what is judged is what is stored.
    return store.load(store.save(choices.results, record))
