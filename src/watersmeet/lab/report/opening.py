"""What stands on top of the report: how to read it, the data, the verdicts, and how the papers are read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from watersmeet.lab.circumstances import KINDS, WRITTEN, circumstances, kind_of, title
from watersmeet.lab.experiment import SCALES, Experiment, Scale
from watersmeet.lab.groups import Group, group, in_words, is_figure
from watersmeet.lab.reach import PACKAGE
from watersmeet.lab.readings import CITED, READINGS
from watersmeet.lab.report.blocks import (
    Block,
    Bullets,
    FigureRow,
    FigureTable,
    Folded,
    Heading,
    Image,
    TableBlock,
    TextBlock,
)
from watersmeet.lab.report.gather import WORSE, Entry
from watersmeet.lab.report.plots import small_name


def opening(entries: Sequence[Entry], plots: Mapping[str, str], folder: str, conditions: str = "") -> Iterator[Block]:
    figures = [entry for entry in entries if is_figure(entry.experiment)]
    others = [entry for entry in entries if not is_figure(entry.experiment)]
    yield Heading(1, "Reproduction", "reproduction")
    yield TextBlock(_counted(figures))
    yield TextBlock(
        "**Not reproduced**: a statement of the paper (which is better, where a line rises or turns, what is equal) "
        "does not hold at its setting, on its metric. **With a difference**: all statements hold, but not by as much "
        "as the paper says. Checks at other settings, on other metrics or by other machinery weigh nothing. Times are "
        "processor time of one thread, of K05 and GO03 in the join's compiled loops alone; beside the papers' they say "
        "nothing. None of the papers' own data was published: of most settings the page says what was chosen."
    )
    if figures:
        yield Heading(2, "Figures and tables", "summary")
        fresh = any(not entry.runs[0].stale for entry in figures if entry.runs)
        yield FigureTable(tuple(_figure(entry, plots, folder, mark_stale=fresh) for entry in figures))
    if others:
        yield Heading(2, "Beside the figures", "beside")
        yield TextBlock(
            "Counted apart: examples of the papers, formulas, extensions of ours to what the papers leave open, the "
            "same questions of real data, and how far an answer hangs on data that were made up. Of these nothing can "
            "be reproduced but the examples: what is asked holds, or does not."
        )
        yield TableBlock(("", "", "verdicts"), tuple(_of_group(name, others) for name in GROUP_NAMES))
    yield Folded("How verdicts come about", (Bullets(RULES), *_stated(conditions)))
    yield Folded("All runs: scales and seeds", tuple(_runs(entries)))
    yield Folded("Data", tuple(_data(entries)))
    yield Folded("Ambiguous places of the papers, and how they are read", tuple(_readings(entries)))


RULES = (
    "`watersmeet lab report` writes this page from the numbers in `results/`, and every verdict follows from checks of "
    "these numbers, which stand beside the experiments in `src/watersmeet/lab/papers/`, with the words of the paper "
    "that they test.",
    "A check is of a **statement** of the paper, at the paper's setting and on its metric; or of a **degree**, by how "
    "much, with a threshold from the paper's words (an order of magnitude is 10, two are 100, `by far` is half as much "
    "again, `almost` leaves a fifth, `the same` a tenth); or it is **elsewhere**, and weighs nothing.",
    "Not reproduced: a statement fails. Reproduced with a difference: a degree fails. Reproduced: all of both hold. Of "
    "several seeds the verdict is that of most. Reasons and notes are printed whether or not a check holds.",
    "The scale `paper` has the sizes that the paper gives, `small` less, `10x` and `100x` more rows.",
    "A result is **stale** if the code that it ran through, or its settings, have changed since it was measured.",
    "What was measured several times is a median; its spread stands in brackets, and as bars in plots.",
    "Of every setting the page says whether the paper gives it or it was chosen here.",
)
GROUP_NAMES: tuple[Group, ...] = ("worked examples", "formulas", "extensions", "real data and sensitivity")


def _counted(figures: Sequence[Entry]) -> str:
    """How many of the figures and tables were reproduced."""
    counts = Counter(entry.judged if entry.runs else "not run" for entry in figures)
    words = ", ".join(f"**{counts[word]} {word}**" for word in (*WORSE, "not run") if counts[word])
    shown = [entry.runs[0] for entry in figures if entry.runs]
    smaller = sum(
        run.record.scale == "small" and "paper" in entry.experiment.settings
        for entry, run in zip((one for one in figures if one.runs), shown, strict=True)
    )
    stale = sum(run.stale for run in shown)
    parts = [f"{len(figures)} figures and tables of five papers, run again on this engine: {words}."]
    if smaller:
        parts.append(f"{smaller} were run at a smaller scale than the paper's.")
    parts.append(f"{stale} of these runs are stale." if stale else "All of these runs are of the present code.")
    return " ".join(parts)


def _figure(entry: Entry, plots: Mapping[str, str], folder: str, *, mark_stale: bool) -> FigureRow:
    """Where all are stale that is said once, above."""
    one = entry.experiment
    name = small_name(one.id)
    plot = Image(name, f"{folder}/{name}.svg", f"{one.id} in small") if name in plots else None
    found, marks = "", ""
    if entry.runs:
        shown = entry.runs[0]
        found = one.found(shown.record.result) if one.found else ""
        marks = ", small scale" if shown.record.scale == "small" and "paper" in one.settings else ""
        marks += ", stale" if shown.stale and mark_stale else ""
    return FigureRow(one.id, one.shows.partition(":")[0], one.claim, found, entry.verdict + marks, plot)


def _of_group(name: Group, entries: Sequence[Entry]) -> tuple[str, ...]:
    """The experiments of a group, by what came out."""
    ours = [entry for entry in entries if group(entry.experiment) == name]
    by_verdict: dict[str, list[str]] = {}
    for entry in ours:
        by_verdict.setdefault(entry.verdict, []).append(entry.experiment.id)
    told = "; ".join(f"{len(ids)} {words}: {_links(ids)}" for words, ids in by_verdict.items())
    return name, str(len(ours)), told


def _stated(conditions: str) -> Iterator[Block]:
    if conditions:
        yield TextBlock(conditions)


def _data(entries: Sequence[Entry]) -> Iterator[Block]:
    """Which data there are, and which of them are not real."""
    users: dict[str, list[str]] = {}
    for entry in entries:
        users.setdefault(circumstances(entry.experiment).data, []).append(entry.experiment.id)
    kinds = Counter(kind_of(data) for data, ids in users.items() for _ in ids)
    order = (*KINDS.values(), WRITTEN)
    counted = [f"{kinds[kind]} run over {kind}" for kind in order if kinds[kind]]
    yield TextBlock(f"Of {len(entries)} experiments {', '.join(counted)}. None of the papers' own data was published.")
    rows = tuple(
        (data, _links(ids)) for data, ids in sorted(users.items(), key=lambda one: order.index(kind_of(one[0])))
    )
    yield TableBlock(("data", "experiments"), rows)


def _runs(entries: Sequence[Entry]) -> Iterator[Block]:
    """The verdicts of every experiment at every scale, with every seed."""
    runs = [run for entry in entries for run in entry.runs]
    stale = sum(run.stale for run in runs)
    yield TextBlock(
        f"{stale} of {len(runs)} runs are stale." if stale else f"All {len(runs)} runs are of the present code."
    )
    tried = {run.record.scale for run in runs} | {record.scale for entry in entries for record in entry.unread}
    scales = [scale for scale in SCALES if scale in tried]
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
        if any(record.scale == scale for record in entry.unread):
            return "to be measured again"
        return "not run" if scale in entry.experiment.settings else "–"
    seeds: dict[str, list[str]] = {}
    for run in runs:
        words = in_words(entry.experiment, run.judgement.verdict) + (", stale" if run.stale else "")
        seeds.setdefault(words, []).append(str(run.record.seed))
    return "; ".join(f"{words} (seed{'s' * (len(of) > 1)} {', '.join(of)})" for words, of in seeds.items())


def _readings(entries: Sequence[Entry]) -> Iterator[Block]:
    """Where the papers leave something open: those that the experiments cite, or the code of their papers."""
    papers = {entry.experiment.paper for entry in entries}
    cited = {name: _citing(name, entries) for name in READINGS if READINGS[name].paper in papers}
    users = {name: by for name, by in cited.items() if by}
    if not users:
        return
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
    checks = [
        word
        for check in experiment.checks
        for word in (check.says, check.words, check.elsewhere, check.why, check.note)
    ]
    said = [experiment.shows, experiment.claim, around.data, around.note, *around.reconstructed.values(), *checks]
    return "\n".join(said)


def _links(ids: Sequence[str]) -> str:
    return ", ".join(f"[{one}](#{one})" for one in ids)
