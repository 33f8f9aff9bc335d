"""What stands on top of the report: how to read it, the data, the verdicts, and how the papers are read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache

from watersmeet.lab.circumstances import KINDS, WRITTEN, circumstances, kind_of, title
from watersmeet.lab.experiment import SCALES, Experiment, Scale
from watersmeet.lab.reach import PACKAGE
from watersmeet.lab.readings import CITED, READINGS
from watersmeet.lab.report.blocks import Block, Bullets, Heading, TableBlock, TextBlock
from watersmeet.lab.report.gather import Entry


def opening(entries: Sequence[Entry], conditions: str = "") -> Iterator[Block]:
    yield Heading(1, "Reproduction", "reproduction")
    yield TextBlock(
        "What the experiments of five papers give on this engine. `watersmeet lab report` writes this page from the "
        "numbers in `results/`, and every verdict follows from checks of these numbers, which stand beside the "
        "experiments in `src/watersmeet/lab/papers/`."
    )
    yield Bullets(
        (
            "A check is of a **statement** of the paper (which is better, where a line rises or turns, what is equal), "
            "at the paper's setting and on its metric; or of a **degree** (by how much, in the paper's words); or it "
            "is **elsewhere**, at another setting, on another metric or by other machinery, and weighs nothing.",
            "**Not reproduced**: a statement fails. **Reproduced with a difference**: all statements hold, a degree "
            "fails. **Reproduced**: all of both hold. Reasons and notes are printed whether or not a check holds.",
            "The scale `paper` has the sizes that the paper gives, `small` less, `10x` and `100x` more rows.",
            "A result is **stale** if the code that it ran through, or its settings, have changed since it was "
            "measured.",
            "What was measured several times is a median; its spread stands in brackets, and as bars in plots.",
            "Of every setting the page says whether the paper gives it or it was reconstructed.",
        )
    )
    yield from _data(entries)
    yield from _summary(entries, conditions)
    yield from _readings(entries)


def _data(entries: Sequence[Entry]) -> Iterator[Block]:
    """Which data there are, and which of them are not real."""
    users: dict[str, list[str]] = {}
    for entry in entries:
        users.setdefault(circumstances(entry.experiment).data, []).append(entry.experiment.id)
    kinds = Counter(kind_of(data) for data, ids in users.items() for _ in ids)
    order = (*KINDS.values(), WRITTEN)
    counted = [f"{kinds[kind]} run over {kind}" for kind in order if kinds[kind]]
    yield Heading(2, "Data", "data")
    yield TextBlock(f"Of {len(entries)} experiments {', '.join(counted)}. None of the papers' own data was published.")
    rows = tuple(
        (data, _links(ids)) for data, ids in sorted(users.items(), key=lambda one: order.index(kind_of(one[0])))
    )
    yield TableBlock(("data", "experiments"), rows)


def _summary(entries: Sequence[Entry], conditions: str) -> Iterator[Block]:
    counts = Counter(entry.verdict for entry in entries)
    runs = [run for entry in entries for run in entry.runs]
    stale = sum(run.stale for run in runs)
    yield Heading(2, "Summary", "summary")
    yield TextBlock(
        f"{len(entries)} experiments: "
        + ", ".join(f"{count} {what}" for what, count in counts.items())
        + ", by the paper's scale where that was run. "
        + (f"{stale} of {len(runs)} runs are stale." if stale else f"All {len(runs)} runs are of the present code.")
    )
    if conditions:
        yield TextBlock(conditions)
    scales = [scale for scale in SCALES if any(run.record.scale == scale for run in runs)]
    rows = tuple(
        (
            f"[{entry.experiment.id}](#{entry.experiment.id})",
            title(entry.experiment),
            *(_verdicts(entry, scale) for scale in scales),
        )
        for entry in entries
    )
    yield TableBlock(("experiment", "shows", *scales), rows)


def _verdicts(entry: Entry, scale: Scale) -> str:
    """The verdicts at a scale, and with which seeds they came."""
    runs = [run for run in entry.runs if run.record.scale == scale]
    if not runs:
        return "not run" if scale in entry.experiment.settings else "–"
    seeds: dict[str, list[str]] = {}
    for run in runs:
        words = run.judgement.verdict + (", stale" if run.stale else "")
        seeds.setdefault(words, []).append(str(run.record.seed))
    return "; ".join(f"{words} (seed{'s' * (len(of) > 1)} {', '.join(of)})" for words, of in seeds.items())


def _readings(entries: Sequence[Entry]) -> Iterator[Block]:
    """Where the papers leave something open: those that the experiments cite, or the code of their papers."""
    papers = {entry.experiment.paper for entry in entries}
    cited = {name: _citing(name, entries) for name in READINGS if READINGS[name].paper in papers}
    users = {name: by for name, by in cited.items() if by}
    if not users:
        return
    yield Heading(2, "Readings", "readings")
    yield TextBlock(
        "AMB-n stands for a place where a paper is ambiguous, or contradicts itself. These are cited by experiments "
        "below, or by the code where it follows one; all are in `src/watersmeet/lab/readings.py`."
    )
    rows = tuple(
        (name, READINGS[name].paper, READINGS[name].problem, READINGS[name].reading, by) for name, by in users.items()
    )
    yield TableBlock(("", "paper", "it says", "read as", "cited by"), rows)


def _citing(name: str, entries: Sequence[Entry]) -> str:
    """The experiments whose words cite a reading, and the files that do."""
    ids = [entry.experiment.id for entry in entries if name in CITED.findall(_words(entry.experiment))]
    files = [f"`{file}`" for file, cited in _cited_in_code().items() if name in cited]
    return ", ".join(([_links(ids)] if ids else []) + files)


@cache
def _cited_in_code() -> dict[str, frozenset[str]]:
    """By the files of the papers' own code."""
    paths = [path for folder in ("papers", "lab/papers") for path in sorted((PACKAGE / folder).rglob("*.py"))]
    return {
        path.relative_to(PACKAGE).as_posix(): frozenset(CITED.findall(path.read_text(encoding="utf-8")))
        for path in paths
    }


def _words(experiment: Experiment) -> str:
    """All that is said of an experiment."""
    around = circumstances(experiment)
    checks = [word for check in experiment.checks for word in (check.says, check.why, check.note)]
    said = [experiment.shows, experiment.claim, around.data, around.note, *around.reconstructed.values(), *checks]
    return "\n".join(said)


def _links(ids: Sequence[str]) -> str:
    return ", ".join(f"[{one}](#{one})" for one in ids)
