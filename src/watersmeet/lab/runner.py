"""Runs experiments one after another and keeps what they measure. What was measured before is not measured again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from watersmeet.dataclass import dataclass
from watersmeet.errors import SetupError
from watersmeet.lab import store
from watersmeet.lab.experiment import Experiment, ExperimentTrial, Judgement, judge
from watersmeet.lab.jobs import Job, is_current
from watersmeet.lab.provenance import as_text, commit, fingerprint, machine, modules_behind
from watersmeet.lab.reach import imports_watched

Tell = Callable[[int, int], None]
State = Literal["measured", "known", "skipped", "broken"]


@dataclass(frozen=True)
class ExperimentOutcome:
    """What became of a job; the judgement is of the stored numbers. `reason` says why it was skipped."""

    job: Job
    state: State
    seconds: float = 0.0
    judgement: Judgement | None = None
    reason: str = ""
    error: Exception | None = None

    @property
    def experiment(self) -> Experiment:
        return self.job.experiment


@dataclass(frozen=True)
class LabChoices:
    results: Path = Path("results")
    force: bool = False


def run_all(jobs: Sequence[Job], choices: LabChoices, begin: Callable[[Job], Tell]) -> Iterator[ExperimentOutcome]:
    """One outcome after another. One that is broken, or lacks something, does not keep the others from running."""
    for job in jobs:
        try:
            yield run_one(job, choices, begin(job))
        except SetupError as error:
            yield ExperimentOutcome(job, "skipped", reason=str(error).replace("\nhint: ", "; "))
        except Exception as error:
            yield ExperimentOutcome(job, "broken", error=error)


def run_one(job: Job, choices: LabChoices, tell: Tell = lambda done, of: None) -> ExperimentOutcome:
    experiment = job.experiment
    if job.scale not in experiment.settings:
        scales = ", ".join(experiment.settings)
        return ExperimentOutcome(job, "skipped", reason=f"it has no scale {job.scale}; it has {scales}")
    known = known_record(job, choices)
    record = known or _measure(job, choices, tell)
    return ExperimentOutcome(
        job, "measured" if known is None else "known", record.seconds, judge(experiment, record.result)
    )


def known_record(job: Job, choices: LabChoices) -> store.Record | None:
    """The stored result, if the same code has measured it with the same settings."""
    if choices.force:
        return None
    record = store.find(choices.results, job.experiment.id, job.scale, job.seed)
    return record if record is not None and is_current(record, job.experiment) else None


def _measure(job: Job, choices: LabChoices, tell: Tell) -> store.Record:
    experiment = job.experiment
    settings = experiment.settings[job.scale]
    started = time.perf_counter()
    with imports_watched():
        result = experiment.run(ExperimentTrial(settings, job.seed, tell))
    seconds = round(time.perf_counter() - started, 3)
    behind = as_text(modules_behind(experiment))
    record = store.Record(
        experiment.id, job.scale, job.seed, settings, fingerprint(behind) or "", commit(), machine(), seconds, result,
        behind,
    )  # fmt: skip
    # Read back, so that what is judged is what is stored.
    return store.load(store.save(choices.results, record))
