"""The commands of the lab: what they do and print. Their arguments are in cli/commands.py."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TextIO

from watersmeet.lab import registry
from watersmeet.lab.circumstances import title
from watersmeet.lab.estimate import Estimate, estimate, long, total
from watersmeet.lab.experiment import SCALES
from watersmeet.lab.groups import in_words
from watersmeet.lab.jobs import Job
from watersmeet.lab.progress import Bars
from watersmeet.lab.runner import ExperimentOutcome, LabChoices, known_record, run_all
from watersmeet.lab.store import records
from watersmeet.model.wording import fitted
from watersmeet.noticing import unheard

Say = Callable[[str], None]


def list_experiments(names: Sequence[str], say: Say) -> None:
    """A line for each experiment: id, scales, what it shows."""
    chosen = registry.select(names or ["all"])
    width = max(len(one.id) for one in chosen)
    scales = {one.id: " ".join(scale for scale in SCALES if scale in one.settings) for one in chosen}
    widest = max(map(len, scales.values()))
    for one in chosen:
        start = f"{one.id:<{width}}  {scales[one.id]:<{widest}}  "
        say(fitted(start + title(one), len(start)))


def run_experiments(
    work: Sequence[Job], choices: LabChoices, say: Say, err: TextIO, *, quiet: bool
) -> list[ExperimentOutcome]:
    """Run what there is; say a verdict each, and at the end how many there are of each kind."""
    expected = _expected(work, choices)
    if not quiet and len(work) > 1:
        print(_outlook(expected), file=err, flush=True)
    outcomes: list[ExperimentOutcome] = []
    seconds = {job: one.seconds if one else 0.0 for job, one in expected.items()}
    apart = len({(job.scale, job.seed) for job in work}) > 1
    with unheard(), Bars(err, seconds, quiet=quiet) as bars:
        for outcome in run_all(work, choices, bars.begin):
            outcomes.append(outcome)
            bars.end()
            for line in _lines(outcome, apart=apart):
                say(fitted(line, 4))
    if len(outcomes) > 1:
        say(_summary(outcomes))
    return outcomes


def foresee(work: Sequence[Job], choices: LabChoices, say: Say) -> None:
    """A line for each job: how long it will take. Nothing is run."""
    expected = _expected(work, choices)
    for job, one in expected.items():
        if one is None:
            words = "measured before"
        elif one.seconds is None:
            words = "never run before"
        else:
            words = f"about {long(one.seconds)}" + (", a guess from another scale" if one.guessed else "")
        say(f"{job.experiment.id}, {job.scale}, seed {job.seed}: {words}")
    say(_outlook(expected))


def _expected(work: Sequence[Job], choices: LabChoices) -> dict[Job, Estimate | None]:
    """How long each will take; None for what need not be run."""
    known = records(choices.results)
    return {
        job: None if job.scale not in job.experiment.settings or known_record(job, choices) else estimate(job, known)
        for job in work
    }


def _outlook(expected: Mapping[Job, Estimate | None]) -> str:
    new = [one for one in expected.values() if one is not None]
    if not new:
        return "nothing to measure: all of it is known"
    before = len(expected) - len(new)
    return (
        f"{len(new)} {'run' if len(new) == 1 else 'runs'} to measure"
        + (f", {before} need not" if before else "")
        + f": {total(new)}"
    )


def _lines(outcome: ExperimentOutcome, *, apart: bool) -> list[str]:
    """The verdict of an outcome, and every check that failed. `apart`: say also at which scale and with which seed."""
    job = outcome.job
    name = f"{job.experiment.id}, {job.scale}, seed {job.seed}" if apart else job.experiment.id
    if outcome.error is not None:
        return [f"{name}: broken: {_told(outcome.error)}"]
    if outcome.judgement is None:
        return [f"{name}: skipped: {outcome.reason}"]
    how = "measured before" if outcome.state == "known" else f"{outcome.seconds:.1f} s"
    lines = [f"{name}: {in_words(job.experiment, outcome.judgement.verdict)} ({how})"]
    for check in outcome.judgement.failed:
        weight = ", a statement" if check.essential else ", a degree" if check.degree else ", elsewhere"
        lines.append(f"  failed{weight}: {check.says}")
        if check.why:
            lines.append(f"    {check.why}")
    return lines


def _told(error: Exception) -> str:
    """What broke and where: the last line of the project that it passed through."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "watersmeet" in frame.filename]
    place = f" ({ours[-1].filename.rpartition('watersmeet')[2][1:]}:{ours[-1].lineno})" if ours else ""
    return f"{type(error).__name__}: {error}{place}"


def _summary(outcomes: Sequence[ExperimentOutcome]) -> str:
    counts = Counter(
        in_words(one.experiment, one.judgement.verdict) if one.judgement else one.state for one in outcomes
    )
    what = "experiments" if len({one.experiment.id for one in outcomes}) == len(outcomes) else "runs"
    return f"{len(outcomes)} {what}: " + ", ".join(f"{count} {what}" for what, count in counts.items())


def went_well(outcomes: Sequence[ExperimentOutcome], *, strict: bool) -> bool:
    """Whether nothing broke and, if strict, everything is reproduced, be it with a difference."""
    if any(one.state == "broken" for one in outcomes):
        return False
    return not strict or all(one.judgement is None or one.judgement.verdict != "not reproduced" for one in outcomes)


def write(results: Path, docs: Path, say: Say) -> None:
    """Write the report, and say where it is."""
    from watersmeet.lab.report import write_report

    written = write_report(results, docs, registry.experiments())
    pages = [path for path in written if path.suffix != ".svg"]
    say(f"wrote {', '.join(map(str, pages))} and {len(written) - len(pages)} plots")


def all_measured(results: Path, say: Say) -> bool:
    """Whether every experiment was measured by the present code, at the paper's scale; say which were not."""
    from watersmeet.lab.report.gather import gather, to_measure

    known = registry.experiments()
    missing = to_measure(gather(results, known))
    for name, why in missing.items():
        say(f"{name}: {why}")
    say(f"{len(known) - len(missing)} of {len(known)} experiments are of the present code, at the paper's scale")
    return not missing


def list_workloads(names: Sequence[str], say: Say) -> None:
    """A line for each workload; for those that are named, also their streams, columns and parameters."""
    from watersmeet.lab.workloads import WORKLOADS, find_workload

    for one in [find_workload(name) for name in names]:
        say(fitted(f"lab:{one.name}: {one.about}"))
        parameters = ", ".join(f"{name} = {value!r}" for name, value in one.parameters.items())
        say(fitted(f"  parameters: {parameters}"))
        for stream, columns in one.columns().items():
            say(fitted(f"  {stream} ({columns})"))
    for one in WORKLOADS.values() if not names else ():
        start = f"lab:{one.name:<10} "
        say(fitted(start + one.about, len(start)))
