"""What there is to report: for each experiment its stored runs, judged again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from watersmeet.dataclass import dataclass
from watersmeet.errors import CatalogError
from watersmeet.lab.experiment import Experiment, Judgement, Scale, judge
from watersmeet.lab.jobs import is_current
from watersmeet.lab.store import Record, records

# The scale that is shown in full, if it was run: the paper's own before all others.
PREFERENCE: tuple[Scale, ...] = ("paper", "small", "10x", "100x")


@dataclass(frozen=True)
class JudgedRun:
    """`stale`: the code that it ran through, or its settings, have changed since."""

    record: Record
    judgement: Judgement
    stale: bool = False


@dataclass(frozen=True)
class Entry:
    """An experiment and its runs, the one to show first; none if it was never run."""

    experiment: Experiment
    runs: tuple[JudgedRun, ...]

    @property
    def verdict(self) -> str:
        return self.runs[0].judgement.verdict if self.runs else "not run"


def gather(results: Path, known: Mapping[str, Experiment]) -> list[Entry]:
    stored = [record for record in records(results) if record.experiment in known]
    if not stored:
        raise CatalogError(
            f"there are no results in {results}", hint="run experiments first, for example: watersmeet lab run all"
        )
    return [
        Entry(one, tuple(_judged(one, record) for record in sorted(stored, key=_first) if record.experiment == one.id))
        for one in known.values()
    ]


def _judged(experiment: Experiment, record: Record) -> JudgedRun:
    return JudgedRun(record, judge(experiment, record.result), stale=not is_current(record, experiment))


def _first(record: Record) -> tuple[int, int]:
    return PREFERENCE.index(record.scale), record.seed
