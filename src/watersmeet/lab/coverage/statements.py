"""Of the papers' figures and tables: whether each was run at the paper's setting, and whether its statement held."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from watersmeet.dataclass import dataclass
from watersmeet.lab import registry
from watersmeet.lab.circumstances import circumstances
from watersmeet.lab.coverage.table import CoverageRow
from watersmeet.lab.experiment import Experiment, Verdict
from watersmeet.lab.groups import FIGURE
from watersmeet.lab.report.gather import Entry, JudgedRun, gather

NOT_RUN: Final = "not run"
HELD: Mapping[Verdict, str] = {
    "reproduced": "yes",
    "reproduced with a difference": "in part",
    "not reproduced": "no",
}


@dataclass(frozen=True)
class Statement:
    """`ran` and `held` begin with yes, in part or no; what follows says what stands in the way of more."""

    ran: str
    held: str

    @property
    def was_run(self) -> bool:
        return self.ran.startswith("yes")


UNKNOWN = Statement(NOT_RUN, NOT_RUN)


def statements(results: Path) -> dict[str, Statement]:
    """Of every experiment, by the results that are kept; nothing where none are."""
    if not results.is_dir():
        return {}
    return {entry.experiment.id: _statement(entry) for entry in gather(results, registry.experiments())}


def _statement(entry: Entry) -> Statement:
    if not entry.runs:
        return UNKNOWN
    shown = entry.runs[0]
    ran = _ran(entry.experiment, shown)
    if any(record.scale == "paper" for record in entry.unread):
        ran += "; at the paper's by an earlier version, whose numbers its checks cannot read"
    return Statement(ran, HELD[entry.judged])


def _ran(experiment: Experiment, shown: JudgedRun) -> str:
    """Where the paper gives no sizes there is the small scale alone; what it leaves open was chosen, and is named."""
    if shown.record.scale == "small" and "paper" in experiment.settings:
        return "no, at a smaller one" + (", by older code" if shown.stale else "")
    chosen = ", ".join(circumstances(experiment).reconstructed)
    notes = [f"chosen here: {chosen}"] if chosen else []
    if shown.stale:
        notes.append("by older code")
    return "yes" + (f" ({'; '.join(notes)})" if notes else "")


def tally_of_figures(shown: Sequence[CoverageRow], found: Mapping[str, Statement]) -> str:
    """How many figures and tables were run as the paper has them, and how many of their statements held.

    >>> from watersmeet.lab.coverage.table import rows
    >>> tally_of_figures(rows(), {"K05-E4": Statement("yes (by older code)", "in part")})
    "38 figures and tables: 1 run at the paper's setting; the statement held of 0, in part of 1, not of 0; 37 not run"
    """
    figures = [found.get(row.item.id, UNKNOWN) for row in shown if row.item.kind == FIGURE]
    held = {word: sum(one.held == word for one in figures) for word in ("yes", "in part", "no", NOT_RUN)}
    return (
        f"{len(figures)} figures and tables: {sum(one.was_run for one in figures)} run at the paper's setting; the "
        f"statement held of {held['yes']}, in part of {held['in part']}, not of {held['no']}; "
        f"{held[NOT_RUN]} not run"
    )
