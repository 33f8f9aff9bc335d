"""What there is to report: for each experiment its stored runs, judged again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from watersmeet.dataclass import dataclass
from watersmeet.errors import CatalogError, DataError
from watersmeet.lab.experiment import Experiment, Judgement, Scale, Verdict, judge
from watersmeet.lab.groups import in_words
from watersmeet.lab.jobs import is_current
from watersmeet.lab.store import Record, records

# The scale that is shown in full, if it was run: the paper's own before all others.
WORSE: tuple[Verdict, ...] = ("reproduced", "reproduced with a difference", "not reproduced")
PREFERENCE: tuple[Scale, ...] = ("paper", "small", "10x", "100x")


@dataclass(frozen=True)
class JudgedRun:
    """`stale`: the code that it ran through, or its settings, have changed since."""

    record: Record
    judgement: Judgement
    stale: bool = False


@dataclass(frozen=True)
class Entry:
    """An experiment and its runs, the one to show first; none if it was never run. `unread` are those of an earlier
    version of it, whose numbers its checks cannot read: they are to be measured again."""

    experiment: Experiment
    runs: tuple[JudgedRun, ...]
    unread: tuple[Record, ...] = ()

    @property
    def seeds(self) -> list[JudgedRun]:
        """The runs at the scale that is shown."""
        return [run for run in self.runs if run.record.scale == self.runs[0].record.scale]

    @property
    def judged(self) -> Verdict:
        """The verdict that came with most seeds; of two that came as often the worse."""
        counts = Counter(run.judgement.verdict for run in self.seeds)
        return max(counts, key=lambda one: (counts[one], WORSE.index(one)))

    @property
    def verdict(self) -> str:
        """As it is told, with how many seeds it came if not with all."""
        if not self.runs:
            return "to be measured again" if self.unread else "not run"
        words = in_words(self.experiment, self.judged)
        agree = sum(run.judgement.verdict == self.judged for run in self.seeds)
        return words if agree == len(self.seeds) else f"{words} ({agree} of {len(self.seeds)} seeds)"


def to_measure(entries: Sequence[Entry]) -> dict[str, str]:
    """The experiments whose runs that are shown are not of the present code, or not at the paper's scale, and why."""
    found: dict[str, str] = {}
    for entry in entries:
        name = entry.experiment.id
        if not entry.runs:
            found[name] = entry.verdict
        elif entry.runs[0].record.scale == "small" and "paper" in entry.experiment.settings:
            found[name] = "run at a smaller scale than the paper's"
        elif any(run.stale for run in entry.seeds):
            found[name] = "stale"
    return found


def gather(results: Path, known: Mapping[str, Experiment]) -> list[Entry]:
    stored = [record for record in records(results) if record.experiment in known]
    if not stored:
        raise CatalogError(
            f"there are no results in {results}", hint="run experiments first, for example: watersmeet lab run all"
        )
    return [_entry(one, sorted((r for r in stored if r.experiment == one.id), key=_first)) for one in known.values()]


def _entry(experiment: Experiment, found: Sequence[Record]) -> Entry:
    runs: list[JudgedRun] = []
    unread: list[Record] = []
    for record in found:
        current = is_current(record, experiment)
        try:
            runs.append(JudgedRun(record, judge(experiment, record.result), stale=not current))
        except DataError:
            if current:  # then it is the checks that are wrong
                raise
            unread.append(record)
    return Entry(experiment, tuple(runs), tuple(unread))


def _first(record: Record) -> tuple[int, int]:
    return PREFERENCE.index(record.scale), record.seed
